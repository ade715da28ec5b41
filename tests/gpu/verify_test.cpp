// Every example spec against the interpreter, over group sizes and shapes that break kernels.
#include "jit/verify.h"

#include "tests/gpu/support/kernels.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::DataMode;

namespace {

constexpr int64_t slack = 37;  // rows behind the last group

struct Set {
  std::string name;
  std::map<std::string, int64_t> dims;
  std::vector<std::optional<std::vector<int64_t>>> counts;  // nothing: at random
  int64_t slack_rows = slack;
  bool may_be_refused = false;
};

std::vector<int64_t> all_in_last(size_t groups, int64_t rows) {
  std::vector<int64_t> counts(groups, 0);
  counts.back() = rows;
  return counts;
}

// Sets for a kernel whose dims are `graph`'s: the group count gets `groups`, K `depth`, all others `columns`.
std::map<std::string, int64_t> dims_of(const ir::Graph& graph, int64_t groups, int64_t depth, int64_t columns) {
  std::map<std::string, int64_t> dims;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed) dims[dim.name] = dim.name == "K" ? depth : columns;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::grouped) dims[graph.dims[static_cast<size_t>(dim.cut_by)].name] = groups;
  return dims;
}

std::vector<Set> ragged_sets(const ir::Graph& graph) {
  const std::vector<int64_t> uneven = {0, 1, 127, 129, 1000, 0, 4096};
  return {
      {"uneven groups", dims_of(graph, 7, 512, 256), {uneven}},
      {"capacity reached", dims_of(graph, 7, 512, 256), {uneven}, 0},
      {"all in the last group, and all empty", dims_of(graph, 8, 256, 128), {all_in_last(8, 1000), all_in_last(8, 0)}},
      {"128 groups of 0 to 300", dims_of(graph, 128, 256, 128), {std::nullopt}},
      {"hidden 2880", dims_of(graph, 4, 2880, 2880), {{{0, 301, 64, 0}}}},
      {"columns in steps of 8", dims_of(graph, 3, 72, 200), {{{33, 0, 130}}}, slack, true},
  };
}

std::vector<Set> dense_sets(const ir::Graph& graph) {
  return {{"dense", dims_of(graph, 0, 512, 256), {}}, {"dense, hidden 2880", dims_of(graph, 0, 2880, 2880), {}}};
}

void check(const jit::CompiledKernelPtr& kernel, jit::VerifyOptions options, DataMode mode, uint64_t seed) {
  options.inputs.mode = mode;
  options.inputs.seed = seed;
  const auto report = must(jit::verify(engine(), kernel, options, gpu().device));
  INFO("mode " << static_cast<int>(mode) << "\n" << report.print());
  CHECK(report.ok);
}

void check_all_modes(const jit::CompiledKernelPtr& kernel, const jit::VerifyOptions& options) {
  uint64_t seed = 0;
  for (const DataMode mode : {DataMode::integers, DataMode::normal, DataMode::scaled})
    check(kernel, options, mode, ++seed);
}

}  // namespace

TEST_CASE("every example is right on ragged groups") {
  for (const std::string& path : spec_files()) {
    const std::string text = file_text(path);
    const ir::Graph graph = graph_of_spec(text);
    const bool grouped = std::any_of(graph.dims.begin(), graph.dims.end(),
                                     [](const ir::Dimension& dim) { return dim.kind == ir::DimKind::grouped; });
    for (const Set& set : grouped ? ragged_sets(graph) : dense_sets(graph)) {
      INFO(path << ", " << set.name);
      std::string why;
      const auto kernel = compile_or_refuse(text, set.dims, why);
      if (!kernel && set.may_be_refused) continue;
      INFO(why);
      REQUIRE(kernel);
      CHECK(kernel->image.spill_bytes == 0);
      jit::VerifyOptions options;
      options.inputs.slack_rows = set.slack_rows;
      for (const auto& counts : set.counts) {
        options.inputs.counts = counts;
        check_all_modes(kernel, options);
      }
      if (grouped) continue;
      for (const int64_t rows : {0, 1, 127, 129, 1000}) {
        for (const ir::Dimension& dim : graph.dims)
          if (dim.kind == ir::DimKind::dynamic) options.inputs.sizes[dim.name] = rows;
        check_all_modes(kernel, options);
      }
    }
  }
}

TEST_CASE("a margin of multiprocessors changes nothing but the time") {
  const auto kernel = compile_spec(file_text("specs/moe_fc1_swiglu.epi"), {{"E", 4}, {"K", 256}, {"I", 256}});
  jit::VerifyOptions options;
  options.inputs.counts = {{300, 0, 513, 77}};
  for (const int margin : {1, 16, gpu().device->info().sm_count - 1}) {
    options.sm_margin = margin;
    check(kernel, options, DataMode::normal, 3);
  }
}

TEST_CASE("where arithmetic is exact, every stored code is the reference's") {
  // Squared sums of products of small whole numbers stay below 2^24.
  const auto kernel = compile_spec(file_text("specs/four_outputs.epi"), {{"E", 3}, {"K", 256}, {"N", 384}});
  jit::VerifyOptions options;
  options.inputs.mode = DataMode::integers;
  options.inputs.counts = {{301, 0, 1023}};
  options.inputs.slack_rows = slack;
  const auto report = must(jit::verify(engine(), kernel, options, gpu().device));
  INFO(report.print());
  CHECK(report.ok);
  REQUIRE(report.outputs.size() == 4);
  for (const interpreter::Verdict& verdict : report.outputs) {
    INFO(verdict.output);
    CHECK(verdict.elements > 0);
    CHECK(verdict.different == 0);
    CHECK(verdict.scales_different == 0);
  }
}

