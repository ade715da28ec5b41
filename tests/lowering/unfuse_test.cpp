// The stages of the unfused form, run one after the other by the interpreter with f32 tensors between them, against the
// kernel as a whole.
#include "compiler/lowering/unfuse.h"

#include <cmath>
#include <set>

#include "compiler/interpreter/compare.h"
#include "jit/inputs.h"
#include "tests/codegen/contracted_specs.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;
using lowering::Unfused;

namespace {

Unfused unfused_text(const std::string& text, std::set<std::string> left_out = {}) {
  ResolveOptions options;
  options.left_out = std::move(left_out);
  return lowering::unfuse(simplified(resolve_text(text, options)));
}

// "pre = h": the tensor that each stage makes and the tensors it reads.
std::vector<std::string> stage_texts(const Unfused& unfused) {
  std::vector<std::string> texts;
  for (const lowering::UnfusedStage& stage : unfused.stages) {
    std::string text = stage.graph.outputs.at(0).tensor.name + " =";
    for (const ir::Input& input : stage.graph.inputs) text += " " + input.tensor.name;
    texts.push_back(std::move(text));
  }
  return texts;
}

const lowering::UnfusedStage& stage_of(const Unfused& unfused, const std::string& name) {
  for (const lowering::UnfusedStage& stage : unfused.stages)
    if (stage.graph.outputs.at(0).tensor.name == name) return stage;
  FAIL("no stage makes " << name);
  throw;
}

// Stage after stage; what is returned has the intermediates too. Each stage gets its own inputs and nothing else.
Result<Buffers> run_stages(const Unfused& unfused, const Buffers& given, const interpreter::Params& params) {
  Buffers all = given;
  for (const lowering::UnfusedStage& stage : unfused.stages) {
    interpreter::Params own;
    for (const ir::Param& param : stage.graph.params)
      if (const auto found = params.find(param.name); found != params.end()) own.insert(*found);
    Result<Buffers> made = interpreter::run(stage.graph, all, own, nullptr, 1);
    if (!made) return made.error();
    for (auto& [name, tensor] : *made) all[name] = std::move(tensor);
  }
  return all;
}

// Small numbers for the dims of the language's examples.
std::map<std::string, int64_t> small_dims(const ir::Graph& graph) {
  const std::map<std::string, int64_t> sizes = {{"E", 3}, {"K", 64}, {"N", 96}, {"I", 64}, {"H", 160}, {"J", 4}};
  std::map<std::string, int64_t> dims;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed) dims[dim.name] = sizes.at(dim.name);
  return dims;
}

// How far the codes of two tensors are apart, in steps, at most and summed over all elements with a difference.
struct Steps {
  int64_t most = 0, different = 0;
};
Steps steps_between(const HostTensor& a, const HostTensor& b) {
  const int bits = storage_bits(a.storage);
  const auto place = [&](uint32_t code) {
    const int64_t magnitude = code & ((uint64_t{1} << (bits - 1)) - 1);
    return code >> (bits - 1) ? -magnitude : magnitude;
  };
  Steps steps;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const int64_t apart = std::abs(place(interpreter::load_code(a, i)) - place(interpreter::load_code(b, i)));
    steps.most = std::max(steps.most, apart);
    steps.different += apart != 0;
  }
  return steps;
}

double norm_of_difference(const HostTensor& a, const HostTensor& b) {
  double error = 0, reference = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = interpreter::load_one(a, i), y = interpreter::load_one(b, i);
    if (std::isfinite(x) || std::isfinite(y)) error += (x - y) * (x - y), reference += y * y;
  }
  return error == 0 ? 0 : std::sqrt(error / reference);
}

bool has_op(const ir::Graph& graph, ir::Op op) {
  for (const ir::Node& node : graph.nodes)
    if (node.op == op) return true;
  return false;
}

constexpr auto swiglu_spec = R"(
kernel fc1 {
  dim   E = 3, K = 64, I = 64
  group M by E
  group P = M align 128
  in  x     : bf16[M, K]
  in  w     : bf16[E, 2*I, K]
  in  prob  : f32[M] = 1
  h         = gemm(x, w)
  gate, up  = split(h)
  s         = sigmoid(gate)
  g         = gate * s
  a         = g * up
  act       = a * prob
  out pre   : bf16[M, 2*I] = h
  out y     : mxfp8[M, I]  = act
  out yt    : f32[I, P]    = act
  out most  : f32[E]       = amax(act)
  out ends  : i32[E]       = P.ends
}
)";

