// Tiles that a counter deals out, launches that leave multiprocessors to others, and launches that overlap the one
// before them. What a kernel stores does not depend on any of it, bit for bit.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "tests/gpu/support/cases.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;

namespace {

using Dims = std::map<std::string, int64_t>;

// A kernel under a static schedule; those with other orders of tiles are called like it.
struct Subject {
  std::string name, text;
  Dims dims;
  const char* schedule;

  // order: "", " dynamic" or " pairs"
  jit::CompiledKernelPtr compile(const std::string& order = "") const {
    INFO(name << ", " << schedule << order);
    return compile_spec(text, dims, schedule + order);
  }
  // A gradient's result has no rows in groups to pair.
  std::vector<std::string> orders() const {
    return name == "moe_fc1_wgrad" ? std::vector<std::string>{" dynamic"}
                                   : std::vector<std::string>{" dynamic", " pairs"};
  }
};

const char* const pointers_spec = R"(
kernel pointers {
  dim   E = 4, K = 192, N = 320
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E][N, K]
  out y : bf16[M, N] = gemm(x, w)
}
)";

// With sums: of columns, and of rows, which launches behind the GEMM finish.
const char* const sums_spec = R"(
kernel sums {
  dim   E = 4, K = 64, N = 320
  group M by E ends i64
  in  x : bf16[M, K]
  in  w : bf16[E, K, N]
  h     = gemm(x, w)
  out y : bf16[N, M] = h
  out r : f32[M]     = sum(h)
  out c : f32[E, N]  = sum(h)
}
)";

std::vector<Subject> subjects() {
  const auto spec = [](const std::string& name) { return file_text("specs/" + name + ".epi"); };
  return {
      {"every_store", every_store_spec, {}, "pingpong 128x128"},
      {"every_store", every_store_spec, {}, "cooperative 128x256"},
      {"grouped_gemm", spec("grouped_gemm"), {{"E", 4}, {"K", 320}, {"N", 704}}, "pingpong 128x192"},
      {"moe_fc1_swiglu", spec("moe_fc1_swiglu"), {{"E", 4}, {"K", 256}, {"I", 320}}, "pingpong 128x128"},
      {"moe_fc2_dgrad_dswiglu", spec("moe_fc2_dgrad_dswiglu"), {{"E", 4}, {"H", 256}, {"I", 320}}, "pingpong 128x128"},
      {"moe_fc1_wgrad", spec("moe_fc1_wgrad"), {{"E", 4}, {"K", 320}, {"I", 192}}, "pingpong 128x128"},
      {"moe_fc1_wgrad", spec("moe_fc1_wgrad"), {{"E", 4}, {"K", 320}, {"I", 192}}, "cooperative 128x256"},
      {"pointers", pointers_spec, {}, "pingpong 128x64"},
      {"sums", sums_spec, {}, "pingpong 128x64"},
  };
}

const std::vector<std::vector<int64_t>>& all_counts() {
  static const std::vector<std::vector<int64_t>> counts = {
      {500, 0, 700, 848}, {0, 0, 0, 0}, {0, 0, 0, 2048}, {1, 1, 1, 1}, {127, 129, 1000, 3}, {2048, 0, 0, 0},
  };
  return counts;
}

std::string difference(const Buffers& a, const Buffers& b) {
  for (const auto& [name, tensor] : a)
    if (tensor.bytes != b.at(name).bytes) return name;
  return a.size() == b.size() ? "" : "other outputs";
}

// What it stores under each of the counts. Rows behind the last group hold NaN in every round.
class Rounds {
 public:
  explicit Rounds(const jit::CompiledKernelPtr& kernel)
      : i64_(kernel->planned.graph.dims.at(grouped(kernel)).sizes_storage == Storage::i64),
        inputs_(made_inputs(kernel, {512, 512, 512, 512}, 0)),
        problem_(kernel, inputs_) {}

