// Taps: outputs of inner values that are asked for and not written.
#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr auto spec = R"(
kernel k {
  dim   E = 2, I = 32, K = 64
  group M by E
  group P = M align 128
  param limit = 7
  const c = 2
  in  x : bf16[M, K]
  in  w : bf16[E, 2*I, K]
  in  b : bf16[E, I]
  h        = gemm(x, w)
  gate, up = split(h)
  v        = b + gate * up * c
  other    = x * 2
  v_tap    = min(v, limit)
  out y    : mxfp8[I, P] = v
  out z    : bf16[M, I]  = v_tap
}
)";

std::optional<ir::Graph> tapped(const std::string& name, Diagnostics& diagnostics) {
  const Program program = load_text(spec, diagnostics);
  ResolveOptions options;
  options.taps = {name};
  return resolve(program, "", options, diagnostics);
}

std::string complaint(const std::string& name) {
  Diagnostics diagnostics;
  CHECK_FALSE(tapped(name, diagnostics));
  return diagnostics.print();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a tap is an f32 output of the value, rows before columns, behind the others") {
  Diagnostics diagnostics;
  const std::optional<ir::Graph> graph = tapped("gate", diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  REQUIRE(graph->outputs.size() == 3);
  const ir::Output& tap = graph->outputs.back();
  CHECK(tap.tensor.name == "gate_tap");
  CHECK(tap.tensor.type == ir::TensorType{});
  CHECK(graph->shape_text(tap.tensor.shape) == "[M, I]");
  CHECK(graph->nodes[static_cast<size_t>(tap.value)].name == "gate");
  CHECK(ir::verify(*graph).empty());
}

TEST_CASE("a tap's name is one that nothing else has, and its value that of the outputs") {
  Diagnostics diagnostics;
  const std::optional<ir::Graph> graph = tapped("v", diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  CHECK(graph->outputs.back().tensor.name == "v_tap_");
  CHECK(graph->outputs.back().value == graph->outputs.front().value);
}

TEST_CASE("what is no value of the kernel, or cannot be stored by it, is refused by name") {
  CHECK(contains(complaint("gatee"), "kernel 'k' has no value 'gatee' to tap"));
  CHECK(contains(complaint("gatee"), "did you mean 'gate'?"));
  CHECK(contains(complaint("x"), "'x' is an input"));
  CHECK(contains(complaint("limit"), "'limit' is a param"));
  CHECK(contains(complaint("I"), "'I' is a dimension"));
  CHECK(contains(complaint("c"), "'c' is a constant"));
  CHECK(contains(complaint("y"), "kernel 'k' has no value 'y' to tap"));
  // Over K, which the product contracts.
  const std::string over_k = complaint("other");
  CHECK(contains(over_k, "'K' is not among the gemm's dimensions"));
  CHECK(contains(over_k, "other    = x * 2"));
}
