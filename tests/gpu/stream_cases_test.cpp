// Cases of captured graphs, streams, and races inside and between kernels: README.md of tests/cases says what each is
// about.
#include <thread>

#include "tests/gpu/support/cases.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

runtime::CapturedGraph capture(const ProblemRun& problem, cuda::Stream stream) {
  return must(runtime::CapturedGraph::capture(gpu().device, stream, [&] { return problem.enqueue(); }));
}

bool same_bytes(const Buffers& a, const Buffers& b) {
  for (const auto& [name, tensor] : a)
    if (tensor.bytes != b.at(name).bytes) return false;
  return a.size() == b.size();
}

// FC1 with SwiGLU, and FC2 that reads what it wrote.
struct Layer {
  static constexpr int64_t hidden = 256, width = 512;

  explicit Layer(const std::vector<int64_t>& counts)
      : fc1(compile_spec(file_text("specs/grouped_gemm_swiglu.epi"), {{"E", 4}, {"K", hidden}, {"I", width}})),
        fc2(compile_spec(file_text("specs/grouped_gemm.epi"), {{"E", 4}, {"K", width}, {"N", hidden}})),
        first(fc1, made_inputs(fc1, counts, 0)),
        second_inputs(made_inputs(fc2, counts, 0, 2)),
        out(output_shapes(fc2, second_inputs).at("y")),
        memory(16 << 20),
        w2(memory.place("w", second_inputs.at("w"))),
        y(memory.place("y", out)) {
    memory.put(w2, second_inputs.at("w").bytes);
    runtime::Arguments arguments;
    arguments.dims = fc2->dims();
    arguments.tensors = {w2, y};
    arguments.tensors.push_back({"x", first.call().memory("y").pointer(), second_inputs.at("x").extents, {}, {}});
    arguments.tensors.push_back({"M.ends", first.call().memory("M.ends").pointer(), {4}, {}, {}});
    second.emplace(must(runtime::bind_call(must(engine().load(fc2, gpu().device)).module, arguments)));
  }

  Status enqueue() const {
    if (Status launched = first.enqueue(); !launched) return launched;
    return second->launch(stream());
  }
  cuda::Stream stream() const { return first_stream; }
  // Nothing of an earlier run is left in what both kernels write.
  void poison() {
    first.poison(0xFF);
    memory.put(y, std::vector<uint8_t>(out.bytes.size(), 0xFF));
  }
  const HostTensor& result() {
    must(second->synchronize(stream()));
    memory.get(y, out);
    return out;
  }

  jit::CompiledKernelPtr fc1, fc2;
  ProblemRun first;
  cuda::Stream first_stream = first.call().stream();
  Buffers second_inputs;
  HostTensor out;
  Memory memory;
  runtime::TensorArgument w2, y;
  std::optional<runtime::BoundCall> second;
};

// What FC2 gives when the host waits between the two kernels.
HostTensor one_by_one(Layer& layer) {
  layer.poison();
  must(layer.first.enqueue());
  layer.first.wait();
  must(layer.second->launch(layer.stream()));
  return layer.result();
}

// Waits 100 us, as a kernel does whose sizes come late, then writes the group sizes.
constexpr auto late_source = R"(
struct Parameters {
  const int* from;
  int* ends;
  long long groups;
};
extern "C" __global__ void late_entry(const __grid_constant__ Parameters p) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - start < 100000);
  for (int e = threadIdx.x; e < p.groups; e += blockDim.x) p.ends[e] = p.from[e];
}
)";

LaunchRecipe late_recipe() {
  const IntExpr groups = IntExpr::symbol("E");
  LaunchRecipe r;
  r.kernel = "late";
  r.tensors = {{"from", Storage::i32, TensorRole::input, {groups}, false, 4},
               {"ends", Storage::i32, TensorRole::output, {groups}, false, 4}};
  r.symbols = {{"E", SymbolKind::launch, 1}};
  RecipeStep step;
  step.entry = "late_entry";
  step.block = 32;
  step.grid = 1;
  step.parameter_bytes = 24;
  step.fields = {{"from", FieldKind::address, 0, 8, "from"},
                 {"ends", FieldKind::address, 8, 8, "ends"},
                 {"groups", FieldKind::integer64, 16, 8, "", groups}};
  r.steps = {step};
  return r;
}

}  // namespace

