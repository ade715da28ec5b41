// Names and defaults of the tensor types.
#include "compiler/ir/types.h"

#include <array>

namespace epifuse::ir {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<ScaleRule> rules[] = {
    {"up", ScaleRule::up},           {"floor", ScaleRule::floor},   {"even", ScaleRule::even},
    {"ceil", ScaleRule::ceil},       {"te_f32", ScaleRule::te_f32}, {"deepgemm", ScaleRule::deepgemm},
    {"torchao", ScaleRule::torchao}, {"vllm", ScaleRule::vllm},
};
constexpr Named<ScaleLayout> layouts[] = {
    {"rows", ScaleLayout::rows},
    {"columns_tma", ScaleLayout::columns_tma},
    {"blocked_128x4", ScaleLayout::blocked_128x4},
};

template <class T, size_t n>
std::string_view name_in(const Named<T> (&table)[n], T value) {
  return table[static_cast<size_t>(value)].name;
}

template <class T, size_t n>
std::optional<T> value_in(const Named<T> (&table)[n], std::string_view name) {
  for (const Named<T>& row : table)
    if (row.name == name) return row.value;
  return std::nullopt;
}

}  // namespace

const std::vector<FormatInfo>& all_formats() {
  static const std::vector<FormatInfo> table = {
      {Format::f32, "f32", false, Storage::f32, Storage::f32, 1, 1},
      {Format::bf16, "bf16", false, Storage::bf16, Storage::f32, 1, 1},
      {Format::f16, "f16", false, Storage::f16, Storage::f32, 1, 1},
      {Format::e4m3, "e4m3", false, Storage::e4m3, Storage::f32, 1, 1},
      {Format::e5m2, "e5m2", false, Storage::e5m2, Storage::f32, 1, 1},
      {Format::i32, "i32", false, Storage::i32, Storage::f32, 1, 1},
      {Format::i64, "i64", false, Storage::i64, Storage::f32, 1, 1},
      {Format::fp8_1x128, "fp8_1x128", true, Storage::e4m3, Storage::f32, 1, 128},
      {Format::fp8_128x128, "fp8_128x128", true, Storage::e4m3, Storage::f32, 128, 128},
      {Format::mxfp8, "mxfp8", true, Storage::e4m3, Storage::e8m0, 1, 32},
      {Format::mxfp8_32x32, "mxfp8_32x32", true, Storage::e4m3, Storage::e8m0, 32, 32},
      {Format::mxfp4, "mxfp4", true, Storage::e2m1, Storage::e8m0, 1, 32},
      {Format::nvfp4, "nvfp4", true, Storage::e2m1, Storage::e4m3, 1, 16},
      {Format::nvfp4_16x16, "nvfp4_16x16", true, Storage::e2m1, Storage::e4m3, 16, 16},
  };
  return table;
}

const FormatInfo& format_info(Format format) { return all_formats()[static_cast<size_t>(format)]; }

std::optional<Format> parse_format(std::string_view name) {
  for (const FormatInfo& info : all_formats())
    if (info.name == name) return info.format;
  return std::nullopt;
}

std::string_view rule_name(ScaleRule rule) { return name_in(rules, rule); }
std::optional<ScaleRule> parse_rule(std::string_view name) { return value_in(rules, name); }
std::string_view layout_name(ScaleLayout layout) { return name_in(layouts, layout); }
std::optional<ScaleLayout> parse_layout(std::string_view name) { return value_in(layouts, name); }

Storage TensorType::storage() const { return scaled() ? element : format_info(format).element; }

int along_axis(const TensorType& type, int rank) { return type.along_axis < 0 ? rank - 1 : type.along_axis; }

// Blocks run along one of the last two dimensions, so the other one lies across.
int across_axis(const TensorType& type, int rank) { return along_axis(type, rank) == rank - 1 ? rank - 2 : rank - 1; }

std::string print_type(const TensorType& type) {
  const FormatInfo& info = format_info(type.format);
  std::string text(info.name);
  if (!info.scaled) return text;
  std::string options;
  auto option = [&](std::string_view name, std::string_view value) {
    options += options.empty() ? "" : ", ";
    options += std::string(name) + " = " + std::string(value);
  };
  if (type.element != info.element) option("elem", storage_name(type.element));
  if (type.rule != ScaleRule::up) option("rule", rule_name(type.rule));
  if (type.layout != ScaleLayout::rows) option("layout", layout_name(type.layout));
  if (type.nonfinite != NonFinite::propagate) option("nonfinite", "te");
  if (type.along_axis >= 0) option("along", std::to_string(type.along_axis));
  if (!type.amax_input.empty()) option("amax", type.amax_input);
  if (!type.seed_input.empty()) option("seed", type.seed_input);
  return options.empty() ? text : text + "(" + options + ")";
}

}  // namespace epifuse::ir
