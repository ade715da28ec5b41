#include "compiler/semantics/type_options.h"

namespace epifuse::semantics {
namespace {

using ir::Format;
using ir::FormatInfo;

// Powers of two for E8M0 scales, the presets of other libraries for f32 scales.
std::vector<std::string> rules_of(const FormatInfo& info) {
  if (info.scale == Storage::e8m0) return {"up", "floor", "even", "ceil"};
  if (info.scale == Storage::f32) return {"up", "te_f32", "deepgemm", "torchao", "vllm"};
  return {"up", "torchao"};
}

std::vector<std::string> layouts_of(const FormatInfo& info) {
  if (info.scale == Storage::f32) return {"rows", "columns_tma"};
  return {"rows", "columns_tma", "blocked_128x4"};
}

}  // namespace

const std::vector<TypeOption>& type_options() {
  static const std::vector<TypeOption> options = {{"elem", false},  {"rule", true},      {"layout", false},
                                                  {"along", false}, {"nonfinite", true}, {"amax", false},
                                                  {"seed", true}};
  return options;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const TypeOption& option : type_options()) names.emplace_back(option.name);
  return names;
}

std::vector<std::string> option_words(Format format, std::string_view option) {
  const FormatInfo& info = ir::format_info(format);
  if (!info.scaled) return {};
  if (option == "elem" && info.element != Storage::e2m1) return {"e4m3", "e5m2"};
  if (option == "rule") return rules_of(info);
  if (option == "layout") return layouts_of(info);
  if (option == "nonfinite") return {"propagate", "te"};
  return {};
}

}  // namespace epifuse::semantics
