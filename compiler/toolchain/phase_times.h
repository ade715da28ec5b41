// What the phases of one compile took, from the table that NVRTC writes on request (--time=FILE).
#pragma once

#include <string_view>

namespace epifuse::toolchain {

// Milliseconds; 0 where the compiler did not say.
struct PhaseTimes {
  double cuda = 0;   // front end: from CUDA text to NVVM's form
  double nvvm = 0;   // optimiser: to PTX
  double ptxas = 0;  // assembler: to a cubin

  PhaseTimes& operator+=(const PhaseTimes& other);
};

// Reads lines "program, phase, milliseconds, ms". What it does not know is passed over: the table is for people, and
// nothing depends on it.
PhaseTimes parse_phase_times(std::string_view table);

}  // namespace epifuse::toolchain
