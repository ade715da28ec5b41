// The backward kernels of a chain of forward kernels, as a spec that a person reads, keeps and changes.
//
// Each kernel of the chain is products, y = f(gemm(x, w), others), and reads the output of the one before it. Of a
// kernel's gradients dx comes from gemm(dp, w), dw from gemm(dp, x), where dp = dy · ∂f/∂p at the product p; `others`
// (bias, probability, scales) get the same seed summed over what they lack. The factor ∂f/∂p is written with `grad` in
// the epilogue of the gemm that makes dy, or, at the end of the chain, as a kernel without gemm. Where it needs p, an
// output of the forward kernel that holds p, or p with a bias and scales, is read; where there is none, the forward
// kernel is written once more with that output added.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/parser/program.h"

namespace epifuse::chain {

// The text of the spec, formatted; every kernel in it resolves. `kernels` are kernels of the main file in the order in
// which they run. Nothing when a name is wrong or something cannot be derived: the diagnostics say what and why.
// `spec_folder` leads from where the text will lie to the folder of the main file, "../mlp", so that its `use` lines
// still find what is beside that; empty: they lie together.
std::optional<std::string> derive_backward(const Program& program, const std::vector<std::string>& kernels,
                                           Diagnostics& diagnostics, const std::string& spec_folder = "");

}  // namespace epifuse::chain
