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

// Two layers around an activation that no library has, as somebody would write it. `type` is that of the tensors that a
// step keeps; sizes may be as small as one likes where nothing is planned.
inline std::string own_activation_layers(const std::string& type, const std::string& dims) {
  const std::string head = " {\n  dim " + dims + "\n  group M by E\n";
  return "fn softplus(x) = max(x, 0) + log(1 + exp(-abs(x)))\n"
         "fn bent_glu(gate, up, c) = square(softplus(gate)) * c * tanh(up / c)\n"
         "kernel fc1" +
         head + "  param c = 3\n  in x : " + type + "[M, K]\n  in w1 : " + type +
         "[E, 2*I, K]\n  in prob : f32[M]\n  h = gemm(x, w1)\n  gate, up = split(h)\n  out pre : " + type +
         "[M, 2*I] = h\n  out a : " + type +
         "[M, I] = bent_glu(gate, up, c) * prob\n}\n"
         "kernel fc2" +
         head + "  in a : " + type + "[M, I]\n  in w2 : " + type + "[E, K, I]\n  out y : " + type +
         "[M, K] = gemm(a, w2)\n}\n";
}

}  // namespace epifuse::test
