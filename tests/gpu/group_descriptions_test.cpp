// Groups described in every way (language.md S5, S6) by every family of kernels on the device: where they end or how
// many rows they have, in 32 or 64 bits; one behind the other, aligned, or in slots; and where they end stored.
#include <fmt/format.h>

#include "compiler/compiler.h"
#include "compiler/interpreter/parallel.h"
#include "jit/verify.h"
#include "runtime/stream.h"
#include "tests/gpu/support/cases.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

// A kernel with its groups' sizes described as `clause` says; P is their aligned form.
struct Kernel {
  const char* name;
  const char* body;
  const char* schedule = "";
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> list = {
      {"rows",
       "in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in r : f32[M] = 1\n  h = gemm(x, w) * r\n  out y : bf16[M, N] = "
       "h\n"
       "  out yt : bf16[N, P] = h\n  out q : mxfp8[M, N] = h\n  out row : f32[M] = sum(h)\n"
       "  out col : f32[E, N] += sum(h)\n  out ends : i32[E] = P.ends"},
      {"rows, in place",
       "in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in z : bf16[M, N]\n  out y : bf16[N, M] = gemm(x, w) + z"},
      {"wgrad stored",
       "in g : bf16[M, N]\n  in x : bf16[M, K]\n  out w : f32[E, N, K] = gemm(g, x)\n  out ends : i32[E] = P.ends"},
      {"wgrad added",
       "in g : bf16[M, N]\n  in x : bf16[M, K]\n  h = gemm(g, x)\n  out w : f32[E, N, K] += h\n"
       "  out s : f32[E, K] += sum(h)"},
      {"pass",
       "in x : bf16[M, N]\n  in b : f32[E, N]\n  v = x * b\n  out y : bf16[M, N] = v\n  out yt : bf16[N, P] = v\n"
       "  out col : f32[E, N] = sum(v)\n  out ends : i32[E] = P.ends"},
      {"pointwise",
       "in x : bf16[M, N]\n  in b : f32[E, N]\n  v = x * b\n  out y : bf16[M, N] = v\n  out yt : bf16[N, P] = v\n"
       "  out row : f32[M] = amax(v)\n  out col : f32[E, N] += sum(v)\n  out ends : i32[E] = P.ends",
       "pointwise"},
  };
  return list;
}

std::string text_of(const Kernel& kernel, const std::string& clause, int experts, int aligned = 128) {
  return fmt::format(
      "kernel test {{\n  dim E = {}, K = 72, N = 128\n  dyn C\n  group M by E {}\n  group P = M align {}\n  {}\n}}\n",
      experts, clause, aligned, kernel.body);
}

// A dyn that nothing has is an error of the spec.
std::string without_unused_dyn(std::string text) {
  if (text.find("slot C") == std::string::npos) text.erase(text.find("  dyn C\n"), 8);
  return text;
}

// A kernel under a schedule, with the problems that it is to solve.
struct Job {
  std::string text, schedule;
  std::vector<jit::VerifyOptions> problems;
};

// All are compiled at once; then each is verified with whole numbers and with others.
void verify(const std::vector<Job>& jobs) {
  std::vector<jit::CompiledKernelPtr> compiled(jobs.size());
  std::vector<std::string> refused(jobs.size());
  const auto target = gpu_target();
  engine();
  interpreter::parallel_for(static_cast<int64_t>(jobs.size()), 0, [&](int64_t i) {
    const Job& job = jobs[static_cast<size_t>(i)];
    MemorySource no_files({});
    Diagnostics diagnostics;
    const Program program = load_program("spec.epi", job.text, no_files, diagnostics);
    CompilerOptions options;
    options.schedule = job.schedule;
    options.target = target;
    const auto made = engine().compile(program, "", options, diagnostics);
    if (made) compiled[static_cast<size_t>(i)] = made->value_or(nullptr);
    refused[static_cast<size_t>(i)] = made ? diagnostics.print() : made.error().message;
  });
  for (size_t i = 0; i < jobs.size(); ++i) {
    INFO(jobs[i].text << refused[i]);
    REQUIRE(compiled[i]);
    CHECK(compiled[i]->image.spill_bytes == 0);
    for (jit::VerifyOptions options : jobs[i].problems)
      for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::normal}) {
        options.inputs.mode = mode;
        options.inputs.seed += 1;
        const auto report = must(jit::verify(engine(), compiled[i], options, gpu().device));
        INFO(compiled[i]->schedule() << ", mode " << static_cast<int>(mode) << "\n" << report.print());
        CHECK(report.ok);
      }
  }
}

constexpr int64_t slot = 320;

const std::vector<std::vector<int64_t>>& ragged_sets() {
  static const std::vector<std::vector<int64_t>> sets = {
      {0, 1, 127, 129, slot, 0}, {0, 0, 0, 0, 0, 200}, {slot, slot, slot, slot, slot, slot}, {0, 0, 0, 0, 0, 0}};
  return sets;
}

