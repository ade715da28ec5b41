// The text form of a schedule, the one name that a plan has: in --schedule, in the C interface, in messages and in
// tuning files.
//
//   pingpong 128x192            a tile of each consumer warpgroup
//   cooperative 128x256         a tile of both
//   pass 128x64, pointwise      kernels without gemm
//
// Behind the tile stands what differs from the planner's own choice for it, in this order: "separate", "stages 4",
// "band 16", "dynamic", "pairs".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

struct ScheduleName {
  Family family = Family::gemm;
  bool cooperative = false;
  int tile_columns = 0;  // of one consumer warpgroup, or of a pass
  bool separate = false;
  std::optional<int> stages, band;  // empty: the planner's
  bool dynamic = false, pairs = false;

  bool operator==(const ScheduleName&) const = default;
};

std::string schedule_name(const Schedule& schedule);

// What a text asks for; words behind the tile may come in any order. Nothing when it is no name. Whether a kernel has
// such a plan is another question.
std::optional<ScheduleName> parse_schedule_name(std::string_view text);

}  // namespace epifuse::lowering
