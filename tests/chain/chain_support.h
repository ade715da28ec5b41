// Forward specs for the tests of grad --chain, and what is derived from them.
#pragma once

#include <string>
#include <vector>

#include "compiler/chain/derive_backward.h"
#include "tests/semantics/spec_support.h"

namespace epifuse::test {

inline Program load_forward(const std::string& text, Diagnostics& diagnostics) {
  MemorySource source({});
  return load_program("forward.epi", "use \"activations.epi\"\n" + text, source, diagnostics);
}

inline std::string derive(const std::string& text, const std::vector<std::string>& chain) {
  Diagnostics diagnostics;
  const Program program = load_forward(text, diagnostics);
  const std::optional<std::string> derived = chain::derive_backward(program, chain, diagnostics);
  INFO(text);
  INFO(diagnostics.print());
  REQUIRE(derived);
  CHECK(diagnostics.all().empty());
  return *derived;
}

// The kernel of that name in a derived spec, from its comments to its brace.
inline std::string kernel_of(const std::string& spec, const std::string& name) {
  const size_t kernel = spec.find("kernel " + name + " {");
  INFO(spec);
  REQUIRE(kernel != std::string::npos);
  const size_t blank = spec.rfind("\n\n", kernel);
  return spec.substr(blank + 2, spec.find("\n}\n", kernel) + 3 - (blank + 2));
}

}  // namespace epifuse::test