// Whether no stage rounds what it leaves for the next.
enum class Exact { yes, no };

// The stages one after the other against the kernel as a whole. False where the interpreter does not know a type yet.
bool compare_stages(const ir::Graph& graph, const Unfused& unfused, const jit::InputOptions& data,
                    Exact exact = Exact::no) {
  Result<Buffers> inputs = jit::make_inputs(graph, data);
  if (!inputs) return false;  // a type that the interpreter does not know yet
  const std::unique_ptr<interpreter::GemmProvider> gemm = interpreter::cpu_gemm(1);
  const Result<interpreter::Reference> reference = interpreter::Reference::make(graph, *inputs, {}, *gemm, 1);
  REQUIRE(reference);
  Result<Buffers> before = interpreter::make_outputs(reference->problem(), 0xAA);
  if (!before) return false;
  Buffers adds;
  for (const ir::Output& output : graph.outputs) {
    if (!output.accumulate) continue;
    HostTensor& tensor = before->at(output.tensor.name);
    for (int64_t i = 0; i < tensor.elements(); ++i) interpreter::store_one(tensor, i, static_cast<double>(i % 5));
    adds[output.tensor.name] = tensor;
  }
  Buffers given = *inputs;
  given.insert(before->begin(), before->end());
  const Result<Buffers> whole = interpreter::run(graph, given, {}, nullptr, 1);
  if (!whole) return false;
  const Result<Buffers> staged = run_stages(unfused, given, {});
  INFO((staged ? std::string() : staged.error().message));
  REQUIRE(staged);
  for (const ir::Output& output : graph.outputs) {
    INFO(output.tensor.name);
    const interpreter::Before held{output.accumulate ? &adds : nullptr, 0xAA};
    const Result<interpreter::Verdict> verdict = interpreter::judge(*reference, output, *staged, held);
    REQUIRE(verdict);
    INFO(verdict->print());
    CHECK(verdict->ok);
    const HostTensor& got = staged->at(output.tensor.name);
    const HostTensor& want = whole->at(output.tensor.name);
    if (exact == Exact::yes) CHECK((got.bytes == want.bytes));
    // Rounding between the stages moves a result by as much, or across the border between two codes.
    const Storage storage = output.tensor.type.storage();
    if (storage == Storage::f32) {
      CHECK(norm_of_difference(got, want) < 2e-6);
    } else if (storage != Storage::i32) {
      const bool same_scales = !output.tensor.type.scaled() || staged->at(output.tensor.name + ".scale").bytes ==
                                                                   whole->at(output.tensor.name + ".scale").bytes;
      const Steps steps = steps_between(got, want);
      CHECK(steps.different <= got.elements() / 50);
      // Many steps of a value near zero, which is what is left of large ones, are little to the norm.
      if (storage_bits(storage) == 16)
        CHECK(norm_of_difference(got, want) < 2e-3);  // a fiftieth by 2^-7, twice that if those are large ones
      else if (same_scales)
        CHECK(steps.most <= 1);
    }
  }
  return true;
}

}  // namespace

TEST_CASE("every operation and every output is a stage, in an order that frees what is read") {
  const Unfused unfused = unfused_text(swiglu_spec);
  CHECK(stage_texts(unfused) == std::vector<std::string>{"h = x w", "pre = h", "gate = h", "up = h", "s = gate",
                                                         "g = gate s", "a = g up", "act = a prob", "y = act",
                                                         "yt = act", "most = act", "ends = x"});
  for (const lowering::Intermediate& made : unfused.intermediates) {
    INFO(made.tensor.name);
    CHECK(made.tensor.type == ir::TensorType{});
    CHECK(made.made_by >= 0);
    CHECK(made.last_read_by > made.made_by);
    CHECK(unfused.stages.at(static_cast<size_t>(made.made_by)).graph.outputs.at(0).tensor.name == made.tensor.name);
  }
  CHECK(unfused.graph.shape_text(unfused.intermediates.back().tensor.shape) == "[M, I]");
}

