// Kernels without gemm that together store every scaled type under every rule, in every layout, with every option, and
// rotate: for the tests of the emitter, of NVRTC, and of the GPU.
#pragma once

#include "tests/codegen/pointwise_specs.h"

namespace epifuse::test {

inline const std::vector<PointwiseSpec>& format_specs() {
  static const std::vector<PointwiseSpec> list = [] {
    std::vector<PointwiseSpec> specs;
    const auto add = [&](const char* name, const std::string& body, std::vector<int64_t> counts = {},
                         std::map<std::string, int64_t> sizes = {}, int64_t slack = 0) {
      specs.push_back({name, pointwise_text(name, body), std::move(counts), std::move(sizes), slack});
    };
    const std::string rows =
        "dim E = 3, N = 72\ngroup M by E\ngroup P = M align 32\nin x : bf16[M, N]\nin r : f32[M]\nv = x * r\n";
    add("mx_rows",
        rows +
            "out a : mxfp8(nonfinite = te)[M, N] = v\nout b : mxfp4[M, N] = v\n"
            "out c : mxfp4(rule = floor, nonfinite = te)[N, P] = v\nout d : mxfp4(rule = even, along = P)[P, N] = v\n"
            "out e : mxfp4(rule = ceil)[M, N] = v\nout f : mxfp8(elem = e5m2, rule = ceil, along = N)[N, P] = v\n"
            "out g : mxfp4(along = N)[N, P] = v",
        {50, 0, 37}, {}, 4);
    add("mx_squares",
        rows +
            "out a : mxfp8_32x32[P, N] = v\nout b : mxfp8_32x32(elem = e5m2, rule = even)[N, P] = v\n"
            "out c : mxfp8_32x32(nonfinite = te, along = P)[P, N] = v",
        {50, 0, 37}, {}, 4);
    const std::string wide =
        "dim E = 3, N = 200\ngroup M by E\ngroup P = M align 128\nin x : f32[M, N]\nin r : f32[M]\nv = x * r\n";
    add("fp8_blocks",
        wide +
            "out a : fp8_1x128[M, N] = v\nout b : fp8_1x128(rule = te_f32, nonfinite = te)[M, N] = v\n"
            "out c : fp8_1x128(rule = deepgemm, elem = e5m2)[N, P] = v\n"
            "out d : fp8_1x128(rule = torchao, along = P)[P, N] = v\nout e : fp8_1x128(rule = vllm)[M, N] = v\n"
            "out f : fp8_1x128(rule = vllm, nonfinite = te)[N, P] = v * 1e-9",
        {130, 0, 37}, {}, 4);
    add("fp8_squares",
        wide +
            "out a : fp8_128x128[P, N] = v\nout b : fp8_128x128(rule = te_f32, elem = e5m2)[N, P] = v\n"
            "out c : fp8_128x128(rule = deepgemm, nonfinite = te, layout = columns_tma)[P, N] = v\n"
            "out d : fp8_128x128(rule = vllm, layout = columns_tma)[N, P] = v",
        {130, 0, 37}, {}, 4);
    add("weights",
        "dim E = 2, N = 136, K = 160\nin w : bf16[E, N, K]\nin g : f32[E]\nout q : fp8_128x128[E, N, K] = w\n"
        "out qt : fp8_128x128[E, K, N] = w\nout m : mxfp8_32x32(layout = blocked_128x4)[E, K, N] = w\n"
        "out f : nvfp4_16x16(amax = g)[E, N, K] = w\nout ft : nvfp4_16x16(amax = g, rule = torchao)[E, K, N] = w\n"
        "out t : fp8_1x128(layout = columns_tma)[E, N, K] = w");
    add("nv_rows",
        "dim E = 3, N = 72\ngroup M by E\ngroup P = M align 16\nin x : bf16[M, N]\nin one : f32\nin each : f32[E]\n"
        "in none : f32 = 10\nout a : nvfp4(amax = one)[M, N] = x\n"
        "out b : nvfp4(amax = each)[N, P] = x\nout c : nvfp4(rule = torchao, amax = each)[M, N] = x\n"
        "out d : nvfp4[M, N] = x * 8\nout e : nvfp4(nonfinite = te, amax = none, along = P)[P, N] = x\n"
        "out g : nvfp4_16x16(rule = torchao)[P, N] = x\n"
        "out h : nvfp4_16x16(nonfinite = te, amax = each)[N, P] = x",
        {50, 0, 37}, {}, 4);
    add("tma_columns",
        "dim E = 3, N = 75\ndyn S\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, N]\nin y : f32[S, N]\n"
        "out a : fp8_1x128(layout = columns_tma)[M, N] = x\nout b : fp8_1x128(layout = columns_tma)[N, P] = x\n"
        "out c : mxfp8(layout = columns_tma)[S, N] = y\nout d : mxfp8(layout = columns_tma)[N, S] = y\n"
        "out e : mxfp8(layout = columns_tma, along = S)[S, N] = y",
        {130, 0, 37}, {{"S", 45}}, 4);
    add("tiles",
        "dim E = 3, N = 72\ndyn S\ngroup M by E\ngroup P = M align 32\nin x : bf16[M, N]\nin y : f32[S, N]\n"
        "out a : mxfp8(layout = blocked_128x4)[M, N] = x\nout b : mxfp8(layout = blocked_128x4)[N, P] = x\n"
        "out c : mxfp8(layout = blocked_128x4, along = P)[P, N] = x\nout d : mxfp4(layout = blocked_128x4)[P, N] = x\n"
        "out e : mxfp8(layout = blocked_128x4)[S, N] = y\nout f : mxfp8(layout = blocked_128x4, along = N)[N, S] = y\n"
        "out g : mxfp8(layout = blocked_128x4, along = N)[N, M] = x\n"
        "out h : mxfp8_32x32(layout = blocked_128x4)[P, N] = x\nout i : mxfp8_32x32(layout = blocked_128x4)[N, P] = x\n"
        "out j : nvfp4(layout = blocked_128x4)[N, P] = x",
        {150, 0, 37}, {{"S", 135}}, 4);
    add("tiles_of_aligned_groups",
        "dim E = 4, N = 160\ngroup M by E align 96\ngroup P = M align 256\nin x : f32[M, N]\n"
        "out a : mxfp8(layout = blocked_128x4)[M, N] = x\nout b : mxfp8(layout = blocked_128x4)[N, M] = x\n"
        "out c : mxfp4(layout = blocked_128x4)[P, N] = x\nout d : mxfp8(layout = blocked_128x4)[N, P] = x",
        {100, 0, 37, 200});
    add("whole_tiles",
        "dim E = 3, N = 128\ngroup M by E\ngroup P = M align 128\nin x : bf16[M, N]\n"
        "out a : mxfp8(layout = blocked_128x4)[P, N] = x\nout b : mxfp8(layout = blocked_128x4)[N, P] = x",
        {100, 0, 130}, {}, 3);
    add("tiles_of_batches",
        "dim L = 2, E = 2, N = 40\ndyn S\ngroup M by E\ngroup P = M align 64\nin x : bf16[L, S, N]\nin y : bf16[M, N]\n"
        "in z : f32[L]\nin w : f32[E][N, 2*N]\nout a : mxfp8(layout = blocked_128x4)[L, S, N] = x\n"
        "out b : mxfp8(layout = blocked_128x4)[L, N, P] = y * z\nout c : mxfp4(layout = blocked_128x4)[L, M, N] = y * "
        "z\n"
        "out d : mxfp8(layout = blocked_128x4)[E][N, 2*N] = w\nout e : nvfp4[E][N, 2*N] = w",
        {70, 3}, {{"S", 130}}, 4);
    add("random_rounding",
        "dim E = 3, N = 48\ngroup M by E\ngroup P = M align 32\nin x : bf16[M, N]\nin rng : i64[2]\n"
        "out a : mxfp8(seed = rng)[M, N] = x\nout b : mxfp8(seed = rng, elem = e5m2)[N, P] = x\n"
        "out c : mxfp4(seed = rng)[M, N] = x\nout d : nvfp4(seed = rng, along = P)[P, N] = x\n"
        "out e : mxfp4(seed = rng, nonfinite = te)[N, P] = x\nout f : mxfp8_32x32(seed = rng)[P, N] = x\n"
        "out g : mxfp8(seed = rng, along = N)[N, M] = x",
        {50, 0, 37}, {}, 4);
    add("random_batches",
        "dim A = 2, B = 3, N = 45\ndyn S\nin x : bf16[A, B, S, N]\nin v : f32[S]\nin rng : i64[2]\n"
        "out a : fp8_1x128(seed = rng, rule = vllm)[A, B, S, N] = x\nout b : mxfp8(seed = rng)[S] = v\n"
        "out c : fp8_128x128(seed = rng)[B, A, N, S] = x",
        {}, {{"S", 70}});
    add("rotations",
        "dim E = 3, I = 24\ndyn S\ngroup M by E\ngroup P = M align 16\nin h : bf16[M, 2*I]\nin r : f32[M]\n"
        "in y : f32[S, I]\na, b = split(h)\nrow = hadamard(a * b * r, I)\ncolumn = hadamard(a, M, 0xD7E8)\n"
        "whole = hadamard(h, 2*I, 5)\nout o : bf16[M, I] = 4 * row + b\nout q : nvfp4[I, P] = cast(column, bf16)\n"
        "out w : f32[2*I, M] = whole\nout s : f32[E, I] = sum(column)\nout m : f32[E] = amax(hadamard(row, M))\n"
        "c, d = split(whole)\nout p : mxfp8[M, I] = c * d\nout t : f32[S, I] = hadamard(y, S)\n"
        "out u : mxfp8(along = S)[S, I] = hadamard(y, S, 3) + y",
        {50, 0, 37}, {{"S", 45}}, 4);
    return specs;
  }();
  return list;
}

}  // namespace epifuse::test
