// Target: the GPU that code is compiled for, as a value. The compiler never asks a device, so any machine compiles for
// any GPU; only runtime/ turns a device into a Target.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse {

struct Target {
  std::string name = "sm_90a";  // as NVRTC's --gpu-architecture spells it
  int major = 9;
  int minor = 0;
  bool arch_specific = true;                 // the "a" suffix: wgmma and setmaxnreg exist
  int shared_bytes_per_block = 232448;       // the most a block can opt in to
  int registers_per_multiprocessor = 65536;  // 32-bit registers
};

// What a GPU of a target can do at most: figures of one card that stands for it where none is at hand, and rates that
// all of them have.
struct TargetFigures {
  std::string_view card = "H200";
  int multiprocessors = 132;
  // Multiplications and additions in one cycle of a multiprocessor's tensor cores, by the width of operands.
  double flop_per_clock_16 = 4096, flop_per_clock_8 = 8192;
  double full_clock_mhz = 1980;           // the most that it ever runs at
  double hot_clock_mhz = 1400;            // what its 700 W leave it under products of random bf16 (docs/measurements)
  double copy_bytes_per_second = 4.3e12;  // reading and writing together, measured with copies
};
const TargetFigures& figures_of(const Target& target);

// "sm_90a" to a Target. Names that Epifuse has no kernels for are refused with the names that it has.
Result<Target> parse_target(std::string_view name);

// The target whose code runs on a device of this compute capability.
Result<Target> target_for_capability(int major, int minor);

}  // namespace epifuse
