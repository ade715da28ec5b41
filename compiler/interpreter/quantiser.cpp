#include "compiler/interpreter/quantiser.h"

#include <cmath>

#include "base/ensure.h"
#include "compiler/interpreter/fp8_quantiser.h"
#include "compiler/interpreter/mx_quantiser.h"
#include "compiler/interpreter/nvfp4_quantiser.h"
#include "compiler/interpreter/stochastic.h"

namespace epifuse::interpreter {
namespace {

// Null where the rule is none of the format's.
struct Row {
  ir::Format format;
  std::unique_ptr<Quantiser> (*make)(const ir::TensorType&);
};

constexpr Row table[] = {
    {ir::Format::fp8_1x128, make_fp8_quantiser},     {ir::Format::fp8_128x128, make_fp8_quantiser},
    {ir::Format::mxfp8, make_mx_quantiser},          {ir::Format::mxfp8_32x32, make_mx_quantiser},
    {ir::Format::mxfp4, make_mx_quantiser},          {ir::Format::nvfp4, make_nvfp4_quantiser},
    {ir::Format::nvfp4_16x16, make_nvfp4_quantiser},
};

uint32_t nan_scale(Storage storage) { return storage == Storage::e8m0 ? 255 : float_format(storage).nan; }

}  // namespace

Quantiser::Quantiser(const ir::TensorType& type)
    : type_(type), info_(ir::format_info(type.format)), element_format_(float_format(type.element)) {}

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

BlockScale Quantiser::block_scale(double amax, GroupMaximum maximum) const {
  const bool poisoned = amax != amax || (std::isinf(amax) && type_.nonfinite == ir::NonFinite::propagate);
  if (poisoned) return {nan_scale(info_.scale), std::nan("")};
  return scale_of(amax, maximum);
}

uint32_t Quantiser::element(double value, double factor, std::optional<uint32_t> random) const {
  const double x = scaled(value, factor);
  return random ? encode_stochastically(element_format_, x, *random) : encode(element_format_, x);
}

double Quantiser::scale_value(uint32_t code) const {
  return info_.scale == Storage::e8m0 ? decode_e8m0(static_cast<uint8_t>(code)) : decode(info_.scale, code);
}

Result<std::unique_ptr<Quantiser>> make_quantiser(const ir::TensorType& type) {
  for (const Row& row : table) {
    if (row.format != type.format) continue;
    std::unique_ptr<Quantiser> made = row.make(type);
    if (!made) return user_error("the rule of '" + ir::print_type(type) + "' is none for this type");
    return made;
  }
  EPIFUSE_ENSURE(false, "a quantiser of a plain type");
}

}  // namespace epifuse::interpreter
