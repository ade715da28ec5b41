// Internal to the resolver: `dim`, `dyn`, `group`, and sizes made of them (N1, N2, S5, S6).
#pragma once

#include <optional>
#include <vector>

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

// Defines every dimension of the kernel; dimensions may be used above the line that defines them.
void define_dimensions(KernelContext& context, const ast::Kernel& kernel);

// The extent that a size means; nothing once the reason is reported. A size that is not whole is an error here.
std::optional<ir::Extent> resolve_size(KernelContext& context, const ast::Size& size);

// A shape of a tensor: every size, no name twice, no group count beside what it cuts.
std::optional<ir::Shape> resolve_shape(KernelContext& context, const std::vector<const ast::Size*>& sizes);

}  // namespace epifuse::semantics