TEST_CASE("a stage keeps the groups, the dimensions it needs, and the output as it was") {
  const Unfused unfused = unfused_text(swiglu_spec);
  CHECK(ir::print(stage_of(unfused, "y").graph) == R"(kernel fc1_y
  dim E = 3
  dim I = 64
  group M by E ends i32 align 1
  in act : f32[M, I]
  %0 = input act : [M, I]
  out y : mxfp8[M, I] = %0
)");
  CHECK(ir::print(stage_of(unfused, "h").graph) == R"(kernel fc1_h
  dim E = 3
  dim K = 64
  dim I = 64
  group M by E ends i32 align 1
  in x : bf16[M, K]
  in w : bf16[E, 2*I, K]
  %0 = input x : [M, K]
  %1 = input w : [E, 2*I, K]
  %2 = gemm over K promote 128 %0, %1 : [M, 2*I]
  out h : f32[M, 2*I] = %2
)");
}

TEST_CASE("an input that is left out is a number in the stages that use it") {
  const Unfused unfused = unfused_text(swiglu_spec, {"prob", "pre"});
  CHECK(stage_texts(unfused) == std::vector<std::string>{"h = x w", "gate = h", "up = h", "s = gate", "g = gate s",
                                                         "a = g up", "y = a", "yt = a", "most = a", "ends = x"});
}

TEST_CASE("numbers and params stay in the stage that uses them; values of both are scalars") {
  const Unfused unfused = unfused_text(R"(
kernel k {
  dim E = 2, N = 32
  group M by E
  param a = 2
  in  x : bf16[M, N]
  in  b : f32[E]
  s     = exp(a)
  c     = x * s
  d     = b * 3
  v     = c + d
  out y : f32[N, M] = v
  out z : f32[E] = b
  out u : f32 = a
}
)");
  CHECK(stage_texts(unfused) ==
        std::vector<std::string>{"u =", "s =", "c = x s", "z = b", "d = b", "v = c d", "y = v"});
  CHECK(stage_of(unfused, "s").graph.params.size() == 1);
  CHECK(stage_of(unfused, "v").graph.params.empty());
  for (const lowering::Intermediate& made : unfused.intermediates) {
    if (made.tensor.name == "s") CHECK(made.tensor.shape.empty());
    if (made.tensor.name == "d") CHECK(unfused.graph.shape_text(made.tensor.shape) == "[E]");
  }
}

TEST_CASE("halves of inputs stay operands; picked rows are stored in the type of their input") {
  const Unfused halves = unfused_text(R"(
kernel k {
  dim E = 2, I = 64, K = 64
  group M by E
  in  dh : bf16[M, 2*I]
  in  x  : bf16[M, K]
  dg, du = split(dh)
  g      = gemm(dg, x)
  out dw : f32[E, I, K] += g
}
)");
  CHECK(stage_texts(halves) == std::vector<std::string>{"g = dh x", "dw = g dh"});
  CHECK(stage_of(halves, "dw").graph.outputs.at(0).accumulate);
  CHECK_FALSE(stage_of(halves, "g").graph.outputs.at(0).accumulate);

  const Unfused picked = unfused_text(R"(
kernel k {
  dim E = 2, N = 64, K = 64
  dyn T
  group M by E
  in  x   : bf16[T, K]
  in  idx : i32[M]
  in  w   : bf16[E, N, K]
  xp      = x[idx]
  h       = gemm(xp, w)
  out y   : bf16[M, N] = h
}
)");
  CHECK(stage_texts(picked) == std::vector<std::string>{"xp = x idx", "h = xp w", "y = h"});
  CHECK(stage_of(picked, "xp").graph.outputs.at(0).tensor.type.format == ir::Format::bf16);
}

TEST_CASE("a product is stored with the rows in front of the columns, whatever the order of its operands") {
  const Unfused unfused = unfused_text(R"(
kernel k {
  dim E = 2, N = 64, K = 64
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  in  b : bf16[E, N]
  h     = gemm(w, x)
  v     = b + h
  out y : bf16[M, N] = v
}
)");
  CHECK(unfused.graph.shape_text(unfused.intermediates.at(0).tensor.shape) == "[M, N]");
  CHECK(unfused.graph.shape_text(unfused.intermediates.at(1).tensor.shape) == "[M, N]");
}

