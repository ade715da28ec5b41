// Weight gradients and what an epilogue makes of them, over groups of which some are empty: those have no terms (S4).
// Shared by the tests of the unfused stages, on the interpreter, the host and the GPU.
#pragma once

#include <string>
#include <vector>

namespace epifuse::test {

// v = (what is given) of s[E, K] and r[E, N, K]; counts are those of the GPU tests.
inline std::string contracted_text(const std::string& value, const std::string& outputs,
                                   const std::string& group = "group M by E") {
  return "kernel contracted {\n  dim E = 6, N = 96, K = 64\n  " + group +
         "\n  in d : bf16[M, N]\n  in x : bf16[M, K]\n  in s : f32[E, K]\n  in r : f32[E, N, K]\n"
         "  dw = gemm(d, x)\n  v = " +
         value + "\n" + outputs + "}\n";
}

inline std::vector<int64_t> contracted_counts() { return {33, 0, 1, 127, 129, 31}; }

inline std::vector<std::string> contracted_specs() {
  return {
      contracted_text("dw + s",
                      "  out f : f32[E, N, K] = v\n  out b : bf16[E, K, N] = v\n  out g : f32[E, N, K] += v\n"
                      "  out h : bf16[E, N, K] += v\n"),
      contracted_text("dw * s", "  out f : f32[E, N, K] = v\n  out g : f32[E, K, N] += v\n", "group M by E counts i64"),
      contracted_text("max(dw, r) - 7",
                      "  out a : mxfp8[E, N, K] = v\n  out b : fp8_1x128[E, N, K] = v\n"
                      "  out c : nvfp4[E, N, K] = v\n  out d8 : mxfp8_32x32[E, N, K] = v\n"),
      contracted_text("dw + s",
                      "  out columns : f32[E, K] = sum(v)\n  out rows : f32[E, N] += sum(v)\n"
                      "  out most : f32[E] = amax(v)\n  out total : f32[E] += sum(v)\n"),
      // Of all groups together: what is computed of no terms counts.
      contracted_text("dw + s",
                      "  out columns : f32[K] = sum(v)\n  out most : f32 = amax(v)\n"
                      "  out total : f32 += sum(v)\n"),
      // What has no terms of a group is none of its gradient's.
      contracted_text("dw + 1",
                      "  out f : f32[E, N, K] = v\n  out own : f32[E, N, K] = r * 2\n"
                      "  out more : f32[E, N, K] += r\n  out most : f32[E, K] += sum(r)\n"),
      contracted_text("dw + s", "  out f : f32[E, N, K] = v\n", "group M by E ends i32 align 16"),
  };
}

// Groups along the last dimension, where neighbours of an element lie in others; no fused kernel stores them so.
inline std::string contracted_across() {
  return "kernel across {\n  dim E = 32, N = 96, K = 64\n  group M by E\n  in d : bf16[M, N]\n  in x : bf16[M, K]\n"
         "  in s : f32[E, K]\n  v = gemm(d, x) + s\n  out f : f32[N, K, E] = v\n  out g : bf16[K, N, E] += v\n"
         "  out q : mxfp8[N, K, E] = v\n  out t : mxfp8[N, E, K] = v\n  out u : mxfp8_32x32[K, N, E] = v\n"
         "  out w : mxfp8(along = E)[K, E, N] = v\n  out columns : f32[K, E] = sum(v)\n}\n";
}

inline std::vector<int64_t> contracted_across_counts() {
  std::vector<int64_t> counts;
  for (int64_t e = 0; e < 32; ++e) counts.push_back(e % 3 == 1 ? 0 : 1 + 5 * e % 19);
  return counts;
}

}  // namespace epifuse::test