TEST_CASE("group sizes as counts, as 64-bit integers, and from aligned starts") {
  for (const std::string clause : {"ends i64", "counts", "counts i64", "align 8", "counts align 16"}) {
    INFO(clause);
    const std::string text = "kernel sizes {\n  dim E = 5, K = 128, N = 192\n  group M by E " + clause +
                             "\n  group P = M align 128\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in p : f32[M]\n"
                             "  v = gemm(x, w) * p\n  out y : f16[M, N] = v\n  out t : mxfp8[N, P] = v\n}\n";
    std::string why;
    const auto kernel = compile_or_refuse(text, {}, why);
    INFO(why);
    if (clause.find("align") != std::string::npos && !kernel) continue;  // named by the compiler as not lowered yet
    REQUIRE(kernel);
    jit::VerifyOptions options;
    options.inputs.counts = {{0, 130, 1, 0, 255}};
    options.inputs.slack_rows = slack;
    check_all_modes(kernel, options);
  }
}

TEST_CASE("f16 operands") {
  const auto kernel = compile_spec(
      "kernel half {\n  dim E = 3, K = 256, N = 256\n  group M by E\n  in x : f16[M, K]\n  in w : f16[E, N, K]\n"
      "  out y : f32[M, N] = gemm(x, w)\n}\n");
  jit::VerifyOptions options;
  options.inputs.counts = {{100, 0, 257}};
  check_all_modes(kernel, options);
}

TEST_CASE("params and constants of a spec reach the kernel") {
  const auto kernel = compile_spec(file_text("specs/gpt_oss_fc1.epi"), {{"E", 3}, {"K", 256}, {"I", 128}});
  jit::VerifyOptions options;
  options.inputs.counts = {{60, 0, 70}};
  for (const double limit : {0.25, 7.0}) {
    options.params = {{"limit", limit}, {"alpha", 1.0}};
    check(kernel, options, DataMode::normal, 5);
  }
}

TEST_CASE("left-out inputs are their defaults, and left-out outputs are not stored") {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", file_text("specs/moe_fc1_swiglu.epi"), no_files, diagnostics);
  CompilerOptions options;
  options.dims = {{"E", 3}, {"K", 128}, {"I", 128}};
  options.left_out = {"prob", "pre", "yt"};
  options.target = gpu_target();
  const auto kernel = must(engine().compile(program, "", options, diagnostics));
  INFO(diagnostics.print());
  REQUIRE(kernel);
  jit::VerifyOptions verify_options;
  verify_options.inputs.counts = {{60, 0, 70}};
  const auto report = must(jit::verify(engine(), *kernel, verify_options, gpu().device));
  INFO(report.print());
  CHECK(report.ok);
  CHECK(report.outputs.size() == 1);
}

TEST_CASE("a misaligned pointer, a wrong shape and sizes past the capacity are refused by name") {
  const auto kernel = compile_spec(file_text("specs/grouped_gemm.epi"), {{"E", 2}, {"K", 64}, {"N", 64}});
  const auto loaded = must(engine().load(kernel, gpu().device));
  auto x = must(runtime::DeviceBuffer::allocate(gpu().device, 101 * 64 * 2));
  auto w = must(runtime::DeviceBuffer::allocate(gpu().device, 2 * 64 * 64 * 2));
  auto y = must(runtime::DeviceBuffer::allocate(gpu().device, 100 * 64 * 2));
  auto ends = upload(std::vector<int32_t>{50, 101});
  runtime::Arguments arguments;
  arguments.dims = kernel->dims();
  arguments.tensors = {{"x", x.pointer(), {100, 64}, {}, {}},
                       {"w", w.pointer(), {2, 64, 64}, {}, {}},
                       {"y", y.pointer(), {100, 64}, {}, {}},
                       {"M.ends", ends.pointer(), {2}, {}, {}}};
  const auto error = [&](size_t tensor, auto change) {
    runtime::Arguments changed = arguments;
    change(changed.tensors[tensor]);
    const auto bound = runtime::bind_call(loaded.module, changed);
    REQUIRE_FALSE(bound);
    CHECK(bound.error().kind == ErrorKind::user);
    return bound.error().message;
  };
  CHECK(error(0, [](auto& t) { t.pointer += 2; }).find("tensor 'x' is at") != std::string::npos);
  CHECK(error(1, [](auto& t) { t.extents[2] = 72; }).find("tensor 'w' has shape [2, 64, 72]") != std::string::npos);
  CHECK(error(0, [](auto& t) { t.strides = {66, 1}; }).find("tensor 'x'") != std::string::npos);
  CHECK(error(2, [](auto& t) { t.extents[0] = 99; }).find("tensor 'y'") != std::string::npos);
  CHECK(error(2, [](auto& t) { t.storage = Storage::f32; }).find("tensor 'y' is f32, wanted bf16") !=
        std::string::npos);
  const auto call = must(runtime::bind_call(loaded.module, arguments));
  const Status sizes = call.check_group_sizes(gpu().stream.get());
  REQUIRE_FALSE(sizes);
  CHECK(sizes.error().message.find("past the capacity") != std::string::npos);
}