// What a group clause may say: each kind and width of sizes with each way to lay groups out.
const std::vector<std::string>& clauses() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> all;
    for (const char* sizes : {"ends", "counts", "ends i64", "counts i64"})
      for (const char* where : {"", " align 128", " align 48", " slot 320", " slot C"})
        all.push_back(std::string(sizes) + where);
    return all;
  }();
  return list;
}

Job job_of(const Kernel& kernel, const std::string& clause) {
  Job job{without_unused_dyn(text_of(kernel, clause, 6)), kernel.schedule, {}};
  for (size_t set = 0; set < ragged_sets().size(); ++set) {
    jit::VerifyOptions options;
    options.inputs.counts = ragged_sets()[set];
    options.inputs.slack_rows = set % 2 == 0 ? 0 : 37;
    options.inputs.seed = 10 * set;
    if (clause.ends_with("slot C")) options.inputs.sizes["C"] = slot;
    job.problems.push_back(std::move(options));
  }
  return job;
}

const Kernel& kernel_named(std::string_view name) {
  for (const Kernel& kernel : kernels())
    if (kernel.name == name) return kernel;
  FAIL("no kernel " << name);
  return kernels()[0];
}

}  // namespace

TEST_CASE("groups in every description: gemms") {
  std::vector<Job> jobs;
  for (const std::string& clause : clauses())
    for (const char* name : {"rows", "wgrad stored", "wgrad added"}) jobs.push_back(job_of(kernel_named(name), clause));
  verify(jobs);
}

TEST_CASE("groups in every description: kernels without gemm, and a transposed result in place") {
  std::vector<Job> jobs;
  for (const std::string& clause : clauses())
    for (const char* name : {"pass", "pointwise", "rows, in place"}) jobs.push_back(job_of(kernel_named(name), clause));
  verify(jobs);
}

TEST_CASE("one group, and three hundred, of every description") {
  std::vector<Job> jobs;
  for (const char* clause : {"ends align 96", "counts i64 align 48", "counts slot 64", "ends i64 slot 64"})
    for (const Kernel& kernel : kernels())
      for (const int experts : {1, 300}) {
        jit::VerifyOptions options;
        options.inputs.counts.emplace();
        for (int e = 0; e < experts; ++e) options.inputs.counts->push_back(experts == 1 ? 61 : (e * 37) % 65);
        jobs.push_back({without_unused_dyn(text_of(kernel, clause, experts, 96)), kernel.schedule, {options}});
      }
  verify(jobs);
}

TEST_CASE("groups without rows may say that they end where the one before does") {
  std::vector<Job> jobs;
  for (const char* clause : {"ends align 128", "ends i64 align 48", "ends slot 320", "ends i64 slot 320"})
    for (const Kernel& kernel : kernels()) {
      const std::string text = without_unused_dyn(text_of(kernel, clause, 5));
      const bool slots = text.find("slot") != std::string::npos, wide = text.find("i64") != std::string::npos;
      // Rows 0 to 40, none, none, 70 from where the fourth group starts, none.
      const int64_t start = slots ? 3 * slot : text.find("M by E ends i64 align 48") != std::string::npos ? 48 : 128;
      HostTensor ends = interpreter::make_tensor(wide ? Storage::i64 : Storage::i32, {5});
      const int64_t values[] = {40, 40, 40, start + 70, start + 70};
      for (int64_t e = 0; e < 5; ++e) interpreter::store_one(ends, e, static_cast<double>(values[e]));
      jit::VerifyOptions options;
      options.inputs.given["M.ends"] = std::move(ends);
      jobs.push_back({text, kernel.schedule, {options}});
    }
  verify(jobs);
}

TEST_CASE("ends are stored under any margin, and by a captured launch for the groups of its replay") {
  const auto kernel = compile_spec(without_unused_dyn(text_of(kernel_named("rows"), "counts slot 320", 6)));
  const auto ends_of = [](const Buffers& outputs) {
    std::vector<int64_t> values;
    for (int64_t e = 0; e < 6; ++e) values.push_back(interpreter::load_integer(outputs.at("ends"), e));
    return values;
  };
  const auto expected = [](const std::vector<int64_t>& counts) {
    std::vector<int64_t> values;
    int64_t end = 0;
    for (const int64_t count : counts) values.push_back(end += (count + 127) / 128 * 128);
    return values;
  };
  ProblemRun run(kernel, made_inputs(kernel, ragged_sets()[0], 0));
  for (const int margin : {0, 1, gpu().device->info().sm_count - 1})
    CHECK(ends_of(run.run(0xFF, margin)) == expected(ragged_sets()[0]));

  const auto graph =
      must(runtime::CapturedGraph::capture(gpu().device, run.call().stream(), [&] { return run.enqueue(); }));
  for (const std::vector<int64_t>& counts : ragged_sets()) {
    HostTensor sizes = interpreter::make_tensor(Storage::i32, {6});
    for (int64_t e = 0; e < 6; ++e)
      interpreter::store_one(sizes, e, static_cast<double>(counts[static_cast<size_t>(e)]));
    run.upload("M.counts", sizes);
    run.poison(0xAA);
    must(graph.replay(run.call().stream()));
    run.wait();
    CHECK(ends_of(run.download()) == expected(counts));
  }
}
