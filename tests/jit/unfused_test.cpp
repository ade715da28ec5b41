// A kernel as one kernel for each operation, on a pretended GPU that runs each stage by the interpreter: does the data
// find its way from stage to stage, and does verify see what goes wrong on it?
#include "jit/unfused.h"

#include <set>

#include "compiler/interpreter/interpreter.h"
#include "jit/run.h"
#include "jit/verify.h"
#include "tests/jit/pretend_gpu.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

constexpr auto spec = R"(
kernel pretend {
  dim   E = 3, K = 64, N = 64
  group M by E
  group P = M align 128
  param least = -1000
  in  x  : bf16[M, K]
  in  w  : bf16[E, N, K]
  in  p  : f32[M] = 1
  h      = gemm(x, w)
  a      = h * p
  b      = max(a, least)
  v      = b + 0.5
  out y  : bf16[M, N]  = v
  out q  : mxfp8[M, N] = v
  out qt : mxfp8[N, P] = v
  out s  : f32[E, N]  += sum(b)
}
)";

template <class T>
T must(Result<T> result) {
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  return *std::move(result);
}

struct Case {
  // What is done to the memory behind a kernel, by the tensor that it makes ("" of the fused one).
  using Spoil = std::function<void(const std::string& made, const PretendGpu::Outputs&)>;

  explicit Case(const std::set<std::string>& taps = {}) : engine(disk) {
    CompilerOptions compiler;
    compiler.taps = taps;
    fused = engine.compile(spec, compiler);
    Diagnostics diagnostics;
    const Program program = program_of(spec, diagnostics);
    const auto compiled = jit::compile_unfused(*engine, program, "", compiler, diagnostics);
    INFO(diagnostics.print());
    unfused = *must(compiled);
    LaunchRecipe all = fused->image.recipe;
    for (const jit::CompiledKernelPtr& stage : unfused->stages)
      all.steps.insert(all.steps.end(), stage->image.recipe.steps.begin(), stage->image.recipe.steps.end());
    gpu.expect(all);
    options.unfused = unfused;
    options.inputs.counts = {{40, 0, 33}};
    options.inputs.slack_rows = 5;
    options.inputs.mode = jit::DataMode::integers;
    options.inputs.threads = 1;
    inputs = must(jit::make_inputs(fused->planned.graph, options.inputs));
    gpu.kernel = [this](int, const PretendGpu::Outputs& memory) { launch(memory); };
  }

  // The kernel of an entry: the fused one, or a stage.
  const ir::Graph& graph_of(const std::string& entry) const {
    for (const jit::CompiledKernelPtr& stage : unfused->stages)
      for (const RecipeStep& step : stage->image.recipe.steps)
        if (step.entry == entry) return stage->planned.graph;
    return fused->planned.graph;
  }

  // Runs what is launched by the interpreter: the caller's inputs from the host, what stages left from memory.
  void launch(const PretendGpu::Outputs& of_this_launch) {
    entries.push_back(gpu.entry);
    const ir::Graph& graph = graph_of(gpu.entry);
    // A kernel may be several launches with some outputs each: it is run behind the last.
    PretendGpu::Outputs& memory = memory_of[graph.name];
    for (const auto& [name, address] : of_this_launch) memory[name] = address;
    for (const ir::Output& output : graph.outputs)
      if (!memory.contains(output.tensor.name)) return;
    Buffers buffers = inputs;
    for (const ir::Input& input : graph.inputs) {
      if (inputs.contains(input.tensor.name)) continue;
      HostTensor& tensor = buffers[input.tensor.name] = shape_of(input.tensor);
      std::memcpy(tensor.bytes.data(), memory.at(input.tensor.name), tensor.bytes.size());
    }
    for (const ir::Output& output : graph.outputs) {
      for (auto& [name, tensor] : buffers_of(output)) {
        std::memcpy(tensor.bytes.data(), memory.at(name), tensor.bytes.size());
        buffers[name] = tensor;
      }
    }
    interpreter::Params params;
    if (!graph.params.empty()) params = options.params;
    const Buffers outputs = must(interpreter::run(graph, buffers, params, nullptr, 1));
    for (const auto& [name, tensor] : outputs) std::memcpy(memory.at(name), tensor.bytes.data(), tensor.bytes.size());
    if (spoil) spoil(&graph == &fused->planned.graph ? "" : graph.outputs.front().tensor.name, memory);
    memory.clear();
  }

