// On the interpreter. Each kernel is planned as well, so that the same cases are known to have one on a GPU.
#include "tests/cases/spec_runner.h"

#include "compiler/compiler.h"
#include "tests/cases/run_spec.h"

namespace epifuse::test {

interpreter::Buffers run_spec(const std::string& text, const interpreter::Buffers& buffers,
                              const interpreter::Params& params) {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics);
  const auto planned = plan_kernel(program, "", {}, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(planned);
  CHECK(diagnostics.all().empty());
  return interpret(planned->graph, buffers, 0xFF, params);
}

std::string vectors_text(const std::string& name) { return read_file("tests/vectors/" + name); }

}  // namespace epifuse::test