TEST_CASE("a rotation and every quantised store are stages; random bits are those of the kernel's outputs") {
  const Unfused unfused = unfused_text(R"(
kernel k {
  dim E = 2, N = 64, K = 64
  group M by E
  group P = M align 32
  in  x   : bf16[M, K]
  in  w   : bf16[E, N, K]
  in  rng : i64[2]
  in  top : f32[E]
  h       = gemm(x, w)
  turned  = hadamard(h, M, 0xD7E8)
  out y   : mxfp8(seed = rng)[M, N] = h
  out yt  : nvfp4(amax = top, seed = rng)[N, P] = turned
  out z   : mxfp8_32x32[P, N] = turned
}
)");
  CHECK(stage_texts(unfused) ==
        std::vector<std::string>{"h = x w", "y = h rng", "turned = h", "yt = turned top rng", "z = turned"});
  const auto ordinal = [&](const std::string& name) { return stage_of(unfused, name).graph.outputs.at(0).ordinal; };
  CHECK(ordinal("y") == 0);
  CHECK(ordinal("yt") == 1);
  CHECK(ordinal("z") == -1);  // takes no random bits
}

TEST_CASE("names of intermediates meet no name of the kernel") {
  const Unfused unfused = unfused_text(R"(
kernel k {
  dim N = 32
  dyn S
  in  t2 : f32[S, N]
  workspace = t2 + 1
  v      = workspace * 2
  out v  : f32[S, N] = v
}
)");
  std::set<std::string> names = {"t2", "workspace", "S", "N"};
  for (const lowering::UnfusedStage& stage : unfused.stages) {
    INFO(stage.graph.outputs.at(0).tensor.name);
    CHECK(names.insert(stage.graph.outputs.at(0).tensor.name).second);
  }
}

TEST_CASE("the stages of the language's examples give what the kernels give") {
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  int compared = 0;
  for (const std::string& name : kernel_names(program)) {
    INFO(name);
    ResolveOptions options;
    options.dims = small_dims(*resolve(program, name, {}, diagnostics));
    const ir::Graph graph = simplified(*resolve(program, name, options, diagnostics));
    if (has_op(graph, ir::Op::grad)) continue;
    const Unfused unfused = lowering::unfuse(graph);
    const std::string printed = ir::print(unfused.graph);
    CHECK(printed == ir::print(graph));
    for (const lowering::UnfusedStage& stage : unfused.stages) CHECK(stage.graph.outputs.size() == 1);

    for (const jit::DataMode mode : {jit::DataMode::normal, jit::DataMode::integers}) {
      jit::InputOptions data;
      data.counts = {{40, 0, 133}};
      data.slack_rows = 7;
      for (const ir::Dimension& dim : graph.dims)
        if (dim.kind == ir::DimKind::dynamic) data.sizes[dim.name] = dim.name == "S" || dim.name == "C" ? 136 : 3;
      data.mode = mode;
      data.threads = 1;
      if (!compare_stages(graph, unfused, data)) break;
      ++compared;
    }
  }
  CHECK(compared >= 50);
}

TEST_CASE("an empty group of a contraction has no terms in the stages either") {
  std::vector<std::string> texts = contracted_specs();
  texts.push_back(contracted_across());
  for (const std::string& text : texts) {
    INFO(text);
    const ir::Graph graph = simplified(resolve_text(text));
    jit::InputOptions data;
    data.counts = &text == &texts.back() ? contracted_across_counts() : contracted_counts();
    data.slack_rows = 7;
    data.threads = 1;
    for (const jit::DataMode mode : {jit::DataMode::normal, jit::DataMode::integers}) {
      data.mode = mode;
      CHECK(compare_stages(graph, lowering::unfuse(graph), data,
                           mode == jit::DataMode::integers ? Exact::yes : Exact::no));
    }
  }
}

TEST_CASE("the stage of an output is told what was contracted, and reads the sizes of its groups") {
  const Unfused unfused = unfused_text(contracted_text(
      "dw + s", "  out f : f32[E, N, K] = v\n  out all : f32[K] = sum(v)\n  out own : f32[E, N, K] = r\n"));
  CHECK(ir::print(stage_of(unfused, "f").graph) == R"(kernel contracted_f
  dim E = 6
  dim N = 96
  dim K = 64
  group M by E ends i32 align 1
  in v : f32[E, N, K]
  in d : bf16[M, N]
  %0 = input v : [E, N, K]
  out f : f32[E, N, K] = %0 contracted [M]
)");
  CHECK_FALSE(stage_of(unfused, "v").graph.outputs.at(0).contracted);
  CHECK_FALSE(stage_of(unfused, "all").graph.outputs.at(0).contracted);
  CHECK_FALSE(stage_of(unfused, "own").graph.outputs.at(0).contracted);
}
