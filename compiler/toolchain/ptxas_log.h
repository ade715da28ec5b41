// Reads what the assembler says under --ptxas-options=-v: registers, stack, spills, and the losses that it only
// mentions: serialised wgmma and a setmaxnreg without effect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/toolchain/toolchain.h"

namespace epifuse::toolchain {

// Fills entries, registers, spill_bytes, wgmma_serialized and notes of `outcome` from its log.
void read_ptxas_log(CompileOutcome& outcome);

}  // namespace epifuse::toolchain
