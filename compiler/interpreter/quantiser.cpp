#include "compiler/interpreter/quantiser.h"

#include <cmath>

#include "compiler/interpreter/mx_quantiser.h"

namespace epifuse::interpreter {
namespace {

struct Row {
  ir::Format format;
  std::unique_ptr<Quantiser> (*make)(const ir::TensorType&);
};

constexpr Row table[] = {
    {ir::Format::mxfp8, make_mx_quantiser},
};

bool is_mx_rule(ir::ScaleRule rule) { return rule <= ir::ScaleRule::ceil; }

}  // namespace

double Quantiser::amax(const double* values, int64_t count) const {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude = std::fabs(values[i]);
    if (magnitude != magnitude) {
      if (type_.nonfinite == ir::NonFinite::propagate) return magnitude;
    } else if (magnitude > largest) {
      largest = magnitude;
    }
  }
  return largest;
}

Result<std::unique_ptr<Quantiser>> make_quantiser(const ir::TensorType& type) {
  const std::string name = ir::print_type(type);
  if (type.layout != ir::ScaleLayout::rows)
    return user_error("the interpreter does not have the scale layout of '" + name + "' yet");
  if (!type.seed_input.empty())
    return user_error("the interpreter does not have the stochastic rounding of '" + name + "' yet");
  for (const Row& row : table) {
    if (row.format != type.format) continue;
    if (!is_mx_rule(type.rule)) return user_error("the rule of '" + name + "' is none for this type");
    return row.make(type);
  }
  return user_error("the interpreter does not have the type '" + name + "' yet");
}

int along_axis(const ir::TensorType& type, int rank) { return type.along_axis < 0 ? rank - 1 : type.along_axis; }

std::vector<int64_t> scale_extents(const ir::TensorType& type, std::vector<int64_t> extents) {
  const ir::FormatInfo& info = ir::format_info(type.format);
  const int rank = static_cast<int>(extents.size());
  const int along = along_axis(type, rank);
  auto divide = [&](int axis, int64_t block) { extents[axis] = (extents[axis] + block - 1) / block; };
  divide(along, info.block_columns);
  // Two-dimensional blocks lie over the two last dimensions.
  if (info.block_rows > 1 && rank > 1) divide(along == rank - 1 ? rank - 2 : rank - 1, info.block_rows);
  return extents;
}

}  // namespace epifuse::interpreter
