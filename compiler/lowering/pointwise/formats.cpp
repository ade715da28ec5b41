#include "compiler/lowering/pointwise/formats.h"

#include <fmt/format.h>

namespace epifuse::lowering {
namespace {

struct Row {
  ir::Format format;
  ir::ScaleRule rule;
  const char* quantiser;  // of the element type
};

constexpr Row table[] = {
    {ir::Format::mxfp8, ir::ScaleRule::up, "MxUp"},
    {ir::Format::mxfp8, ir::ScaleRule::floor, "MxFloor"},
    {ir::Format::mxfp8, ir::ScaleRule::even, "MxEven"},
    {ir::Format::mxfp8, ir::ScaleRule::ceil, "MxCeil"},
};

}  // namespace

std::optional<PointwiseFormat> pointwise_format(const ir::TensorType& type) {
  if (type.layout != ir::ScaleLayout::rows || type.nonfinite != ir::NonFinite::propagate || !type.seed_input.empty() ||
      !type.amax_input.empty())
    return std::nullopt;
  for (const Row& row : table)
    if (row.format == type.format && row.rule == type.rule)
      return PointwiseFormat{ir::format_info(type.format).block_columns,
                             fmt::format("{}<{}>", row.quantiser, storage_name(type.element))};
  return std::nullopt;
}

}  // namespace epifuse::lowering
