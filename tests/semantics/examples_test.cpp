// Every kernel of the examples parses and resolves, and what comes out depends on the text alone.
#include <set>

#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("all kernels of the language examples resolve") {
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  const std::vector<std::string> names = kernel_names(program);
  REQUIRE(names.size() == 46);
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == 46);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(resolve(program, name, {}, diagnostics));
    INFO(diagnostics.print());
    REQUIRE(diagnostics.all().empty());
  }
}

TEST_CASE("each example spec has one kernel with all its dims bound") {
  ResolveOptions options;
  options.require_bound = true;
  for (const std::string& path : example_paths()) {
    if (path.rfind("specs/", 0) != 0) continue;
    Diagnostics diagnostics;
    const Program program = load_example(path, diagnostics);
    const std::optional<ir::Graph> graph = resolve(program, "", options, diagnostics);
    INFO(path << "\n" << diagnostics.print());
    REQUIRE(graph);
    CHECK(path == "specs/" + graph->name + ".epi");
  }
}

TEST_CASE("a resolved graph depends on the text alone") {
  for (const std::string& path : example_paths()) {
    Diagnostics diagnostics;
    const Program once = load_example(path, diagnostics), again = load_example(path, diagnostics);
    for (const std::string& name : kernel_names(once)) {
      INFO(path << " " << name);
      const std::optional<ir::Graph> a = resolve(once, name, {}, diagnostics),
                                     b = resolve(again, name, {}, diagnostics);
      REQUIRE(a);
      REQUIRE(b);
      CHECK(ir::print(*a) == ir::print(*b));
    }
  }
}

TEST_CASE("the printed tree means the same kernel") {
  for (const std::string& path : example_paths()) {
    Diagnostics diagnostics;
    const Program program = load_example(path, diagnostics);
    MemorySource source({{"activations.epi", read_file("tests/semantics/activations.epi")}});
    const Program printed = load_program("printed.epi", ast::print(program.main()), source, diagnostics);
    INFO(path << "\n" << diagnostics.print());
    REQUIRE(diagnostics.all().empty());
    for (const std::string& name : kernel_names(program)) {
      const std::optional<ir::Graph> a = resolve(program, name, {}, diagnostics),
                                     b = resolve(printed, name, {}, diagnostics);
      REQUIRE(a);
      REQUIRE(b);
      CHECK(ir::print(*a) == ir::print(*b));
    }
  }
}

TEST_CASE("the first example of the language resolves to these values") {
  Diagnostics diagnostics;
  const Program program = load_example("specs/moe_fc1_swiglu.epi", diagnostics);
  const std::optional<ir::Graph> graph = resolve(program, "moe_fc1_swiglu", {}, diagnostics);
  REQUIRE(graph);
  CHECK(ir::print(*graph) == R"(kernel moe_fc1_swiglu
  dim E = 8
  dim K = 7168
  dim I = 2048
  group M by E ends i32 align 1
  group P = M align 128
  in x : bf16[M, K]
  in w : bf16[E, 2*I, K]
  in prob : f32[M] = 1
  %0 = input x : [M, K]
  %1 = input w : [E, 2*I, K]
  %2 = gemm over K promote 128 %0, %1 : [M, 2*I]
  %3 = split part 0 halves %2 : [M, I]
  %4 = split part 1 halves %2 : [M, I]
  %5 = sigmoid %3 : [M, I]
  %6 = mul %3, %5 : [M, I]
  %7 = mul %6, %4 : [M, I]
  %8 = input prob : [M]
  %9 = mul %7, %8 : [M, I]
  out pre : bf16[M, 2*I] = %2
  out y : mxfp8[M, I] = %9
  out yt : mxfp8[I, P] = %9
)");
  CHECK(graph->nodes[2].name == "h");
  CHECK(graph->nodes[2].where.text() == "gemm(x, w)");
}
