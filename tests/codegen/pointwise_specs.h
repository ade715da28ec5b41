// Kernels without gemm that together meet every kind of launch, every type, and every change of coordinates: for the
// tests of the emitter, of NVRTC, and of the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace epifuse::test {

struct PointwiseSpec {
  const char* name;  // of the kernel
  std::string text;
  std::vector<int64_t> counts;  // rows of each group of M
  std::map<std::string, int64_t> sizes = {};
  int64_t slack_rows = 0;
};

inline std::string pointwise_text(const std::string& name, const std::string& body) {
  return "kernel " + name + " {\n" + body + "\n}\n";
}

inline const std::vector<PointwiseSpec>& pointwise_specs() {
  static const std::vector<PointwiseSpec> list = [] {
    std::vector<PointwiseSpec> specs;
    const auto add = [&](const char* name, const std::string& body, std::vector<int64_t> counts = {},
                         std::map<std::string, int64_t> sizes = {}, int64_t slack = 0) {
      specs.push_back({name, pointwise_text(name, body), std::move(counts), std::move(sizes), slack});
    };
    add("quantise_rows",
        "dim E = 3, N = 72\ngroup M by E\nin y : bf16[M, N]\nin a : f32[M]\n"
        "s = select(a > 0, min(448 / a, 3e38), 1)\nout q : e4m3[M, N] = y * s\nout qs : f32[M] = 1 / s",
        {5, 0, 130}, {}, 7);
    add("bias_backward",
        "dim E = 4, H = 40\ngroup M by E counts i64\nin dz : bf16[M, H]\nin b2 : bf16[E, H]\nin prob : f32[M]\n"
        "out dprob : f32[M] += sum(dz * b2)\nout db2 : f32[E, H] += sum(dz * prob)",
        {3, 0, 300, 129}, {}, 5);
    add("combine",
        "dim H = 56, J = 6\ndyn T, R\nin z : bf16[R, H]\nin slot : i32[T, J]\nin p : f32[T, J]\n"
        "out y : bf16[T, H] = sum(z[slot] * p)",
        {}, {{"T", 37}, {"R", 50}});
    add("quantise_gathered",
        "dim E = 3, K = 64\ndyn T\ngroup M by E\ngroup P = M align 128\nin x : bf16[T, K]\nin idx : i32[M]\n"
        "xp = x[idx]\nout q : mxfp8[M, K] = xp\nout qt : mxfp8(elem = e5m2)[K, P] = xp\nout ends : i32[E] = P.ends",
        {40, 0, 129}, {{"T", 90}}, 3);
    add("deals",
        "dim E = 2, I = 24\ngroup M by E align 8\nin h : f16[M, 2*I]\na, b = split(h)\nc, d = split(h, 1)\n"
        "e, f = split(h, 8)\nout x : bf16[M, I] = a * b + c - d * e + f\nout j0 : f32[M, 2*I] = join(a, c)\n"
        "out j1 : f32[M, 2*I] = join(b, d, 1)\nout j8 : f32[M, 2*I] = join(c, e, 8)",
        {9, 17});
    add("odd_deals",
        "dim E = 2, I = 13\ngroup M by E\nin h : e4m3[M, 2*I]\na, b = split(h)\nc, d = split(h, 1)\n"
        "out x : f16[M, I] = a * b + c - d\nout j : bf16[2*I, M] = join(b, c, 1)",
        {9, 17});
    add("transposed",
        "dim E = 3, N = 48\ngroup M by E\ngroup P = M align 16\nin x : e5m2[M, N]\nin w : f32[E, N]\nv = x * w\n"
        "out a : bf16[N, M] = v\nout b : f32[N, P] = v\nout c : e5m2[P, N] = v\nout d : e4m3[N, P] = v + 1\n"
        "out ends : i32[E] = P.ends",
        {5, 33, 0}, {}, 2);
    add("accumulated",
        "dim E = 3, N = 24, R = 7\ngroup M by E align 8\ngroup P = M align 32\nin x : f32[M, N]\nin c : f32[R, N]\n"
        "out a : bf16[M, N] += x\nout b : f16[N, P] += x\nout d : f32[R, N] += c\nout e : f32[N, R] += c * 2\n"
        "out s : bf16[E] += sum(x)\nout m : bf16 += sum(x)",
        {5, 0, 40});
    add("reductions",
        "dim E = 3, N = 40\ngroup M by E\ngroup P = M align 16\nin x : bf16[M, N]\nin w : f32[E, N]\n"
        "out row : f32[M] = sum(x)\nout rowa : f16[P] = amax(x)\nout col : f32[N] = sum(x * w)\n"
        "out ga : f32[E] = amax(x)\nout both : f32[E, N] = sum(x)\nout turned : bf16[N, E] = amax(x)\n"
        "out all : f32 = sum(x)\nout alla : f32 = amax(x)\nout wr : f32[E] = sum(w)\nout wc : f32[N] = amax(w)",
        {300, 1, 513});
    add("large_reductions",
        "dim A = 3, B = 700, C = 11\ndyn S, T\nin x : f32[A, B, C]\nin y : bf16[S, T]\nin z : f32[S]\n"
        "out ac : f32[A, C] = sum(x)\nout c : f32[C] = sum(x)\nout a : f32[A] = sum(x)\nout all : f32 = amax(x)\n"
        "out s : f32[S] = sum(y)\nout t : f32[T] = sum(y)\nout st : f32 = sum(y)\nout zs : f32 = sum(z)\n"
        "out cross : f32[S] = sum(y * z)",
        {}, {{"S", 150}, {"T", 77}});
    add("aligned_input",
        "dim E = 4, N = 16\ngroup M by E counts\ngroup P = M align 32\nin x : bf16[P, N]\nin w : bf16[M, N]\n"
        "in b : f32[E]\nout y : bf16[M, N] = x * w + b\nout t : f32[P, N] = x - w\nout ends : i32[E] = P.ends",
        {33, 0, 1, 64}, {}, 9);
    add("ranks",
        "dim A = 3, B = 5, C = 16\ndyn L\nin x : bf16[L, A, B, C]\nin s : f32\nin v : f32[B]\nin k : f16[C, A]\n"
        "out y : bf16[L, A, B, C] = x * s + v * k\nout z : f32[C, L, B, A] = x + k\nout n : f32 = s * 2\n"
        "out w : f32[B] = v + s",
        {}, {{"L", 4}});
    add("scales",
        "dim E = 2, N = 40\ngroup M by E\ngroup P = M align 32\nin x : f32[M, N]\nin r : f32[M]\nv = x * r\n"
        "out up : mxfp8[M, N] = v\nout fl : mxfp8(rule = floor)[M, N] = v\nout ev : mxfp8(rule = even, elem = e5m2)[M, "
        "N] "
        "= v\nout ce : mxfp8(rule = ceil)[N, P] = v\nout al : mxfp8(along = P)[P, N] = v",
        {50, 37}, {}, 4);
    add("short_blocks",
        "dim A = 3, N = 45\ndyn S\nin x : bf16[A, S, N]\nout q : mxfp8[A, S, N] = x\nout t : mxfp8[A, N, S] = x", {},
        {{"S", 71}});
    add("folded",
        "dim E = 3, J = 5, N = 16\ngroup M by E align 4\nin x : bf16[M, J, N]\nin p : f32[M, J]\n"
        "out a : bf16[M, N] = sum(x * p)\nout b : f32[M, N] += sum(x)\nout c : f32[E, J, N] += sum(x)\n"
        "out d : f32[J, N] = amax(x)\nout e : f32[N, M] = sum(x * p)",
        {9, 0, 140});
    add("pointers",
        "dim E = 3, N = 24\ngroup M by E\nin x : bf16[M, N]\nin w : bf16[E][N, N/2]\nin b : f32[E][N]\n"
        "out y : f32[M, N] = x * b\nout s : f32[E][N] += sum(x)\nout q : bf16[E][N, N/2] = w + 1",
        {10, 0, 20});
    add("rows_by_index",
        "dim E = 2, K = 32\ndyn T, U\ngroup M by E\nin x : bf16[T, K]\nin u : e4m3[U, K]\nin one : i64[M]\nin two : "
        "i32[M]\nin b : f32[E, K]\nz = x[one] * u[two]\nout o : bf16[M, K] = z + b\nout t : f32[K, M] = z\nout r : "
        "f32[M] = amax(z)",
        {20, 21}, {{"T", 30}, {"U", 25}}, 3);
    add("one_row",
        "dim E = 2, K = 32\ndyn T\ngroup M by E\nin x : bf16[T, K]\nin idx : i32[M]\n"
        "out o : bf16[M, K] = x[idx]",
        {3, 4}, {{"T", 1}});
    add("slots",
        "dim E = 4, N = 40\ndyn C\ngroup M by E counts i64 slot C\ngroup P = M align 48\nin x : bf16[M, N]\n"
        "in b : f32[E, N]\nv = x * b\nout y : f32[M, N] = v\nout t : bf16[N, P] = v\nout r : f32[M] = sum(v)\n"
        "out s : f32[E, N] += sum(v)\nout all : f32 = amax(v)\nout q : mxfp8[M, N] = v\nout ends : i32[E] = P.ends",
        {50, 0, 7, 300}, {{"C", 300}});
    add("slots_ends",
        "dim E = 3, N = 24\ngroup M by E slot 64\ngroup P = M align 16\nin x : f32[M, N]\nout t : bf16[N, M] = x\n"
        "out p : f32[P] = sum(x)\nout s : f32[E, N] = sum(x)\nout ends : i32[E] = P.ends",
        {0, 64, 1}, {}, 5);
    add("functions",
        "dim N = 48\ndyn S\nparam c = 1.5\nin x : f32[S, N]\nin y : f32[S, N] = 2\n"
        "out a : f32[S, N] = exp(min(x, 3)) + log(abs(y) + 0.5) + tanh(x) + sigmoid(c * x) + erf(x) - erfc(y)\n"
        "out b : f32[S, N] = sqrt(abs(x)) * rsqrt(abs(y) + 0.1) + clamp(x, -1, c) / max(y, 0.25) - select(x < y, x, "
        "-y)\n"
        "out d : f32[S, N] = cast(x, bf16) + cast(y, f16) + cast(x, e4m3) + cast(y, e5m2) + select(x == y, 1, 0) + "
        "select(x != y, 0.5, 0) + select(x <= 0, 3, 4)",
        {}, {{"S", 9}});
    return specs;
  }();
  return list;
}

}  // namespace epifuse::test
