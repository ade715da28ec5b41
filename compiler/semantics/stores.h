// Internal to the resolver: `out` statements (S1 to S4) and what the whole kernel must satisfy (V3).
#pragma once

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

void resolve_output(KernelContext& context, const ast::Out& out);

// After the last statement: at most one GEMM loop, every stored value over its dimensions, names of outputs.
void check_kernel(KernelContext& context, const ast::Kernel& kernel);

}  // namespace epifuse::semantics
