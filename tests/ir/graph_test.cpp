// Extents and names.
#include "compiler/ir/graph.h"

#include <limits>

#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

namespace epifuse::ir {
namespace {

using test::GraphBuilder;

GraphBuilder sample() {
  GraphBuilder g;
  g.dim("E", 8), g.dim("I", 48), g.dim("K");
  g.group("M", "E");
  g.align("P", "M", 128);
  return g;
}

TEST_CASE("extents print as they are written") {
  const GraphBuilder g = sample();
  for (const std::string text : {"E", "2*I", "I/16", "3*I/16", "7", "P"})
    CHECK(g.graph.extent_text(g.extent(text)) == text);
  CHECK(g.graph.shape_text(g.shape("M, 2*I")) == "[M, 2*I]");
  CHECK(g.graph.shape_text({}) == "[]");
}

TEST_CASE("an aligned dimension is the one that it aligns") {
  const GraphBuilder g = sample();
  CHECK(g.graph.base_name(g.extent("P")) == g.extent("M"));
  CHECK(g.graph.same_name(g.extent("P"), g.extent("M")));
  CHECK(!g.graph.same_name(g.extent("2*I"), g.extent("I")));
  CHECK(g.graph.same_names(g.shape("I, P"), g.shape("M, I")));
  CHECK(!g.graph.same_names(g.shape("I, P"), g.shape("M, 2*I")));
  CHECK(!g.graph.same_names(g.shape("I"), g.shape("M, I")));
}

TEST_CASE("numbers of extents") {
  const GraphBuilder g = sample();
  CHECK(g.graph.fixed_value(g.extent("2*I")) == 96);
  CHECK(g.graph.fixed_value(g.extent("I/16")) == 3);
  CHECK(g.graph.fixed_value(g.extent("5")) == 5);
  CHECK(!g.graph.fixed_value(g.extent("I/32")));  // not whole
  CHECK(!g.graph.fixed_value(g.extent("K")));     // not bound
  CHECK(!g.graph.fixed_value(g.extent("M")));
  CHECK(!g.graph.fixed_value({std::numeric_limits<int64_t>::max(), 1, 1}));  // no 64-bit number
}

TEST_CASE("the union drops the count of the groups that it has") {
  const GraphBuilder g = sample();
  CHECK(g.graph.union_of(g.shape("M, I"), g.shape("E")) == g.shape("M, I"));
  CHECK(g.graph.union_of(g.shape("E, I"), g.shape("P")) == g.shape("I, M"));
  CHECK(g.graph.union_of(g.shape("E, I"), g.shape("K")) == g.shape("E, I, K"));
  CHECK(g.graph.union_of({}, {}).empty());
}

TEST_CASE("an output that keeps the groups of a contraction knows of them, unless it is told") {
  GraphBuilder g;
  g.dim("E", 2), g.dim("N", 8), g.dim("K", 8);
  g.group("M", "E");
  const test::Value d = g.in("d", "bf16", "M, N"), x = g.in("x", "bf16", "M, K"), s = g.in("s", "f32", "E, K");
  const test::Value w = g.gemm(d, x, "M");
  g.out("f", "f32", "E, N, K", w * s);
  g.out("all", "f32", "N, K", w, Reduction::sum);
  g.out("own", "f32", "E, K", s * s);
  g.out("rows", "f32", "E, N", w + s, Reduction::sum);
  const auto contracted = [&](size_t output) { return g.graph.contracted_groups(g.graph.outputs[output]); };
  CHECK(contracted(0) == std::vector<DimId>{3});
  CHECK(contracted(1).empty());
  CHECK(contracted(2).empty());
  CHECK(contracted(3) == std::vector<DimId>{3});
  g.graph.outputs[0].contracted.emplace();
  g.graph.outputs[2].contracted = {3};
  CHECK(contracted(0).empty());
  CHECK(contracted(2) == std::vector<DimId>{3});
}

}  // namespace
}  // namespace epifuse::ir