  void set(const std::vector<int64_t>& counts, uint8_t poison) {
    interpreter::HostTensor& ends = inputs_.at("M.ends");
    ends = ends_of(counts);
    if (i64_) {
      ends = interpreter::make_tensor(Storage::i64, {static_cast<int64_t>(counts.size())});
      int64_t end = 0;
      for (size_t e = 0; e < counts.size(); ++e)
        interpreter::store_one(ends, static_cast<int64_t>(e), static_cast<double>(end += counts[e]));
    }
    problem_.upload("M.ends", ends);
    problem_.poison(poison);
  }
  Buffers result() {
    problem_.wait();
    return problem_.download();
  }
  Buffers run(const std::vector<int64_t>& counts, uint8_t poison, const runtime::LaunchOptions& options = {}) {
    set(counts, poison);
    must(launch(options));
    return result();
  }
  Status launch(const runtime::LaunchOptions& options = {}) {
    return problem_.call().bound().launch(problem_.call().stream(), options);
  }
  ProblemRun& problem() { return problem_; }
  std::vector<std::string> misplaced_writes() { return must(problem_.call().misplaced_writes(inputs_)); }

 private:
  static size_t grouped(const jit::CompiledKernelPtr& kernel) {
    const auto& dims = kernel->planned.graph.dims;
    const auto found =
        std::find_if(dims.begin(), dims.end(), [](const auto& dim) { return dim.kind == ir::DimKind::grouped; });
    REQUIRE(found != dims.end());
    return static_cast<size_t>(found - dims.begin());
  }

  bool i64_;
  Buffers inputs_;
  ProblemRun problem_;
};

}  // namespace

TEST_CASE("tiles that are dealt out, or in pairs, are the same tiles, whatever the workspace holds") {
  for (const Subject& subject : subjects())
    for (const std::string& order : subject.orders()) {
      INFO(subject.name << ", " << subject.schedule << order);
      Rounds fixed(subject.compile()), dealt(subject.compile(order));
      for (const auto& counts : all_counts())
        for (const uint8_t poison : {uint8_t{0x3F}, uint8_t{0xFF}, uint8_t{0x01}}) {
          INFO("groups of " << counts[0] << ", " << counts[1] << ", " << counts[2] << ", " << counts[3]);
          const Buffers expected = fixed.run(counts, poison);
          CHECK(difference(dealt.run(counts, poison), expected) == "");
          CHECK(difference(dealt.run(counts, poison, {.sm_margin = 131}), expected) == "");
        }
      // Many in a row, without anything between them that could put the counter right.
      const std::vector<int64_t>& counts = all_counts()[0];
      const bool adds = subject.name == "moe_fc1_wgrad";
      const Buffers expected = fixed.run(counts, 0x3F);
      dealt.set(counts, 0x3F);
      for (int i = 0; i < (adds ? 1 : 200); ++i) must(dealt.launch({.sm_margin = i % 7}));
      CHECK(difference(dealt.result(), expected) == "");
      CHECK(dealt.misplaced_writes() == std::vector<std::string>{});
    }
}

TEST_CASE("a captured graph deals tiles out, or has them in pairs, for other counts at each replay") {
  for (const Subject& subject : subjects())
    for (const std::string& order : subject.orders()) {
      INFO(subject.name << ", " << subject.schedule << order);
      Rounds fixed(subject.compile()), dealt(subject.compile(order));
      const cuda::Stream stream = dealt.problem().call().stream();
      const auto graph = must(runtime::CapturedGraph::capture(gpu().device, stream, [&] { return dealt.launch(); }));
      for (const auto& counts : all_counts()) {
        dealt.set(counts, 0xA5);
        must(graph.replay(stream));
        const Buffers found = dealt.result();
        CHECK(difference(found, fixed.run(counts, 0xA5)) == "");
      }
    }
}

TEST_CASE("two streams with two workspaces deal out their own tiles") {
  const Subject subject = subjects()[3];
  const auto kernel = subject.compile(" dynamic");
  Rounds fixed(subject.compile());
  std::vector<std::unique_ptr<Rounds>> rounds;
  std::vector<Buffers> expected;
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<int64_t>& counts = all_counts()[i == 0 ? 0 : 4];
    rounds.push_back(std::make_unique<Rounds>(kernel));
    expected.push_back(fixed.run(counts, 0x3F));
    rounds.back()->set(counts, 0x3F);
  }
  std::string errors[2];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 300 && errors[i].empty(); ++round)
        if (const Status launched = rounds[i]->launch(); !launched) errors[i] = launched.error().message;
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 2; ++i) {
    CHECK(errors[i] == "");
    CHECK(difference(rounds[i]->result(), expected[i]) == "");
  }
}

