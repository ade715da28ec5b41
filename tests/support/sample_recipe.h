// A recipe with one of everything, for tests of formats, binding and launching: a grouped GEMM with an optional bias
// left out, a strided operand, a persistent grid, a workspace, and a finishing launch.
#pragma once

#include "base/launch_recipe.h"

namespace epifuse::test {

inline LaunchRecipe sample_recipe() {
  const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K"), n = IntExpr::symbol("N"), e = IntExpr::symbol("E");
  LaunchRecipe r;
  r.kernel = "grouped";
  r.target = "sm_90a";
  r.tensors = {
      {"x", Storage::bf16, TensorRole::input, {m, k}, /*strided=*/true, 16, "rows are read by TMA", 1},
      {"w", Storage::bf16, TensorRole::input, {e, n, k}, false, 16, "", 1},
      {"M.ends", Storage::i32, TensorRole::group_sizes, {e}, false, 4, "", 1},
      {"y", Storage::e4m3, TensorRole::output, {m, n}, false, 16, "", 1},
      {"y.scale", Storage::e8m0, TensorRole::output, {m, ceil_div(n, 32)}, false, 16, "", 1},
  };
  r.symbols = {{"K", SymbolKind::fixed, 8},
               {"N", SymbolKind::fixed, 8},
               {"E", SymbolKind::fixed, 1},
               {"M", SymbolKind::launch, 1}};
  r.params = {{"alpha", 1.5}, {"limit", std::nullopt}};
  const IntExpr pitch = IntExpr::symbol("x.stride0") * 2;
  r.maps = {
      {"x", TensorMapType::bf16, 0, {k, m}, {pitch}, {64, 128}, {1, 1}, Swizzle::b128},
      {"w", TensorMapType::bf16, 0, {k, n, e}, {k * 2, k * n * 2}, {64, 128, 1}, {1, 1, 1}, Swizzle::b128},
  };

  RecipeStep clear;
  clear.kind = RecipeStep::Kind::memset;
  clear.workspace_offset = 256;
  clear.bytes = 64;

  RecipeStep gemm;
  gemm.entry = "gemm_entry";
  gemm.block = 384;
  gemm.shared_bytes = 200000;
  const IntExpr tiles = (ceil_div(m, 128) + e) * ceil_div(n, 128);
  gemm.grid = min(tiles * min(m, 1), IntExpr::symbol("sm_count"));
  gemm.parameter_bytes = 320;
  gemm.fields = {
      {"map_x", FieldKind::tensor_map, 0, 128, "", 0, 0},
      {"map_w", FieldKind::tensor_map, 128, 128, "", 0, 1},
      {"ends", FieldKind::address, 256, 8, "M.ends", 0, 0},
      {"y", FieldKind::address, 264, 8, "y", 0, 0},
      {"counter", FieldKind::address, 272, 8, "workspace", 256, 0},
      {"rows", FieldKind::integer64, 280, 8, "", m, 0},
      {"k", FieldKind::integer32, 288, 4, "", k, 0},
      {"blocks", FieldKind::integer32, 292, 4, "", IntExpr::symbol("sm_count"), 0},
      {"alpha", FieldKind::param, 296, 4, "", 0, 0},
      {"limit", FieldKind::param, 300, 4, "", 0, 1},
      {"bias", FieldKind::address, 304, 8, "", 0, 0},
  };

  RecipeStep finish;
  finish.entry = "finish_entry";
  finish.block = 128;
  finish.grid = ceil_div(m, 128);
  finish.parameter_bytes = 16;
  finish.fields = {{"scale", FieldKind::address, 0, 8, "y.scale", 0, 0},
                   {"rows", FieldKind::integer32, 8, 4, "", m, 0}};

  r.steps = {clear, gemm, finish};
  r.workspace_bytes = e * 256 + 320;
  return r;
}

}  // namespace epifuse::test
