// What a launch recipe cannot hold (base/recipe_limits.h) is a mistake of the spec, with its place: names that it gives
// a meaning of its own, names that are too long, tensors of too many axes, too many of anything.
#pragma once

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

// Behind everything that adds dimensions, params or tensors.
void check_limits(KernelContext& context, const ast::Name& kernel);

}  // namespace epifuse::semantics
