// Internal to the resolver: outputs that nobody wrote, which show an inner value (ResolveOptions::taps).
#pragma once

#include "compiler/semantics/context.h"

namespace epifuse::semantics {

// Behind the outputs of the kernel. A name that means no value of the kernel is reported.
void add_taps(KernelContext& context, const ast::Kernel& kernel);

}  // namespace epifuse::semantics
