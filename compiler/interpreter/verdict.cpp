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

std::string counts_text(const Counts& counts) {
  std::string text = fmt::format("{} elements, {} not the reference's code", counts.elements, counts.different);
  if (counts.different) text += fmt::format(" ({} one step)", counts.one_step);
  text += fmt::format(", {} NaN", counts.nan_stored);
  if (counts.nan_reference != counts.nan_stored) text += fmt::format(" ({} expected)", counts.nan_reference);
  if (counts.saturated) text += fmt::format(", {} saturated", counts.saturated);
  if (counts.scales) text += fmt::format("; {} scales, {} not the reference's", counts.scales, counts.scales_different);
  if (counts.scales_different) text += fmt::format(" ({} one step)", counts.scales_one_step);
  if (counts.zero_signs) text += fmt::format("; {} zeros of the other sign", counts.zero_signs);
  return text;
}

std::string worst_text(const WorstElement& worst) {
  return fmt::format("worst {} at {}{}: stored {:.9g}, reference {:.9g}, allowed {:.9g} to {:.9g}",
                     worst.is_scale ? "scale" : "element", place_text(worst),
                     worst.is_scale ? fmt::format(" (number {} in its buffer)", worst.position) : "", worst.stored,
                     worst.reference, worst.low, worst.high);
}

nlohmann::ordered_json counts_json(const Counts& counts) {
  return {{"elements", counts.elements},
          {"outside", counts.outside},
          {"different", counts.different},
          {"one_step", counts.one_step},
          {"more_steps", counts.more_steps},
          {"scales", counts.scales},
          {"scales_outside", counts.scales_outside},
          {"scales_different", counts.scales_different},
          {"scales_one_step", counts.scales_one_step},
          {"scales_more_steps", counts.scales_more_steps},
          {"scales_uncertain", counts.scales_uncertain},
          {"nan_reference", counts.nan_reference},
          {"nan_stored", counts.nan_stored},
          {"saturated", counts.saturated},
          {"zero_signs", counts.zero_signs}};
}

nlohmann::ordered_json worst_json(const WorstElement& worst) {
  nlohmann::ordered_json place = nlohmann::ordered_json::object();
  for (const auto& [name, index] : worst.place) place[name] = index;
  return {{"is_scale", worst.is_scale},     {"place", place},
          {"position", worst.position},     {"group", worst.group},
          {"stored", number(worst.stored)}, {"reference", number(worst.reference)},
          {"low", number(worst.low)},       {"high", number(worst.high)}};
}

bool is_wrong(const GroupVerdict& group) { return group.outside || group.scales_outside || group.norm_exceeded; }

}  // namespace

std::string Verdict::print() const {
  std::string text = fmt::format("{}: {}\n", output, ok ? "ok" : "WRONG: " + cause);
  text += fmt::format("  error norm {:.2e}, worst group {:.2e}", error_norm, worst_group_norm);
  if (worst_group >= 0) text += fmt::format(" (group {})", worst_group);
  text += fmt::format(", worst {} columns {:.2e}", strip_width, worst_strip_norm);
  if (worst_strip_column >= 0) text += fmt::format(" (from column {})", worst_strip_column);
  text += fmt::format("; limit {:.1e}\n", norm_limit);
  text += "  " + counts_text(*this) + "\n";
  if (worst.found) text += "  " + worst_text(worst) + "\n";
  // Where it is wrong, and where it is not: a fault often shows in the pattern. Of a right output the sums above say
  // enough.
  constexpr size_t most_lines = 16;
  size_t lines = 0;
  for (const GroupVerdict& group : groups) {
    if (!is_wrong(group) || groups.size() == 1 || ++lines > most_lines) continue;
    text += fmt::format("  group {}: {} of {} outside, error norm {:.2e}{}; {}\n", group.group,
                        group.outside + group.scales_outside, group.elements, group.error_norm,
                        group.norm_exceeded ? " (exceeded)" : "", counts_text(group));
    if (group.worst.found) text += "    " + worst_text(group.worst) + "\n";
  }
  if (lines > most_lines) text += fmt::format("  … and {} groups more\n", lines - most_lines);
  return text;
}

std::string Verdict::to_json() const {
  nlohmann::ordered_json json = {{"output", output}, {"ok", ok}, {"cause", cause}};
  json.update(counts_json(*this));
  json.update({{"touched", touched},
               {"gap", gap},
               {"error_norm", number(error_norm)},
               {"worst_group_norm", number(worst_group_norm)},
               {"worst_group", worst_group},
               {"worst_strip_norm", number(worst_strip_norm)},
               {"worst_strip_column", worst_strip_column},
               {"worst_strip_group", worst_strip_group},
               {"norms_exceeded", norms_exceeded},
               {"norm_limit", norm_limit}});
  if (worst.found) json["worst"] = worst_json(worst);
  json["groups"] = nlohmann::ordered_json::array();
  for (const GroupVerdict& group : groups) {
    nlohmann::ordered_json one = {
        {"group", group.group}, {"error_norm", number(group.error_norm)}, {"norm_exceeded", group.norm_exceeded}};
    one.update(counts_json(group));
    if (group.worst.found) one["worst"] = worst_json(group.worst);
    json["groups"].push_back(std::move(one));
  }
  return json.dump(2);
}

}  // namespace epifuse::interpreter
