// Specs for tests: from texts, from the examples beside the tests, and from specs/.
#pragma once

#include <fmt/format.h>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/parser/program.h"
#include "compiler/semantics/resolve.h"
#include "tests/support/catch.h"

namespace epifuse::test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(std::string(EPIFUSE_SOURCE_DIR) + "/" + path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A program from a text named spec.epi, with other files beside it.
inline Program load_text(const std::string& text, Diagnostics& diagnostics,
                         std::map<std::string, std::string> beside = {}) {
  MemorySource source(std::move(beside));
  return load_program("spec.epi", text, source, diagnostics);
}

// The graph of the only kernel of a text without mistakes.
inline ir::Graph resolve_text(const std::string& text, const ResolveOptions& options = {}) {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics);
  std::optional<ir::Graph> graph = resolve(program, "", options, diagnostics);
  INFO(text);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return std::move(*graph);
}

// Everything that is wrong with a text.
inline Diagnostics check_text(const std::string& text, const ResolveOptions& options = {}) {
  Diagnostics diagnostics;
  const Program program = load_text(text, diagnostics);
  check(program, options, diagnostics);
  return diagnostics;
}

// The example specs: paths in the checkout.
inline std::vector<std::string> example_paths() {
  return {"specs/grouped_gemm.epi",        "specs/grouped_gemm_swiglu.epi", "specs/moe_fc1_swiglu.epi",
          "specs/moe_fc1_swiglu_bf16.epi", "specs/dense_gemm_residual.epi", "specs/gpt_oss_fc1.epi",
          "specs/four_outputs.epi",        "specs/two_values.epi",          "tests/semantics/language_examples.epi"};
}

inline Program load_example(const std::string& path, Diagnostics& diagnostics) {
  MemorySource source({{"activations.epi", read_file("tests/semantics/activations.epi")}});
  return load_program(path.substr(path.rfind('/') + 1), read_file(path), source, diagnostics);
}

}  // namespace epifuse::test
