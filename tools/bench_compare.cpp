#include "tools/bench_compare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/launch_recipe.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of whole numbers; nothing where a group or all of them have rows that no launch has.
std::optional<int64_t> rows_of(const Json& counts) {
  int64_t rows = 0;
  for (const Json& count : counts) {
    const bool fits =
        count.is_number_unsigned() && count.get<uint64_t>() <= static_cast<uint64_t>(most_integer32 - rows);
    if (!fits) return std::nullopt;
    rows += count.get<int64_t>();
  }
  return rows;
}

// "E=8 K=7168, 32768 rows in 8 groups", from JSON.
std::string sizes_text(const std::string& dims, const std::string& counts) {
  std::string text;
  const Json numbers = *read_json(dims);
  for (const auto& [name, value] : numbers.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value.dump());
  const Json list = *read_json(counts);
  return list.is_array() ? text + fmt::format(", {} rows in {} groups", *rows_of(list), list.size()) : text;
}

// One form of one kernel in a run.
struct Entry {
  std::string file, kernel, dims, counts, without, form, plan;
  std::string request;  // digest of the kernel as it was understood; empty: an earlier version wrote the run
  double milliseconds = 0;
  std::optional<double> clock_mhz;
  bool cold = false;  // the card was not hot, and the time counts for nothing

  // But for the file, which may lie elsewhere in another run.
  bool same_work(const Entry& other) const {
    return kernel == other.kernel && dims == other.dims && counts == other.counts && without == other.without &&
           form == other.form;
  }
  std::string name() const {
    return fmt::format("{}{} ({}){}", kernel, file.empty() ? "" : " of " + file, sizes_text(dims, counts),
                       form == "fused" ? "" : ", " + form);
  }
};

struct Run {
  std::string gpu;
  std::string driver = "unknown";
  std::vector<Entry> entries;
};

// What bench writes, read key by key: the first that is missing or of another type is an error.
class RunReader {
 public:
  explicit RunReader(const Json& json) : json_(json) {}

  Result<Run> run() {
    Run run;
    if (!json_.is_object()) return not_written("it is no JSON object");
    const Json* command = member(json_, "command");
    if (command && *command != "bench") return not_written("its 'command' is another");
    const Json* ok = member(json_, "ok");
    if (ok && *ok != true) return user_error("this run of bench failed, and its times are not all there");
    run.gpu = text(member(json_, "gpu"), "name");
    if (const Json* driver = member(json_, "driver"); driver && driver->is_string()) run.driver = *driver;
    const Json* kernels = member(json_, "kernels");
    if (!kernels || !kernels->is_array()) return not_written(wrong_member(json_, "kernels", "list"));
    if (const Json* compared = member(json_, "compared"); compared) return not_written("it is a comparison");
    for (const Json& kernel : *kernels) {
      if (member(kernel, "host")) continue;  // of --host, which has no times of kernels
      const Json* forms = member(kernel, "forms");
      if (!forms || !forms->is_array()) return not_written("a kernel has no list of 'forms'");
      for (const Json& form : *forms) run.entries.push_back(entry(kernel, form));
    }
    if (!wrong_.empty()) return not_written(wrong_);
    return run;
  }

 private:
  static Error not_written(const std::string& why) {
    return user_error(fmt::format("bench has not written this: {}", why));
  }
  static const Json* member(const Json& of, const char* name) {
    const auto found = of.is_object() ? of.find(name) : of.end();
    return of.is_object() && found != of.end() ? &*found : nullptr;
  }
  // `of` may be missing itself.
  void complain(const Json* of, const char* name, std::string_view wanted) {
    if (wrong_.empty()) wrong_ = wrong_member(of && of->is_object() ? *of : Json::object(), name, wanted);
  }
  std::string text(const Json* of, const char* name) {
    const Json* value = of ? member(*of, name) : nullptr;
    if (value && value->is_string()) return *value;
    complain(of, name, "text");
    return "";
  }
  // As JSON.
  template <class Good>
  std::string part(const Json& of, const char* name, std::string_view wanted, Good good) {
    const Json* value = member(of, name);
    if (value && good(*value)) return value->dump(-1, ' ', false, Json::error_handler_t::replace);
    complain(&of, name, wanted);
    return "null";
  }

