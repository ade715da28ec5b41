// How the kinds in a launch recipe are called in its JSON.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/launch_recipe.h"

namespace epifuse {

template <class E>
using Names = std::vector<std::pair<E, std::string_view>>;

inline const Names<TensorRole> role_names = {
    {TensorRole::input, "input"}, {TensorRole::output, "output"}, {TensorRole::group_sizes, "group_sizes"}};
inline const Names<SymbolKind> symbol_kind_names = {{SymbolKind::fixed, "fixed"}, {SymbolKind::launch, "launch"}};
inline const Names<Swizzle> swizzle_names = {
    {Swizzle::none, "none"}, {Swizzle::b32, "32B"}, {Swizzle::b64, "64B"}, {Swizzle::b128, "128B"}};
inline const Names<TensorMapType> map_type_names = {
    {TensorMapType::u8, "u8"}, {TensorMapType::f16, "f16"}, {TensorMapType::bf16, "bf16"}, {TensorMapType::f32, "f32"}};
inline const Names<FieldKind> field_kind_names = {{FieldKind::tensor_map, "tensor_map"},
                                                  {FieldKind::address, "address"},
                                                  {FieldKind::integer32, "integer32"},
                                                  {FieldKind::integer64, "integer64"},
                                                  {FieldKind::param, "param"}};
inline const Names<RecipeStep::Kind> step_kind_names = {{RecipeStep::Kind::launch, "launch"},
                                                        {RecipeStep::Kind::memset, "memset"}};

}  // namespace epifuse
