// What a kernel costs at least, what fusing it saves, and why it gets its plan, in numbers. No GPU is needed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/ir/work.h"
#include "tools/compile_kernel.h"
#include "tools/sized_kernels.h"

namespace epifuse::tools {

struct Explanation {
  std::string kernel;
  Target target;
  std::vector<std::pair<std::string, int64_t>> dims;  // and `dyn`s
  ir::LaunchSizes sizes;
  ir::Work work;
  // At the clock that no power limit lowers, and at that of a card which is hot from such work.
  double full_clock_mhz = 0, hot_clock_mhz = 0;
  ir::Floor full, hot;
  struct Unfused {
    size_t kernels = 0;
    double bytes = 0;
    double hot_ms = 0;  // the floors of all, one behind the other
  } unfused;

  TakenPlan taken;
  std::vector<lowering::KernelPlan> listed;  // the plans in the order in which they are tried, or all for a tuner
};

// `taken` is of the same kernel.
Result<Explanation> explain_kernel(const SizedKernel& kernel, TakenPlan taken);

std::string explanation_text(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);  // a JSON object

}  // namespace epifuse::tools
