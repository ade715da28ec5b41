// The order in which values lie in memory when the spec does not say one.
#include "compiler/ir/memory_order.h"

#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::ir;

namespace {

enum : DimId { E, N, K, M, P, S };

Extent name(DimId dim, int64_t times = 1) { return {times, dim, 1}; }

Graph dims() {
  Graph graph;
  graph.dims.resize(6);
  const char* names[] = {"E", "N", "K", "M", "P", "S"};
  for (size_t i = 0; i < 6; ++i) graph.dims[i].name = names[i];
  graph.dims[M].kind = DimKind::grouped;
  graph.dims[M].cut_by = E;
  graph.dims[P].kind = DimKind::aligned;
  graph.dims[P].base = M;
  graph.dims[S].kind = DimKind::dynamic;
  return graph;
}

NodeId add(Graph& graph, Op op, Shape shape, std::vector<NodeId> args = {}) {
  Node node;
  node.op = op;
  node.shape = std::move(shape);
  node.args = std::move(args);
  graph.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph.nodes.size()) - 1;
}

std::string gemm_order(const Shape& a, const Shape& b, const Shape& result) {
  Graph graph = dims();
  const NodeId first = add(graph, Op::input, a), second = add(graph, Op::input, b);
  return graph.shape_text(memory_order(graph, add(graph, Op::gemm, result, {first, second})));
}

std::string order(const Shape& shape) {
  Graph graph = dims();
  return graph.shape_text(memory_order(graph, add(graph, Op::exp, shape)));
}

}  // namespace

TEST_CASE("a product lies with its rows in front of its columns") {
  CHECK(gemm_order({name(M), name(K)}, {name(E), name(N), name(K)}, {name(M), name(N)}) == "[M, N]");
  CHECK(gemm_order({name(E), name(N), name(K)}, {name(M), name(K)}, {name(N), name(M)}) == "[M, N]");
  CHECK(gemm_order({name(N), name(K)}, {name(S), name(K)}, {name(N), name(S)}) == "[S, N]");
  // One result for each group: E is neither operand's.
  CHECK(gemm_order({name(M), name(N)}, {name(M), name(K)}, {name(E), name(N), name(K)}) == "[E, N, K]");
  CHECK(gemm_order({name(N), name(P)}, {name(K), name(P)}, {name(E), name(N), name(K)}) == "[E, N, K]");
  // A batch is in both.
  CHECK(gemm_order({name(E), name(S), name(K)}, {name(E), name(N), name(K)}, {name(S), name(E), name(N)}) ==
        "[E, S, N]");
}

TEST_CASE("another value lies as its shape says, columns last, aligned dimensions as the ones they align") {
  CHECK(order({name(M), name(N, 2)}) == "[M, 2*N]");
  CHECK(order({name(N), name(M)}) == "[M, N]");
  CHECK(order({name(E), name(N), name(K)}) == "[E, N, K]");
  CHECK(order({name(N), name(P)}) == "[M, N]");
  CHECK(order({name(M)}) == "[M]");
  CHECK(order({}) == "[]");
}
