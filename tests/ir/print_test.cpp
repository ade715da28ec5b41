// The text form: everything that matters, nothing else.
#include "compiler/ir/graph.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

namespace epifuse::ir {
namespace {

using test::GraphBuilder;
using test::Value;

GraphBuilder sample() {
  GraphBuilder g("fc1");
  g.dim("E", 8), g.dim("K"), g.dim("I", 48);
  g.dyn("T");
  g.group("M", "E", GroupSizes::counts, Storage::i64);
  g.align("P", "M", 128);
  const Value limit = g.param("limit", 7.5);
  // One at a time: arguments of a call are evaluated in no order, and nodes are numbered as they are made.
  const Value x = g.in("x", "bf16", "T, K");
  const Value rows = g.gather(x, g.in("idx", "i32", "M"), "T");
  const Value h = g.gemm(rows, g.in("w", "bf16", "E, 2*I, K"), "K");
  const Value gate = silu(min(g.split(h, 0, 32), limit));
  const Value glu = gate * g.split(h, 1, 32);
  const Value act = glu * g.in("prob", "f32", "M", 1.0);
  g.graph.inputs[2].tensor.pointer_axes = 1;
  g.out("y", "mxfp8", "M, I", g.cast(act, Storage::bf16));
  g.out("db", "f32", "E, I", act, Reduction::sum, true);
  g.out("ends", "i32", "E", g.group_ends("P"));
  return g;
}

TEST_CASE("the text of a graph") {
  const GraphBuilder g = sample();
  CHECK(verify(g.graph) == std::vector<std::string>{});
  CHECK(print(g.graph) == R"(kernel fc1
  dim E = 8
  dim K
  dim I = 48
  dyn T
  group M by E counts i64 align 1
  group P = M align 128
  param limit = 7.5
  in x : bf16[T, K]
  in idx : i32[M]
  in w : bf16[E][2*I, K]
  in prob : f32[M] = 1
  %0 = param limit : []
  %1 = input x : [T, K]
  %2 = input idx : [M]
  %3 = gather rows of T %1, %2 : [M, K]
  %4 = input w : [E, 2*I, K]
  %5 = gemm over K promote 128 %3, %4 : [M, 2*I]
  %6 = split part 0 pieces of 32 %5 : [M, I]
  %7 = min %6, %0 : [M, I]
  %8 = sigmoid %7 : [M, I]
  %9 = mul %7, %8 : [M, I]
  %10 = split part 1 pieces of 32 %5 : [M, I]
  %11 = mul %9, %10 : [M, I]
  %12 = input prob : [M]
  %13 = mul %11, %12 : [M, I]
  %14 = cast to bf16 %13 : [M, I]
  %15 = group_ends P : [E]
  out y : mxfp8[M, I] = %14
  out db : f32[E, I] += sum %13
  out ends : i32[E] = %15
)");
}

TEST_CASE("places and names of values do not show") {
  GraphBuilder g = sample();
  const std::string before = print(g.graph);
  for (Node& node : g.graph.nodes) {
    node.name = "other";
    node.where.offset = 17;
  }
  CHECK(print(g.graph) == before);
}

TEST_CASE("whatever a later stage reads shows") {
  const std::string before = print(sample().graph);
  const auto differs = [&](auto change) {
    GraphBuilder g = sample();
    change(g.graph);
    return print(g.graph) != before;
  };
  CHECK(differs([](Graph& g) { g.dims[0].value = 9; }));
  CHECK(differs([](Graph& g) { g.dims[4].sizes = GroupSizes::ends; }));
  CHECK(differs([](Graph& g) { g.dims[4].sizes_storage = Storage::i32; }));
  CHECK(differs([](Graph& g) { g.dims[4].align = 2; }));
  CHECK(differs([](Graph& g) { g.dims[4].slot = Extent{16, -1, 1}; }));
  CHECK(differs([](Graph& g) { g.dims[5].align = 64; }));
  CHECK(differs([](Graph& g) { g.params[0].default_value.reset(); }));
  CHECK(differs([](Graph& g) { g.inputs[3].left_out = true; }));
  CHECK(differs([](Graph& g) { g.inputs[3].default_value = 2; }));
  CHECK(differs([](Graph& g) { g.inputs[2].tensor.pointer_axes = 0; }));
  CHECK(differs([](Graph& g) { g.nodes[5].promote = 0; }));
  CHECK(differs([](Graph& g) { g.nodes[6].piece = 0; }));
  CHECK(differs([](Graph& g) { g.nodes[6].index = 1; }));
  CHECK(differs([](Graph& g) { g.nodes[14].to = Storage::f16; }));
  CHECK(differs([](Graph& g) { g.outputs[0].left_out = true; }));
  CHECK(differs([](Graph& g) { g.outputs[0].tensor.type.rule = ScaleRule::floor; }));
  CHECK(differs([](Graph& g) { g.outputs[1].accumulate = false; }));
  CHECK(differs([](Graph& g) { g.outputs[1].reduction = Reduction::amax; }));
  CHECK(differs([](Graph& g) { g.outputs[1].contracted.emplace(); }));
}

TEST_CASE("numbers read back as themselves") {
  GraphBuilder g;
  g.number(0.1);
  g.number(1.0 / 3);
  g.number(1e300);
  CHECK(print(g.graph).find("%0 = number 0.1 ") != std::string::npos);
  CHECK(print(g.graph).find("%1 = number 0.3333333333333333 ") != std::string::npos);
  CHECK(print(g.graph).find("%2 = number 1e+300 ") != std::string::npos);
}

}  // namespace
}  // namespace epifuse::ir
