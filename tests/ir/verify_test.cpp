// One fault at a time: each must be found, and the sound graph must pass.
#include "compiler/ir/graph.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

namespace epifuse::ir {
namespace {

using test::GraphBuilder;
using test::Value;

// Nodes: 0 x, 1 w, 2 gemm, 3 gate, 4 sigmoid, 5 mul (silu), 6 up, 7 mul, 8 join, 9 ends.
GraphBuilder sample() {
  GraphBuilder g;
  g.dim("E", 8), g.dim("K", 64), g.dim("I", 48);
  g.group("M", "E");
  g.align("P", "M", 128);
  const Value x = g.in("x", "bf16", "M, K");
  const Value h = g.gemm(x, g.in("w", "bf16", "E, 2*I, K"), "K");
  const Value gate = silu(g.split(h, 0));
  const Value act = gate * g.split(h, 1);
  g.out("y", "mxfp8", "M, I", act);
  g.out("yt", "bf16", "I, P", act);
  g.out("pre", "bf16", "M, 2*I", g.join(act, act));
  g.out("sum", "f32", "E, I", act, Reduction::sum, true);
  g.out("ends", "i32", "E", g.group_ends("P"));
  return g;
}

template <class Change>
std::string fault(Change change) {
  GraphBuilder g = sample();
  change(g.graph);
  const std::vector<std::string> faults = verify(g.graph);
  return faults.empty() ? "" : faults[0];
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a sound graph has no faults") { CHECK(verify(sample().graph) == std::vector<std::string>{}); }

TEST_CASE("dimensions") {
  CHECK(has(fault([](Graph& g) { g.dims[0].name = "K"; }), "two dimensions are called K"));
  CHECK(has(fault([](Graph& g) { g.dims[3].cut_by = 4; }), "cut by no dimension"));
  CHECK(has(fault([](Graph& g) { g.dims[3].sizes_storage = Storage::f32; }), "not integers"));
  CHECK(has(fault([](Graph& g) { g.dims[4].base = 0; }), "aligns no grouped"));
  CHECK(has(fault([](Graph& g) { g.dims[4].align = 0; }), "align 0"));
  CHECK(has(fault([](Graph& g) { g.dims[3].value = 3; }), "not fixed"));
}

TEST_CASE("tensors") {
  CHECK(has(fault([](Graph& g) { g.inputs[0].tensor.shape[0].dim = 9; }), "no such dimension"));
  CHECK(has(fault([](Graph& g) { g.inputs[1].tensor.shape[1] = {4, 2, 2}; }), "lowest terms"));
  CHECK(has(fault([](Graph& g) { g.inputs[1].tensor.shape[1] = g.inputs[1].tensor.shape[2]; }), "stands twice"));
  CHECK(has(fault([](Graph& g) { g.inputs[1].tensor.name = "x"; }), "two inputs"));
  CHECK(has(fault([](Graph& g) { g.inputs[0].left_out = true; }), "without a default"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].tensor.type.along_axis = 2; }), "along"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].tensor.type.element = Storage::e2m1; }), "no elements"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].tensor.type.amax_input = "z"; }), "no input z"));
  CHECK(has(fault([](Graph& g) { g.outputs[1].tensor.pointer_axes = 3; }), "pointer axes"));
}

TEST_CASE("nodes") {
  CHECK(has(fault([](Graph& g) { g.nodes[4].args.push_back(0); }), "%4 (sigmoid): has 2 arguments"));
  CHECK(has(fault([](Graph& g) { g.nodes[4].args[0] = 4; }), "does not come before"));
  CHECK(has(fault([](Graph& g) { g.nodes[0].index = 2; }), "no such input"));
  CHECK(has(fault([](Graph& g) { g.nodes[7].shape.pop_back(); }), "[M, I] follows"));
  CHECK(has(fault([](Graph& g) { g.nodes[2].along = Extent{1, 2, 1}; }), "not in both operands"));
  CHECK(has(fault([](Graph& g) { g.nodes[2].shape[0] = {1, 0, 1}; }), "follows"));
  CHECK(has(fault([](Graph& g) { g.nodes[3].index = 2; }), "part 2"));
  CHECK(has(fault([](Graph& g) { g.nodes[3].shape[1] = {2, 2, 1}; }), "not a half"));
  CHECK(has(fault([](Graph& g) { g.nodes[8].shape[1] = {1, 2, 1}; }), "not twice"));
  CHECK(has(fault([](Graph& g) { g.nodes[9].dim = 0; }), "no groups"));
  GraphBuilder g = sample();
  const Value computed{&g, 7};
  g.gemm(computed, g.in("v", "bf16", "E, K, I"), "I");
  CHECK(has(verify(g.graph)[0], "an operand is not an input"));
}

TEST_CASE("outputs") {
  CHECK(has(fault([](Graph& g) { g.outputs[0].value = 99; }), "stores no value"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].value = 2; }), "stores a value over [M, 2*I]"));
  CHECK(has(fault([](Graph& g) { g.outputs[3].tensor.shape[1] = {1, 1, 1}; }), "keeps a dimension"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].accumulate = true; }), "cannot accumulate"));
  CHECK(has(fault([](Graph& g) { g.outputs[3].reduction = Reduction::amax; }), "cannot accumulate"));
  CHECK(has(fault([](Graph& g) { g.outputs[4].tensor.type.format = Format::f32; }), "integers"));
  CHECK(has(fault([](Graph& g) { g.outputs[1].tensor.type.format = Format::i32; }), "integers"));
  CHECK(fault([](Graph& g) { g.outputs[3].contracted = {3}; }).empty());
  CHECK(has(fault([](Graph& g) { g.outputs[3].contracted = {4}; }), "no grouped dimension"));
  CHECK(has(fault([](Graph& g) { g.outputs[3].contracted = {3, 3}; }), "out of order"));
  CHECK(has(fault([](Graph& g) { g.outputs[0].contracted = {3}; }), "are not kept"));
}

}  // namespace
}  // namespace epifuse::ir
