// Kernels that together store every scaled type, in every order of its dimensions, with its blocks along either of
// them, in every layout of its scales, under every rule and both policies for what is no number, behind every form of
// gemm. Each also stores the value as f32, so that the quantised bytes can be held against it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace epifuse::test {

struct FormatKernel {
  std::string name, text;
  std::vector<int64_t> counts;  // of the groups of M, where it has groups
  std::vector<int64_t> rows;    // sizes of S, a run each, where it has S
};

// In each a factor `s` of f32 multiplies the product: where numbers come in that are none.
std::vector<FormatKernel> format_kernels();

// A kernel that the compiler refuses, and what it says of it.
struct RefusedFormat {
  std::string text, why;
};
std::vector<RefusedFormat> refused_formats();

}  // namespace epifuse::test