  HostTensor shape_of(const ir::Tensor& tensor) const {
    std::vector<int64_t> extents;
    for (const ir::Extent& extent : tensor.shape) extents.push_back(extent.dim == 0 || extent.times == 3 ? 3 : 64);
    const bool has_rows = !tensor.shape.empty() && tensor.name != "s";
    if (has_rows) extents[0] = rows;
    return interpreter::make_tensor(Storage::f32, extents);
  }
  Buffers buffers_of(const ir::Output& output) const {
    Buffers own;
    ir::Graph graph = fused->planned.graph;
    const auto problem = must(interpreter::Problem::bind(graph, inputs, options.params));
    const Buffers all = must(interpreter::make_outputs(problem));
    for (const auto& [name, tensor] : all)
      if (name == output.tensor.name || name == output.tensor.name + ".scale") own[name] = tensor;
    if (own.empty()) own[output.tensor.name] = shape_of(output.tensor);
    return own;
  }

  jit::VerifyReport verify() { return must(jit::verify(*engine, fused, options, gpu.device)); }

  static constexpr int64_t rows = 78;
  MemoryFileSystem disk;
  PretendGpu gpu;  // outlives what the engine loads onto it
  TestEngine engine;
  jit::CompiledKernelPtr fused;
  jit::CompiledUnfusedPtr unfused;
  jit::VerifyOptions options;
  Buffers inputs;
  Spoil spoil;
  std::vector<std::string> entries;
  std::map<std::string, PretendGpu::Outputs> memory_of;  // by kernel, of the launches so far
};

float* floats(uint8_t* memory) { return reinterpret_cast<float*>(memory); }

// Arguments with made-up addresses, for what looks at none.
runtime::Arguments arguments_of(const Case& c, const jit::LaunchSequence& sequence) {
  runtime::Arguments arguments;
  const auto problem = must(interpreter::Problem::bind(c.fused->planned.graph, c.inputs, {}));
  Buffers all = must(interpreter::make_outputs(problem));
  all.insert(c.inputs.begin(), c.inputs.end());
  uint64_t address = 0x10000;
  for (const RecipeTensor& wanted : sequence.recipe().tensors) {
    const HostTensor& tensor = all.at(wanted.name);
    arguments.tensors.push_back({wanted.name, address, tensor.extents, {}, tensor.storage});
    address += 0x100000;
  }
  arguments.dims = sequence.dims();
  return arguments;
}

}  // namespace

TEST_CASE("fused, unfused and interpreter agree, output by output") {
  Case c;
  for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::normal}) {
    c.options.inputs.mode = mode;
    c.inputs = must(jit::make_inputs(c.fused->planned.graph, c.options.inputs));
    const jit::VerifyReport report = c.verify();
    INFO(report.print());
    CHECK(report.ok);
    REQUIRE(report.outputs.size() == 4);
    REQUIRE(report.unfused.size() == 4);
    REQUIRE(report.differences.size() == 4);
    CHECK(report.unfused_stages == c.unfused->stages.size());
    CHECK_FALSE(report.first_wrong_stage);
    for (size_t i = 0; i < 4; ++i) {
      INFO(report.outputs[i].output);
      CHECK(report.unfused[i].output == report.outputs[i].output);
      // Of `s` no verdict is given on what the empty group leaves alone.
      const int64_t left_alone = report.outputs[i].output == "s" ? 64 : 0;
      CHECK(report.differences[i].elements == report.outputs[i].elements + left_alone);
      CHECK(report.differences[i].scales == report.outputs[i].scales);
      CHECK(report.differences[i].groups.size() == 3);
      // Whole numbers are exact at each step.
      if (mode == jit::DataMode::integers) CHECK(report.differences[i].different == 0);
    }
    CHECK(contains(report.print(), "unfused"));
    CHECK(contains(report.to_json(), "\"fused_against_unfused\""));
  }
  const std::set<std::string> launched(c.entries.begin(), c.entries.end());
  for (const jit::CompiledKernelPtr& stage : c.unfused->stages)
    for (const RecipeStep& step : stage->image.recipe.steps)
      CHECK((step.entry.empty() || launched.contains(step.entry)));
}

