// A verification as text and as JSON.
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "jit/verify.h"

namespace epifuse::jit {
namespace {

using interpreter::Verdict;
using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string norm_text(double norm, int group) {
  return group < 0 ? fmt::format("{:.2e}", norm) : fmt::format("{:.2e} ({})", norm, group);
}

std::string row_text(std::string_view what, const Verdict& verdict) {
  const std::string nans = verdict.nan_stored == verdict.nan_reference
                               ? fmt::format("{}", verdict.nan_stored)
                               : fmt::format("{} for {}", verdict.nan_stored, verdict.nan_reference);
  return fmt::format("  {:9} {:>9} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}\n", what,
                     norm_text(verdict.error_norm, -1), norm_text(verdict.worst_group_norm, verdict.worst_group),
                     verdict.outside + verdict.scales_outside, verdict.one_step, verdict.more_steps,
                     verdict.scales_one_step, verdict.scales_more_steps, nans, verdict.saturated);
}

std::string row_text(const StoredDifference& difference) {
  const std::string worst = difference.groups.empty()
                                ? norm_text(difference.norm, -1)
                                : norm_text(difference.worst_group_norm(), difference.worst_group());
  return fmt::format("  {:9} {:>9} {:>15} {:>9} {:>9} {:>9} {:>9}\n", "apart", norm_text(difference.norm, -1), worst,
                     "", difference.one_step, difference.different - difference.one_step, difference.scales_different);
}

// Of each group, the norms of the three comparisons.
std::string groups_text(const Verdict& fused, const Verdict* unfused, const StoredDifference* difference) {
  constexpr size_t most_lines = 16;
  if (fused.groups.size() < 2) return "";
  std::string text;
  for (size_t i = 0; i < fused.groups.size() && i < most_lines; ++i) {
    const interpreter::GroupVerdict& group = fused.groups[i];
    text += fmt::format("  group {:3} fused {:>9}", group.group, norm_text(group.error_norm, -1));
    if (unfused && i < unfused->groups.size())
      text += fmt::format(" unfused {:>9}", norm_text(unfused->groups[i].error_norm, -1));
    const auto index = static_cast<size_t>(group.group);
    if (difference && group.group >= 0 && index < difference->groups.size())
      text += fmt::format(" apart {:>9}", norm_text(difference->groups[index], -1));
    text += "\n";
  }
  if (fused.groups.size() > most_lines)
    text += fmt::format("  … and {} groups more\n", fused.groups.size() - most_lines);
  return text;
}

std::string output_text(const Verdict& fused, const Verdict* unfused, const StoredDifference* difference) {
  const bool ok = fused.ok && (!unfused || unfused->ok);
  std::string text = fmt::format("{}: {}, {} elements, {} scales, limit of the norm {:.1e}\n", fused.output,
                                 ok ? "ok" : "WRONG", fused.elements, fused.scales, fused.norm_limit);
  text += fmt::format("  {:9} {:>9} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}\n", "", "norm", "worst group",
                      "outside", "one step", "more", "scales 1", "more", "NaN", "saturated");
  text += row_text("fused", fused);
  if (unfused) text += row_text("unfused", *unfused);
  if (difference) text += row_text(*difference);
  text += groups_text(fused, unfused, difference);
  if (!fused.ok) text += "fused " + fused.print();
  if (unfused && !unfused->ok) text += "unfused " + unfused->print();
  return text;
}

Json verdict_json(const Verdict& verdict) { return *read_json(verdict.to_json()); }

Json difference_json(const StoredDifference& difference) {
  Json groups = Json::array();
  for (const double norm : difference.groups) groups.push_back(number(norm));
  return {{"norm", number(difference.norm)}, {"groups", std::move(groups)},
          {"elements", difference.elements}, {"different", difference.different},
          {"one_step", difference.one_step}, {"more_steps", difference.different - difference.one_step},
          {"scales", difference.scales},     {"scales_different", difference.scales_different}};
}

}  // namespace

std::string VerifyReport::print() const {
  std::string text;
  for (const auto& [name, counts] : group_counts) {
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    const bool many = counts.size() > 16;
    text += fmt::format("{}: {} rows in {} groups ({}{})\n", name, total, counts.size(),
                        fmt::join(counts.begin(), many ? counts.begin() + 16 : counts.end(), ", "), many ? ", …" : "");
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    text += output_text(outputs[i], i < unfused.size() ? &unfused[i] : nullptr,
                        i < differences.size() ? &differences[i] : nullptr);
  for (const Requantised& again : requantised) {
    const std::string difference = fmt::format(
        "WRONG bytes: {} of {} codes ({} one step) and {} of {} scales ({} one step) differ", again.codes_different,
        again.codes, again.codes_one_step, again.scales_different, again.scales, again.scales_one_step);
    text += fmt::format("{}: '{}' quantised again on the host gives {}\n", again.output, again.values,
                        again.ok() ? "the same bytes" : difference);
  }
  if (first_wrong_stage) text += "the first unfused stage that is wrong: " + first_wrong_stage->print();
  for (const std::string& problem : problems) text += "WRONG: " + problem + "\n";
  text += fmt::format("{}, fused{} (inputs {:.1f} s, GPU {:.1f} s, reference {:.1f} s, judgement {:.1f} s)\n",
                      ok ? "ok" : "WRONG", unfused_stages ? fmt::format(" and in {} stages", unfused_stages) : "",
                      inputs_seconds, gpu_seconds, reference_seconds, judge_seconds);
  return text;
}

std::string VerifyReport::to_json() const {
  Json json = {{"ok", ok}, {"problems", problems}};
  json["groups"] = Json::object();
  for (const auto& [name, counts] : group_counts) json["groups"][name] = counts;
  json["outputs"] = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json output = verdict_json(outputs[i]);
    output["unfused"] = i < unfused.size() ? verdict_json(unfused[i]) : Json(nullptr);
    output["fused_against_unfused"] = i < differences.size() ? difference_json(differences[i]) : Json(nullptr);
    json["outputs"].push_back(std::move(output));
  }
  json["requantised"] = Json::array();
  for (const Requantised& again : requantised)
    json["requantised"].push_back({{"output", again.output},
                                   {"values", again.values},
                                   {"codes", again.codes},
                                   {"codes_different", again.codes_different},
                                   {"codes_one_step", again.codes_one_step},
                                   {"scales", again.scales},
                                   {"scales_different", again.scales_different},
                                   {"scales_one_step", again.scales_one_step}});
  json["unfused_stages"] = unfused_stages;
  json["first_wrong_stage"] = first_wrong_stage ? verdict_json(*first_wrong_stage) : Json(nullptr);
  json["seconds"] = {
      {"inputs", inputs_seconds}, {"gpu", gpu_seconds}, {"reference", reference_seconds}, {"judgement", judge_seconds}};
  return json.dump(2);
}

}  // namespace epifuse::jit