namespace {

// One block holds a multiprocessor, by its shared memory, for a time.
constexpr auto hold_source = R"(
struct Parameters {
  int* started;
  long long nanoseconds;
};
extern "C" __global__ void hold_entry(const __grid_constant__ Parameters p) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  if (threadIdx.x == 0) atomicAdd(p.started, 1);
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - start < p.nanoseconds);
}
)";

constexpr int held = 20;

LaunchRecipe hold_recipe() {
  LaunchRecipe r;
  r.kernel = "hold";
  r.tensors = {{"started", Storage::i32, TensorRole::output, {1}, false, 4}};
  r.symbols = {{"T", SymbolKind::fixed, 1}};
  RecipeStep step;
  step.entry = "hold_entry";
  step.block = 32;
  step.shared_bytes = 200 * 1024;
  step.grid = held;
  step.parameter_bytes = 16;
  step.fields = {{"started", FieldKind::address, 0, 8, "started"},
                 {"nanoseconds", FieldKind::integer64, 8, 8, "", IntExpr::symbol("T")}};
  r.steps = {step};
  return r;
}

// Holds multiprocessors on a stream of its own.
class Holder {
 public:
  Holder()
      : module_(compile_module(hold_source, hold_recipe())),
        started_(must(runtime::DeviceBuffer::allocate(gpu().device, 4))),
        stream_(must(runtime::make_stream(gpu().device))) {
    runtime::Arguments arguments;
    arguments.tensors = {{"started", started_.pointer(), {1}, {}, {}}};
    arguments.dims = {{"T", 20'000'000}};
    call_.emplace(must(runtime::bind_call(module_, arguments)));
  }
  // Returns when the multiprocessors are held.
  void hold() {
    must(started_.fill(0, stream_.get()));
    must(call_->launch(stream_.get()));
    while (download<int>(started_)[0] != held) {
    }
  }
  void wait() { must(call_->synchronize(stream_.get())); }

 private:
  runtime::ModulePtr module_;
  runtime::DeviceBuffer started_;
  runtime::OwnedStream stream_;
  std::optional<runtime::BoundCall> call_;
};

}  // namespace

TEST_CASE("beside a kernel that holds 20 multiprocessors, each scheduler is right; what each loses is printed") {
  const Dims dims = {{"E", 8}, {"K", 1024}, {"N", 2048}};
  const Subject subject{"grouped_gemm", file_text("specs/grouped_gemm.epi"), dims, "pingpong 128x128"};
  const std::vector<int64_t> counts = {2048, 1500, 3000, 0, 2500, 1, 3287, 4048};
  const auto kernels = {subject.compile(), subject.compile(" dynamic"), subject.compile(" pairs")};
  const Buffers inputs = made_inputs(*kernels.begin(), counts, 0);
  std::vector<std::unique_ptr<ProblemRun>> problems;
  for (const auto& kernel : kernels) problems.push_back(std::make_unique<ProblemRun>(kernel, inputs));
  const Buffers expected = problems[0]->run(0x3F);
  Holder holder;
  auto timer = must(runtime::Timer::make(gpu().device));
  const auto run = [&](ProblemRun& problem, int margin, bool beside) {
    std::vector<double> times;
    for (int round = 0; round < 7; ++round) {
      problem.poison(0x3F);
      problem.wait();
      if (beside) holder.hold();
      const cuda::Stream stream = problem.call().stream();
      must(timer.start(stream));
      must(problem.call().bound().launch(stream, margin));
      must(timer.stop(stream));
      times.push_back(must(timer.milliseconds()));
      if (beside) holder.wait();
      CHECK(difference(problem.download(), expected) == "");
    }
    std::nth_element(times.begin(), times.begin() + 3, times.end());
    return times[3];
  };
  struct Line {
    const char* name;
    size_t problem;
    int margin;
  };
  const std::vector<Line> lines = {{"static", 0, 0},
                                   {"dynamic", 1, 0},
                                   {"pairs", 2, 0},
                                   {"static, sm_margin 20", 0, held},
                                   {"dynamic, sm_margin 20", 1, held},
                                   {"pairs, sm_margin 20", 2, held}};
  for (const Line& line : lines) {
    const double alone = run(*problems[line.problem], line.margin, false);
    const double beside = run(*problems[line.problem], line.margin, true);
    std::printf("%-22s alone %.3f ms, beside a kernel on %d multiprocessors %.3f ms (%.2f x)\n", line.name, alone, held,
                beside, beside / alone);
  }
}

