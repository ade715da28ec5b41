#include "tools/bench_compare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

// "E=8 K=7168, 32768 rows in 8 groups", from JSON.
std::string sizes_text(const std::string& dims, const std::string& counts) {
  std::string text;
  const Json numbers = *read_json(dims);
  for (const auto& [name, value] : numbers.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value.dump());
  const Json list = *read_json(counts);
  if (!list.is_array()) return text;
  int64_t rows = 0;
  for (const Json& count : list) rows += count.get<int64_t>();
  return text + fmt::format(", {} rows in {} groups", rows, list.size());
}

// One form of one kernel in a run.
struct Entry {
  std::string kernel, dims, counts, without, form, plan;
  double milliseconds = 0;
  std::optional<double> clock_mhz;

  bool same_work(const Entry& other) const {
    return kernel == other.kernel && dims == other.dims && counts == other.counts && without == other.without &&
           form == other.form;
  }
  std::string name() const {
    return fmt::format("{} ({}){}", kernel, sizes_text(dims, counts), form == "fused" ? "" : ", " + form);
  }
};

struct Run {
  std::string gpu, driver;
  std::vector<Entry> entries;
};

// The only place that asks nlohmann for what may not be there; whatever is missing throws.
Run read_entries(const Json& json) {
  Run run;
  run.gpu = json.at("gpu").at("name").get<std::string>();
  run.driver = json.at("driver").is_string() ? json.at("driver").get<std::string>() : "";
  for (const Json& kernel : json.at("kernels")) {
    if (!kernel.contains("forms")) continue;  // of --host
    for (const Json& form : kernel.at("forms")) {
      Entry entry;
      entry.kernel = kernel.at("kernel").get<std::string>();
      entry.dims = kernel.at("dims").dump();
      entry.counts = kernel.at("counts").dump();
      entry.without = kernel.at("without").dump();
      (void)sizes_text(entry.dims, entry.counts);  // throws here what it would throw later
      entry.plan = kernel.at("plan").get<std::string>();
      entry.form = form.at("form").get<std::string>();
      entry.milliseconds = form.at("hot").at("median_ms").get<double>();
      if (const Json& clock = kernel.at("hot").at("sm_clock_mhz"); clock.is_number()) entry.clock_mhz = clock;
      run.entries.push_back(std::move(entry));
    }
  }
  return run;
}

Result<Run> read_run(std::string_view text, const std::string& name) {
  const Result<Json> json = read_json(text);
  if (!json) return user_error(fmt::format("{}: it is {}", name, json.error().message));
  try {
    Run run = read_entries(*json);
    for (const Entry& entry : run.entries)
      if (!(entry.milliseconds > 0)) return user_error(fmt::format("{}: a time of {} is no time", name, entry.name()));
    if (run.entries.empty()) return user_error(fmt::format("{}: it has no times", name));
    return run;
  } catch (const Json::exception& error) {
    return user_error(fmt::format("{}: bench has not written this ({})", name, error.what()));
  }
}

// Times of two cards, or of one at two clocks, differ by more than kernels do.
void compare_conditions(const Run& before, const Run& after, Comparison& made) {
  if (before.gpu != after.gpu) made.conditions.push_back(fmt::format("other GPU: {}, then {}", before.gpu, after.gpu));
  if (before.driver != after.driver)
    made.conditions.push_back(fmt::format("other driver: {}, then {}", before.driver, after.driver));
  constexpr double usual_difference = 0.02;
  for (const Entry& a : before.entries)
    for (const Entry& b : after.entries) {
      if (!a.same_work(b) || a.form != "fused" || !a.clock_mhz || !b.clock_mhz) continue;
      if (std::abs(*b.clock_mhz / *a.clock_mhz - 1) > usual_difference)
        made.conditions.push_back(
            fmt::format("{}: the clock was {:.0f} MHz, then {:.0f}", a.name(), *a.clock_mhz, *b.clock_mhz));
    }
}

}  // namespace

Result<Comparison> compare_benches(std::string_view before, const std::string& before_name, std::string_view after,
                                   const std::string& after_name) {
  const Result<Run> first = read_run(before, before_name);
  if (!first) return first.error();
  const Result<Run> second = read_run(after, after_name);
  if (!second) return second.error();
  Comparison made;
  const auto match = [](const Entry& entry, const Run& run) {
    return std::find_if(run.entries.begin(), run.entries.end(), [&](const Entry& e) { return e.same_work(entry); });
  };
  for (const Entry& entry : first->entries) {
    const auto other = match(entry, *second);
    if (other == second->entries.end()) {
      made.only_once.push_back(fmt::format("{} is in {} alone", entry.name(), before_name));
      continue;
    }
    made.forms.push_back({entry.kernel, entry.form, entry.dims, entry.counts, entry.milliseconds, other->milliseconds,
                          entry.plan, other->plan, entry.form == "fused"});
  }
  for (const Entry& entry : second->entries)
    if (match(entry, *first) == first->entries.end())
      made.only_once.push_back(fmt::format("{} is in {} alone", entry.name(), after_name));
  if (made.forms.empty())
    return user_error(fmt::format("{} and {} have no kernel of the same sizes in common", before_name, after_name));
  compare_conditions(*first, *second, made);
  return made;
}

std::string comparison_text(const Comparison& comparison, double tolerance_percent) {
  std::string text;
  for (const ComparedForm& form : comparison.forms) {
    text += fmt::format("{:24} {:8} {:9.4f} ms -> {:9.4f} ms {:+6.1f} %{}  {}", form.kernel, form.form, form.before_ms,
                        form.after_ms, form.change_percent(), form.slower(tolerance_percent) ? "  SLOWER" : "",
                        sizes_text(form.dims, form.counts));
    if (form.before_plan != form.after_plan) text += fmt::format("  {} -> {}", form.before_plan, form.after_plan);
    text += '\n';
  }
  for (const std::string& line : comparison.only_once) text += line + '\n';
  for (const std::string& line : comparison.conditions) text += line + '\n';
  return text;
}

std::string comparison_json(const Comparison& comparison, double tolerance_percent) {
  Json forms = Json::array();
  for (const ComparedForm& form : comparison.forms)
    forms.push_back({{"kernel", form.kernel},
                     {"dims", *read_json(form.dims)},
                     {"counts", *read_json(form.counts)},
                     {"form", form.form},
                     {"before_ms", form.before_ms},
                     {"after_ms", form.after_ms},
                     {"change_percent", form.change_percent()},
                     {"before_plan", form.before_plan},
                     {"after_plan", form.after_plan},
                     {"slower", form.slower(tolerance_percent)}});
  const Json json = {{"tolerance_percent", tolerance_percent},
                     {"compared", std::move(forms)},
                     {"only_once", comparison.only_once},
                     {"conditions", comparison.conditions}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace epifuse::tools
