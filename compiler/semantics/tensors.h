// Internal to the resolver: tensors, which are a type with options and a shape (N1, N4, S7, S8, S9).
#pragma once

#include <optional>

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

enum class Direction { in, out };

// The tensor as it was written, but for its name; nothing once the reasons are reported. The inputs that options name
// are checked later, by check_option_inputs, because they may stand below.
std::optional<ir::Tensor> resolve_tensor(KernelContext& context, const ast::Tensor& tensor, Direction direction);

// `amax = A` and `seed = S` of a resolved tensor: A is an f32 input, scalar or over one dim; S an i64[2] input.
void check_option_inputs(KernelContext& context, const ast::Tensor& tree, const ir::Tensor& tensor);

}  // namespace epifuse::semantics