namespace {

// Lets the next launch start at once, waits, and writes the group sizes 100 us later: who read them without waiting
// would find those of the round before.
constexpr auto late_source = R"(
struct Parameters {
  const int* from;
  int* ends;
  long long words;
};
extern "C" __global__ void late_entry(const __grid_constant__ Parameters p) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - start < 100000);
  for (int e = threadIdx.x; e < p.words; e += blockDim.x) p.ends[e] = p.from[e];
}
)";

LaunchRecipe late_recipe() {
  const IntExpr words = IntExpr::symbol("W");
  LaunchRecipe r;
  r.kernel = "late";
  r.tensors = {{"from", Storage::i32, TensorRole::input, {words}, false, 4},
               {"ends", Storage::i32, TensorRole::output, {words}, false, 4}};
  r.symbols = {{"W", SymbolKind::launch, 1}};
  RecipeStep step;
  step.entry = "late_entry";
  step.block = 32;
  step.grid = 1;
  step.waits = true;
  step.parameter_bytes = 24;
  step.fields = {{"from", FieldKind::address, 0, 8, "from"},
                 {"ends", FieldKind::address, 8, 8, "ends"},
                 {"words", FieldKind::integer64, 16, 8, "", words}};
  r.steps = {step};
  return r;
}

const char* const pass_spec = R"(
kernel pass {
  dim   E = 4, N = 320
  group M by E
  group P = M align 128
  in  x : bf16[M, N]
  out y : mxfp8[N, P] = x
  out s : f32[E, N]   = sum(x)
  out e : i32[E]      = P.ends
}
)";

}  // namespace

TEST_CASE("B103 overlapped: group sizes that a kernel writes after it has let the next one start") {
  std::vector<std::pair<std::string, jit::CompiledKernelPtr>> kernels;
  for (const Subject& subject : subjects())
    if (subject.name != "sums")  // its sizes are of another width
      for (const std::string& order : {std::string(), subject.orders().back()})
        kernels.push_back({subject.name + ", " + subject.schedule + order, subject.compile(order)});
  for (const char* schedule : {"", "pointwise"})
    kernels.push_back({std::string("pass ") + schedule, compile_spec(pass_spec, {}, schedule)});
  const auto late = compile_module(late_source, late_recipe());
  for (const auto& [name, kernel] : kernels) {
    INFO(name);
    Rounds rounds(kernel);
    const cuda::Stream stream = rounds.problem().call().stream();
    std::vector<runtime::DeviceBuffer> from;
    std::vector<runtime::BoundCall> writers;
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0, 2048, 0, 0}, {1, 2, 3, 2042}}) {
      from.push_back(upload(ends_of(counts).bytes));
      runtime::Arguments arguments;
      arguments.tensors = {{"from", from.back().pointer(), {4}, {}, {}},
                           {"ends", rounds.problem().call().memory("M.ends").pointer(), {4}, {}, {}}};
      writers.push_back(must(runtime::bind_call(late, arguments)));
    }
    // Under one set of sizes and then the other: what the kernel has read of the first must not be found again.
    const auto enqueue = [&](size_t first, bool overlap) -> Status {
      const runtime::LaunchOptions options{.overlap_previous = overlap};
      for (const size_t set : {first, 1 - first}) {
        if (Status launched = writers[set].launch(stream, options); !launched) return launched;
        if (Status launched = rounds.launch(options); !launched) return launched;
      }
      return {};
    };
    Buffers expected[2];
    for (const size_t first : {0, 1}) {
      rounds.problem().poison(0x3F);
      must(enqueue(first, false));
      expected[first] = rounds.result();
    }
    CHECK(difference(expected[0], expected[1]) != "");
    int wrong = 0;
    for (size_t round = 0; round < 40; ++round) {
      rounds.problem().poison(0x3F);
      must(enqueue(round % 2, true));
      wrong += difference(rounds.result(), expected[round % 2]) != "";
    }
    CHECK(wrong == 0);
    for (const size_t first : {0, 1}) {
      const auto graph =
          must(runtime::CapturedGraph::capture(gpu().device, stream, [&] { return enqueue(first, true); }));
      for (int replay = 0; replay < 5; ++replay) {
        rounds.problem().poison(0x3F);
        must(graph.replay(stream));
        CHECK(difference(rounds.result(), expected[first]) == "");
      }
    }
  }
}

