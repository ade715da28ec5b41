// The bodies of launches that store scaled types: blocks with their scales and codes, and tiles of scales set to zero.
#pragma once

#include "compiler/codegen/pointwise/launch_text.h"

namespace epifuse::codegen {

void spell_blocks(LaunchText& out);
void spell_clear(LaunchText& out);

}  // namespace epifuse::codegen
