// A verdict as text and as JSON.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/compare.h"

namespace epifuse::interpreter {
namespace {

std::string place_text(const WorstElement& worst) {
  std::string text;
  for (const auto& [name, index] : worst.place) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, index);
  return worst.group < 0 ? text : text + fmt::format(" (group {})", worst.group);
}

// JSON has no NaN and no infinity: they are strings.
nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return value != value ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string Verdict::print() const {
  std::string text = fmt::format("{}: {}\n", output, ok ? "ok" : "WRONG: " + cause);
  text += fmt::format("  error norm {:.2e}, worst group {:.2e}", error_norm, worst_group_norm);
  if (worst_group >= 0) text += fmt::format(" (group {})", worst_group);
  text += fmt::format(", worst {} columns {:.2e}", strip_width, worst_strip_norm);
  if (worst_strip_column >= 0) text += fmt::format(" (from column {})", worst_strip_column);
  text += fmt::format("; limit {:.1e}\n", norm_limit);
  text += fmt::format("  {} elements, {} not the reference's code, {} NaN", elements, different, nan_stored);
  if (nan_reference != nan_stored) text += fmt::format(" ({} expected)", nan_reference);
  if (saturated) text += fmt::format(", {} saturated", saturated);
  if (scales) text += fmt::format("; {} scales, {} not the reference's", scales, scales_different);
  if (zero_signs) text += fmt::format("; {} zeros of the other sign", zero_signs);
  text += "\n";
  if (worst.found)
    text += fmt::format("  worst {} at {}: stored {:.9g}, reference {:.9g}, allowed {:.9g} to {:.9g}\n",
                        worst.is_scale ? "scale" : "element", place_text(worst), worst.stored, worst.reference,
                        worst.low, worst.high);
  return text;
}

std::string Verdict::to_json() const {
  nlohmann::ordered_json json = {{"output", output},
                                 {"ok", ok},
                                 {"cause", cause},
                                 {"elements", elements},
                                 {"outside", outside},
                                 {"different", different},
                                 {"scales", scales},
                                 {"scales_outside", scales_outside},
                                 {"scales_different", scales_different},
                                 {"nan_reference", nan_reference},
                                 {"nan_stored", nan_stored},
                                 {"saturated", saturated},
                                 {"zero_signs", zero_signs},
                                 {"touched", touched},
                                 {"gap", gap},
                                 {"error_norm", number(error_norm)},
                                 {"worst_group_norm", number(worst_group_norm)},
                                 {"worst_group", worst_group},
                                 {"worst_strip_norm", number(worst_strip_norm)},
                                 {"worst_strip_column", worst_strip_column},
                                 {"worst_strip_group", worst_strip_group},
                                 {"norms_exceeded", norms_exceeded},
                                 {"norm_limit", norm_limit}};
  if (worst.found) {
    nlohmann::ordered_json place = nlohmann::ordered_json::object();
    for (const auto& [name, index] : worst.place) place[name] = index;
    json["worst"] = {{"is_scale", worst.is_scale},
                     {"place", place},
                     {"group", worst.group},
                     {"stored", number(worst.stored)},
                     {"reference", number(worst.reference)},
                     {"low", number(worst.low)},
                     {"high", number(worst.high)}};
  }
  return json.dump(2);
}

}  // namespace epifuse::interpreter