TEST_CASE("B98: a graph captured with even groups is right for any others, bit for bit") {
  const auto kernel = compile_spec(every_store_spec);
  ProblemRun problem(kernel, made_inputs(kernel, {256, 256, 256, 256}, 0));
  const auto graph = capture(problem, problem.call().stream());
  for (const std::vector<int64_t>& counts :
       {std::vector<int64_t>{0, 1024, 0, 0}, {1, 2, 3, 1018}, {0, 0, 0, 0}, {256, 256, 256, 256}, {0, 0, 0, 1024}}) {
    INFO("groups " << counts[0] << ", " << counts[1] << ", " << counts[2] << ", " << counts[3]);
    problem.upload("M.ends", ends_of(counts));
    const Buffers eager = problem.run(0x5A);
    problem.poison(0x5A);
    must(graph.replay(problem.call().stream()));
    problem.wait();
    CHECK(same_bytes(problem.download(), eager));
  }
}

TEST_CASE("B102: every example can be captured, and a replay computes") {
  for (const std::string& path : spec_files()) {
    INFO(path);
    const std::string text = file_text(path);
    std::map<std::string, int64_t> dims;
    for (const ir::Dimension& dim : graph_of_spec(text).dims)
      if (dim.kind == ir::DimKind::fixed) dims[dim.name] = dim.name == "E" ? 3 : 256;
    const auto kernel = compile_spec(text, dims);
    const bool grouped = dims.count("E") != 0;
    jit::InputOptions options;
    if (grouped) options.counts = {{70, 0, 130}};
    Buffers inputs = must(jit::make_inputs(kernel->planned.graph, options));
    ProblemRun problem(kernel, inputs);
    const auto graph = capture(problem, problem.call().stream());
    // What a sum is added to must be small enough for it to show.
    const auto replay = [&] {
      problem.poison(0x3A);
      must(graph.replay(problem.call().stream()));
      problem.wait();
      return problem.download();
    };
    const Buffers first = replay();
    CHECK(same_bytes(first, problem.run(0x3A)));
    for (const ir::Input& input : kernel->planned.graph.inputs) {
      HostTensor& tensor = inputs.at(input.tensor.name);
      if (tensor.storage == Storage::i32 || tensor.storage == Storage::i64 || tensor.extents.empty()) continue;
      set_rows(tensor, 0, tensor.extents[0], 0.5);
      problem.upload(input.tensor.name, tensor);
    }
    const Buffers second = replay();
    CHECK(same_bytes(second, problem.run(0x3A)));
    for (const auto& [name, tensor] : first) {
      INFO(name);
      CHECK((tensor.bytes != second.at(name).bytes));
    }
  }
}

TEST_CASE("B97: two layers in one capture, with nothing in it but their launches") {
  Layer layer({300, 0, 513, 77});
  const HostTensor expected = one_by_one(layer);
  const runtime::CurrentContext scope(*gpu().device);
  std::map<std::string, int> calls;
  const auto graph = must(runtime::CapturedGraph::capture(gpu().device, layer.stream(), [&] {
    CountingDriver::reset();
    const Status status = layer.enqueue();
    calls = CountingDriver::counts();
    return status;
  }));
  calls.erase("ctx_get_current");  // a look at this thread, no work
  CHECK(calls == std::map<std::string, int>{{"launch_kernel_ex", 2}});
  for (int i = 0; i < 3; ++i) {
    layer.poison();
    must(graph.replay(layer.stream()));
    CHECK((layer.result().bytes == expected.bytes));
  }
}

TEST_CASE("B106: a layer that reads what the kernel before it writes, a thousand times") {
  Layer layer({1500, 0, 213, 1024});
  const HostTensor expected = one_by_one(layer);
  Memory memory(expected.bytes.size());
  const auto kept = memory.place("expected", expected);
  memory.put(kept, expected.bytes);
  const BitComparison comparison;
  const auto compare = comparison.bind(kept.pointer, layer.y.pointer, expected.bytes.size());
  for (int i = 0; i < 1000; ++i) {
    if (i % 50 == 0) layer.poison();
    must(layer.enqueue());
    must(compare.launch(layer.stream()));
  }
  must(compare.synchronize(layer.stream()));
  CHECK(comparison.different_words() == 0);
}

