#include "compiler/codegen/format_policy.h"

#include <fmt/format.h>

#include "base/ensure.h"

namespace epifuse::codegen {
namespace {

// The families of templates/formats.
enum class Family { mx, fp8_blocks, nvfp4 };

Family family_of(const ir::TensorType& type) {
  EPIFUSE_ENSURE(type.scaled(), "only scaled types have a policy");
  switch (ir::format_info(type.format).scale) {
    case Storage::e8m0: return Family::mx;
    case Storage::f32: return Family::fp8_blocks;
    default: return Family::nvfp4;
  }
}

}  // namespace

std::string format_policy(const ir::TensorType& type) {
  const std::string_view nonfinite = type.nonfinite == ir::NonFinite::te ? "te" : "propagate";
  const std::string_view element = storage_name(type.element), rule = ir::rule_name(type.rule);
  switch (family_of(type)) {
    case Family::mx:
      return fmt::format("formats::MxFormat<{}, formats::MxRule::{}, formats::NonFinite::{}>", element, rule,
                         nonfinite);
    case Family::fp8_blocks:
      return fmt::format("formats::Fp8Blocks<{}, formats::Fp8Rule::{}, formats::NonFinite::{}>", element,
                         type.rule == ir::ScaleRule::up ? "te_pow2" : rule, nonfinite);
    case Family::nvfp4: break;
  }
  return fmt::format("formats::Nvfp4<formats::NvRule::{}, formats::NonFinite::{}>", rule, nonfinite);
}

std::string format_header(const ir::TensorType& type) {
  switch (family_of(type)) {
    case Family::mx: return "formats/mx.cuh";
    case Family::fp8_blocks: return "formats/fp8_blocks.cuh";
    case Family::nvfp4: break;
  }
  return "formats/nvfp4.cuh";
}

}  // namespace epifuse::codegen