  Entry entry(const Json& kernel, const Json& form) {
    const auto is_number = [](const Json& value) { return value.is_number_integer(); };
    const auto all_numbers = [&](const Json& list) { return std::all_of(list.begin(), list.end(), is_number); };
    Entry entry;
    if (const Json* file = member(kernel, "file"); file && file->is_string()) entry.file = *file;
    if (const Json* request = member(kernel, "request"); request && request->is_string()) entry.request = *request;
    entry.kernel = text(&kernel, "kernel");
    entry.dims = part(kernel, "dims", "object of whole numbers",
                      [&](const Json& dims) { return dims.is_object() && all_numbers(dims); });
    entry.counts = part(kernel, "counts", "list of rows that a launch can have", [&](const Json& counts) {
      return counts.is_null() || (counts.is_array() && all_numbers(counts) && rows_of(counts));
    });
    entry.without = part(kernel, "without", "list", [](const Json& names) { return names.is_array(); });
    entry.plan = text(&kernel, "plan");
    entry.form = text(&form, "form");
    const Json* hot = member(form, "hot");
    const Json* median = hot ? member(*hot, "median_ms") : nullptr;
    if (median && median->is_number())
      entry.milliseconds = *median;
    else
      complain(hot, "median_ms", "number");
    const Json* conditions = member(kernel, "hot");
    const Json* clock = conditions ? member(*conditions, "sm_clock_mhz") : nullptr;
    if (clock && clock->is_number()) entry.clock_mhz = clock->get<double>();
    const Json* hot_card = conditions ? member(*conditions, "is_hot") : nullptr;
    entry.cold = hot_card && *hot_card == false;
    return entry;
  }

  const Json& json_;
  std::string wrong_;
};

Result<Run> read_run(std::string_view text, const std::string& name) {
  const Result<Json> json = read_json(text);
  if (!json) return user_error(fmt::format("{}: it is {}", name, json.error().message));
  Result<Run> run = RunReader(*json).run();
  if (!run) return user_error(fmt::format("{}: {}", name, run.error().message));
  if (run->entries.empty()) return user_error(fmt::format("{}: it has no times", name));
  for (const Entry& entry : run->entries)
    if (!(entry.milliseconds > 0)) return user_error(fmt::format("{}: a time of {} is no time", name, entry.name()));
  return run;
}

using Pair = std::pair<const Entry*, const Entry*>;

std::string_view name_of(const std::string& file) { return std::string_view(file).substr(file.rfind('/') + 1); }

bool same_request(const Entry& a, const Entry& b) { return !a.request.empty() && a.request == b.request; }

// Entries of the same work. A run may have several, of specs that differ: then the kernel itself decides, before the
// place where its spec lay, which may be another by now.
std::vector<Pair> pair_up(const Run& before, const Run& after) {
  const auto alone = [](const Entry& entry, const Run& run) {
    return std::count_if(run.entries.begin(), run.entries.end(),
                         [&](const Entry& other) { return other.same_work(entry); }) == 1;
  };
  const std::function<bool(const Entry&, const Entry&)> signs[] = {
      [](const Entry& a, const Entry& b) { return same_request(a, b) && a.file == b.file; },
      same_request,
      [](const Entry& a, const Entry& b) { return a.file == b.file; },
      [](const Entry& a, const Entry& b) { return name_of(a.file) == name_of(b.file); },
      [&](const Entry& a, const Entry& b) { return alone(a, before) && alone(b, after); },
  };
  std::map<const Entry*, const Entry*> found;
  std::set<const Entry*> taken;
  for (const auto& alike : signs)
    for (const Entry& entry : before.entries) {
      if (found.contains(&entry)) continue;
      const auto other = std::find_if(after.entries.begin(), after.entries.end(), [&](const Entry& e) {
        return !taken.contains(&e) && e.same_work(entry) && alike(entry, e);
      });
      if (other == after.entries.end()) continue;
      taken.insert(&*other);
      found[&entry] = &*other;
    }
  std::vector<Pair> pairs;
  for (const Entry& entry : before.entries)
    if (found.contains(&entry)) pairs.emplace_back(&entry, found[&entry]);
  return pairs;
}