TEST_CASE("B103: group sizes that the kernel before writes at its very end") {
  const auto kernel = compile_spec(every_store_spec);
  ProblemRun problem(kernel, made_inputs(kernel, {256, 256, 256, 256}, 0));
  const auto late = compile_module(late_source, late_recipe());
  const std::vector<std::vector<int64_t>> sizes = {{0, 1024, 0, 0}, {1, 2, 3, 1018}};
  std::vector<Buffers> eager;
  std::vector<runtime::DeviceBuffer> from;
  std::vector<runtime::BoundCall> writers;
  for (const auto& counts : sizes) {
    const HostTensor ends = ends_of(counts);
    problem.upload("M.ends", ends);
    eager.push_back(problem.run(0x5A));
    from.push_back(upload(ends.bytes));
    runtime::Arguments arguments;
    arguments.tensors = {{"from", from.back().pointer(), {4}},
                         {"ends", problem.call().memory("M.ends").pointer(), {4}}};
    writers.push_back(must(runtime::bind_call(late, arguments)));
  }
  int wrong = 0;
  for (size_t round = 0; round < 100; ++round) {
    problem.poison(0x5A);
    must(writers[round % 2].launch(problem.call().stream()));
    must(problem.enqueue());
    problem.wait();
    wrong += !same_bytes(problem.download(), eager[round % 2]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("B105: short contractions and many tiles, a thousand launches bit for bit") {
  const std::vector<int64_t> counts = {2048, 1, 4000, 0, 2143, 128, 5000, 3064};  // 16384 rows
  const std::pair<const char*, std::map<std::string, int64_t>> kernels[] = {
      {"specs/grouped_gemm.epi", {{"E", 8}, {"K", 512}, {"N", 2048}}},
      {"specs/moe_fc1_swiglu.epi", {{"E", 8}, {"K", 512}, {"I", 1024}}},
  };
  for (const auto& [path, dims] : kernels) {
    INFO(path);
    const auto kernel = compile_spec(file_text(path), dims);
    const Buffers inputs = made_inputs(kernel, counts, 0);
    REQUIRE(inputs.at("x").extents[0] == 16384);
    ProblemRun once(kernel, inputs), often(kernel, inputs);
    once.poison(0xFF);
    must(once.enqueue());
    once.wait();
    const BitComparison comparison;
    std::vector<runtime::BoundCall> compare;
    for (const RecipeTensor& tensor : kernel->image.recipe.tensors) {
      if (tensor.role != TensorRole::output) continue;
      const auto &a = once.call().memory(tensor.name), &b = often.call().memory(tensor.name);
      compare.push_back(comparison.bind(a.pointer(), b.pointer(), a.bytes()));
    }
    for (int i = 0; i < 1000; ++i) {
      if (i % 10 == 0) often.poison(0xFF);  // so that a tile that is left out cannot look right for long
      must(often.enqueue());
      for (const runtime::BoundCall& call : compare) must(call.launch(often.call().stream()));
    }
    often.wait();
    CHECK(comparison.different_words() == 0);
  }
}

TEST_CASE("two streams at once: each gets its own result") {
  const auto kernel = compile_spec(every_store_spec);
  const std::vector<int64_t> counts[] = {{700, 0, 1300, 48}, {1, 999, 0, 1048}};
  std::vector<std::unique_ptr<ProblemRun>> problems;
  std::vector<WrittenBytes> expected;
  for (size_t i = 0; i < 2; ++i) {
    problems.push_back(std::make_unique<ProblemRun>(kernel, made_inputs(kernel, counts[i], 5, i + 1)));
    expected.push_back(problems.back()->written());
    problems.back()->poison(0x5A);
  }
  std::string errors[2];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 300 && errors[i].empty(); ++round)
        if (const Status launched = problems[i]->enqueue(); !launched) errors[i] = launched.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 2; ++i) {
    CHECK(errors[i] == "");
    problems[i]->wait();
    CHECK(expected[i].difference(problems[i]->download(), 0x5A) == "");
  }
}
