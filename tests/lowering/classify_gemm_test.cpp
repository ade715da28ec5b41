#include "tests/lowering/lowering_support.h"
using namespace epifuse; using namespace epifuse::test;
TEST_CASE("table") {
  Diagnostics diagnostics;
  const Program program = load_example("tests/semantics/language_examples.epi", diagnostics);
  for (const std::string& name : kernel_names(program)) {
    ResolveOptions options;
    const auto unbound = resolve(program, name, {}, diagnostics);
    for (const ir::Dimension& dim : unbound->dims)
      if (dim.kind == ir::DimKind::fixed) options.dims[dim.name] = dim.name == "E" ? 4 : 128;
    Diagnostics said;
    auto graph = resolve(program, name, options, said);
    if (!graph) { std::printf("%s", said.print().c_str()); continue; }
    try { auto r = lower_graph(*graph);
    std::printf("      {\"%s\", \"", name.c_str());
    bool first = true;
    for (auto& d : r.diagnostics.all()) { std::string m = d.message; std::printf("%s%s", first ? "" : "; ", m.c_str()); first = false; }
    std::printf("\"},\n"); } catch (const std::exception& e) { std::printf("EXC %s %s\n", name.c_str(), e.what()); }
  }
}
