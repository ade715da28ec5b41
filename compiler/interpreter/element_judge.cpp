#include "compiler/interpreter/element_judge.h"

namespace epifuse::interpreter {

ElementJudge::ElementJudge(const Tile& tile, const OutputWalk& walk, const ir::Graph& graph, Tally& tally,
                           double largest)
    : tile_(tile), walk_(walk), graph_(graph), tally_(tally), largest_(largest) {
  tally.strips.resize(static_cast<size_t>((tile.cols + strip_width - 1) / strip_width));
  tally.group = tile.group;
  tally.first_column = walk.col_axis() < 0 ? 0 : tile.position[walk.col_axis()];
}

void ElementJudge::scale_differs(uint32_t reference, uint32_t stored, bool uncertain) {
  ++tally_.scales_different;
  if (uncertain) ++tally_.scales_uncertain;
  const bool neighbours = reference + 1 == stored || stored + 1 == reference;
  ++(neighbours ? tally_.scales_one_step : tally_.scales_more_steps);
}

void ElementJudge::scale_outside(int64_t row, int64_t col, int64_t position, const Expected& expected, double stored) {
  ++tally_.scales_outside;
  const double excess = std::numeric_limits<double>::infinity();
  note(row, col, {true, true, {}, tile_.group, stored, expected.value, expected.low, expected.high, excess, position});
}

void ElementJudge::outside(int64_t row, int64_t col, const Expected& expected, double stored, double excess) {
  ++tally_.outside;
  note(row, col, {true, false, {}, tile_.group, stored, expected.value, expected.low, expected.high, excess, -1});
}

void ElementJudge::note(int64_t row, int64_t col, WorstElement element) {
  if (tally_.worst.found && !(element.excess > tally_.worst.excess)) return;
  for (size_t axis = 0; axis < walk_.domain().size(); ++axis) {
    const int a = static_cast<int>(axis);
    const int64_t offset = a == walk_.row_axis() ? row : a == walk_.col_axis() ? col : 0;
    element.place.push_back({graph_.extent_text(walk_.domain()[axis]), tile_.position[axis] + offset});
  }
  tally_.worst = std::move(element);
}

}  // namespace epifuse::interpreter