TEST_CASE("an unfused operation that is wrong is a failure, and is named") {
  Case c;
  SECTION("in the middle: what follows is wrong too, and is not blamed") {
    c.spoil = [](const std::string& made, const PretendGpu::Outputs& memory) {
      if (made == "b") floats(memory.at("b"))[50 * 64 + 7] += 1;
    };
    const jit::VerifyReport report = c.verify();
    INFO(report.print());
    CHECK_FALSE(report.ok);
    for (const auto& verdict : report.outputs) CHECK(verdict.ok);
    REQUIRE(report.first_wrong_stage);
    CHECK(report.first_wrong_stage->output == "b");
    CHECK(report.first_wrong_stage->worst.group == 2);
    CHECK(report.differences.at(0).different == 1);
    CHECK(report.differences.at(0).worst_group() == 2);
    CHECK(contains(report.print(), "the first unfused stage that is wrong: b"));
    CHECK(contains(report.print(), "M = 50"));
  }
  SECTION("the store alone") {
    c.spoil = [](const std::string& made, const PretendGpu::Outputs& memory) {
      if (made == "qt") memory.at("qt")[5] ^= 8;
    };
    const jit::VerifyReport report = c.verify();
    CHECK_FALSE(report.ok);
    REQUIRE(report.first_wrong_stage);
    CHECK(report.first_wrong_stage->output == "qt");
    CHECK(report.differences.at(2).different == 1);
  }
}

TEST_CASE("a wrong fused kernel leaves the unfused one right") {
  Case c;
  c.spoil = [](const std::string& made, const PretendGpu::Outputs& memory) {
    if (made.empty()) reinterpret_cast<uint16_t*>(memory.at("y"))[3] = 0x4480;
  };
  const jit::VerifyReport report = c.verify();
  CHECK_FALSE(report.ok);
  CHECK_FALSE(report.outputs.at(0).ok);
  for (const auto& verdict : report.unfused) CHECK(verdict.ok);
  CHECK(report.differences.at(0).different == 1);
  CHECK_FALSE(report.first_wrong_stage);
}

TEST_CASE("codes beside a tap must be those of the tap, bit for bit") {
  Case c({"v"});
  REQUIRE(c.fused->planned.graph.outputs.back().tensor.name == "v_tap");
  SECTION("they are") {
    const jit::VerifyReport report = c.verify();
    INFO(report.print());
    CHECK(report.ok);
    REQUIRE(report.requantised.size() == 2);
    CHECK(report.requantised[0].values == "v_tap");
    CHECK(report.requantised[0].codes == 78 * 64);
  }
  SECTION("one is not, though its value may have been either") {
    c.spoil = [](const std::string& made, const PretendGpu::Outputs& memory) {
      if (made.empty()) memory.at("q")[70 * 64] ^= 1;
    };
    const jit::VerifyReport report = c.verify();
    CHECK_FALSE(report.ok);
    CHECK(report.requantised.at(0).codes_different == 1);
    CHECK(report.requantised.at(0).scales_different == 0);
    CHECK(report.requantised.at(1).ok());
    CHECK(contains(report.print(), "'v_tap' quantised again on the host gives WRONG bytes: 1 of"));
  }
}

TEST_CASE("the unfused kernel runs as the fused one does") {
  Case c;
  const jit::LaunchSequence sequence = must(jit::load_unfused(*c.engine, c.unfused, c.gpu.device));
  Buffers buffers = c.inputs;
  buffers["s"] = interpreter::make_tensor(Storage::f32, {3, 64});
  for (int64_t i = 0; i < 3 * 64; ++i) interpreter::store_one(buffers["s"], i, static_cast<double>(i));
  const Buffers want = must(interpreter::run(c.fused->planned.graph, buffers));
  const Buffers got = must(jit::run_on_gpu(c.unfused->graph, sequence, buffers, {}));
  REQUIRE(got.size() == want.size());
  for (const auto& [name, tensor] : want) {
    INFO(name);
    CHECK(got.at(name).bytes == tensor.bytes);
  }
}

TEST_CASE("the workspace holds what lives at a time, and no more") {
  Case c;
  const jit::LaunchSequence sequence = must(jit::load_unfused(*c.engine, c.unfused, c.gpu.device));
  runtime::Arguments arguments = arguments_of(c, sequence);
  constexpr int64_t one = (Case::rows * 64 * 4 + 255) / 256 * 256;
  const int64_t bytes = must(sequence.workspace_bytes(arguments));
  // h, a, b and v: at most two of them live, and `b` until its sum is made; a reduction has a workspace of its own.
  CHECK(bytes >= 2 * one);
  CHECK(bytes < 4 * one);
  // What the caller gives needs no room.
  for (const jit::BetweenTensor& between : sequence.between())
    arguments.tensors.push_back({between.tensor.name, 0x7000000, {Case::rows, 64}, {}, Storage::f32});
  CHECK(must(sequence.workspace_bytes(arguments)) < one);
}

