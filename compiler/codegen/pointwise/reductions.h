// The bodies of reductions: one pass over the terms of an item, and the sum of its partials.
#pragma once

#include "compiler/codegen/pointwise/launch_text.h"

namespace epifuse::codegen {

void spell_reduce(LaunchText& out);
void spell_finish(LaunchText& out);

}  // namespace epifuse::codegen