// Times of two cards, or of one at two clocks, differ by more than kernels do.
void compare_conditions(const Run& before, const Run& after, const std::vector<Pair>& pairs, Comparison& made) {
  if (before.gpu != after.gpu) made.conditions.push_back(fmt::format("other GPU: {}, then {}", before.gpu, after.gpu));
  if (before.driver != after.driver)
    made.conditions.push_back(fmt::format("other driver: {}, then {}", before.driver, after.driver));
  constexpr double usual_difference = 0.02;
  for (const auto& [a, b] : pairs) {
    if (a->form != "fused") continue;
    if (a->cold || b->cold)
      made.conditions.push_back(fmt::format("{}: the card was not hot {}, and the time counts for nothing", a->name(),
                                            !b->cold   ? "before"
                                            : !a->cold ? "after"
                                                       : "before and after"));
    if (!a->clock_mhz || !b->clock_mhz) continue;
    if (std::abs(*b->clock_mhz / *a->clock_mhz - 1) > usual_difference)
      made.conditions.push_back(
          fmt::format("{}: the clock was {:.0f} MHz, then {:.0f}", a->name(), *a->clock_mhz, *b->clock_mhz));
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
  const std::vector<Pair> pairs = pair_up(*first, *second);
  std::set<const Entry*> paired;
  for (const auto& [a, b] : pairs) {
    paired.insert({a, b});
    made.forms.push_back({a->file, a->kernel, a->form, a->dims, a->counts, a->milliseconds, b->milliseconds, a->plan,
                          b->plan, a->form == "fused" && !a->cold && !b->cold});
  }
  if (made.forms.empty())
    return user_error(fmt::format("{} and {} have no kernel of the same sizes in common", before_name, after_name));
  const auto say_left_over = [&](const Run& run, const std::string& name, const std::string& other) {
    for (const Entry& entry : run.entries) {
      if (paired.contains(&entry)) continue;
      const bool more_often = std::any_of(run.entries.begin(), run.entries.end(), [&](const Entry& e) {
        return paired.contains(&e) && e.same_work(entry) && (same_request(e, entry) || e.file == entry.file);
      });
      made.only_once.push_back(more_often
                                   ? fmt::format("{} is in {} more often than in {}: one of its times is left out",
                                                 entry.name(), name, other)
                                   : fmt::format("{} is in {} alone", entry.name(), name));
    }
  };
  say_left_over(*first, before_name, after_name);
  say_left_over(*second, after_name, before_name);
  compare_conditions(*first, *second, pairs, made);
  return made;
}

std::string comparison_text(const Comparison& comparison, double tolerance_percent) {
  std::string text;
  for (const ComparedForm& form : comparison.forms) {
    const auto alike = std::count_if(comparison.forms.begin(), comparison.forms.end(), [&](const ComparedForm& other) {
      return other.kernel == form.kernel && other.form == form.form && other.dims == form.dims &&
             other.counts == form.counts;
    });
    text += fmt::format("{:24} {:8} {:9.4f} ms -> {:9.4f} ms {:+6.1f} %{}  {}", form.kernel, form.form, form.before_ms,
                        form.after_ms, form.change_percent(), form.slower(tolerance_percent) ? "  SLOWER" : "",
                        sizes_text(form.dims, form.counts));
    if (alike > 1) text += "  of " + form.file;
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
    forms.push_back({{"file", form.file.empty() ? Json() : Json(form.file)},
                     {"kernel", form.kernel},
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