TEST_CASE("B106 overlapped: FC2 reads what FC1 stores, a thousand chains bit for bit") {
  constexpr int64_t hidden = 256, width = 512, rows = 2048;
  const std::vector<int64_t> counts = {500, 0, 700, 848};
  for (const char* kind : {"", " dynamic"}) {
    INFO("tiles" << (*kind ? kind : " by index"));
    const std::string schedule = std::string("pingpong 128x128") + kind;
    const auto fc1 =
        compile_spec(file_text("specs/grouped_gemm_swiglu.epi"), {{"E", 4}, {"K", hidden}, {"I", width}}, schedule);
    const auto fc2 =
        compile_spec(file_text("specs/grouped_gemm.epi"), {{"E", 4}, {"K", width}, {"N", hidden}}, schedule);
    ProblemRun first(fc1, made_inputs(fc1, counts, 0));
    const Buffers inputs = made_inputs(fc2, counts, 0, 2);
    Memory memory(16 << 20);
    const auto w = memory.place("w", inputs.at("w"));
    memory.put(w, inputs.at("w").bytes);
    interpreter::HostTensor out = output_shapes(fc2, inputs).at("y"),
                            workspace = interpreter::make_tensor(Storage::e8m0, {4096});
    const auto y = memory.place("y", out), kept = memory.place("kept", out);
    const auto scratch = memory.place("workspace", workspace);
    runtime::Arguments arguments;
    arguments.dims = fc2->dims();
    arguments.tensors = {w,
                         y,
                         {"x", first.call().memory("y").pointer(), {rows, width}, {}, {}},
                         {"M.ends", first.call().memory("M.ends").pointer(), {4}, {}, {}}};
    arguments.workspace = {scratch.pointer, 4096};
    const auto second = must(runtime::bind_call(must(engine().load(fc2, gpu().device)).module, arguments));
    const cuda::Stream stream = first.call().stream();
    const auto enqueue = [&](bool overlap) {
      const runtime::LaunchOptions options{.overlap_previous = overlap};
      must(first.call().bound().launch(stream, options));
      must(second.launch(stream, options));
    };
    enqueue(false);
    must(second.synchronize(stream));
    memory.get(y, out);
    memory.put(kept, out.bytes);
    const BitComparison comparison;
    const auto compare = comparison.bind(kept.pointer, y.pointer, out.bytes.size());
    for (int i = 0; i < 1000; ++i) {
      if (i % 50 == 0) {
        first.poison(0xFF);
        memory.put(y, std::vector<uint8_t>(out.bytes.size(), 0xFF));
      }
      enqueue(true);
      must(compare.launch(stream));
    }
    must(compare.synchronize(stream));
    CHECK(comparison.different_words() == 0);

    auto timer = must(runtime::Timer::make(gpu().device));
    const auto time = [&](bool overlap) {
      must(timer.start(stream));
      for (int i = 0; i < 200; ++i) enqueue(overlap);
      must(timer.stop(stream));
      return must(timer.milliseconds()) * 1000 / 400;
    };
    time(true);
    const double apart = time(false), overlapped = time(true);
    std::printf("a chain of short kernels%s: %.2f us each, overlapped %.2f us\n", kind, apart, overlapped);
  }
}