TEST_CASE("what cannot work is refused when the call is bound") {
  Case c;
  const jit::LaunchSequence sequence = must(jit::load_unfused(*c.engine, c.unfused, c.gpu.device));
  const auto refused = [&](const std::function<void(runtime::Arguments&)>& change) {
    runtime::Arguments arguments = arguments_of(c, sequence);
    arguments.workspace = {0x8000000, must(sequence.workspace_bytes(arguments))};
    change(arguments);
    const auto bound = sequence.bind(arguments);
    REQUIRE_FALSE(bound);
    CHECK(bound.error().kind == ErrorKind::user);
    return bound.error().message;
  };
  CHECK(contains(refused([](auto& a) { a.workspace.bytes -= 256; }), "the workspace of kernel 'pretend' has"));
  CHECK(contains(refused([](auto& a) { a.workspace.pointer += 128; }), "a multiple of 256"));
  CHECK(contains(refused([](auto& a) { a.params.push_back({"most", 1}); }), "kernel 'pretend' has no param 'most'"));
  CHECK(contains(refused([](auto& a) { a.tensors.pop_back(); }), "is not given"));
  // `w` and `qt` meet in no stage.
  CHECK(contains(refused([](auto& a) {
                   for (auto& tensor : a.tensors)
                     if (tensor.name == "qt") tensor.pointer = a.tensors.at(1).pointer;
                 }),
                 "tensor 'w'"));
}

TEST_CASE("an array of pointers is read, also an output's: it may be another tensor's too") {
  Case c;
  const jit::LaunchSequence plain = must(jit::load_unfused(*c.engine, c.unfused, c.gpu.device));
  LaunchRecipe whole = plain.recipe();
  for (RecipeTensor& tensor : whole.tensors)
    if (tensor.name == "w" || tensor.name == "qt") tensor.pointer_axes = 1;
  std::vector<jit::LoadedKernel> stages;
  for (const jit::CompiledKernelPtr& stage : c.unfused->stages)
    stages.push_back(must(c.engine->load(stage, c.gpu.device)));
  const jit::LaunchSequence with_pointers(whole, plain.between(), std::move(stages), plain.dims());
  runtime::Arguments arguments = arguments_of(c, plain);
  arguments.workspace = {0x8000000, must(plain.workspace_bytes(arguments))};
  for (auto& tensor : arguments.tensors)
    if (tensor.name == "qt") tensor.pointer = arguments.tensors.at(1).pointer;  // of w
  CHECK_FALSE(plain.bind(arguments));
  must(with_pointers.bind(arguments));
}

TEST_CASE("stages are found in the cache, and a schedule is refused") {
  Case c;
  const int calls = c.engine->toolchain_calls();
  CHECK(calls >= static_cast<int>(c.unfused->stages.size()) + 1);
  Diagnostics diagnostics;
  const Program program = program_of(spec, diagnostics);
  const auto again = must(jit::compile_unfused(*c.engine, program, "", {}, diagnostics));
  REQUIRE(again);
  CHECK(c.engine->toolchain_calls() == calls);
  for (const jit::CompiledKernelPtr& stage : (*again)->stages) CHECK(stage->from != jit::From::toolchain);

  CompilerOptions scheduled;
  scheduled.schedule = "pingpong 128x128";
  const auto refused = jit::compile_unfused(*c.engine, program, "", scheduled, diagnostics);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::user);
}

TEST_CASE("what no stage can do is said of the stage") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  Diagnostics diagnostics;
  const Program program = program_of(R"(
kernel k {
  dim E = 2, K = 60, N = 64
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  h     = gemm(x, w)
  out y : bf16[M, N] = h
}
)",
                                     diagnostics);
  const auto refused = must(jit::compile_unfused(*engine, program, "", {}, diagnostics));
  CHECK_FALSE(refused);
  CHECK(contains(diagnostics.print(), "the unfused stage 'k_h': "));
  CHECK(engine->toolchain_calls() == 0);
}
