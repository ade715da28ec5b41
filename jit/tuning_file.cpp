#include "jit/tuning_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/lowering/schedule_name.h"

namespace epifuse::jit {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kind = "tuning";

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const TunedPlan& plan) {
  return {{"kernel", plan.kernel},
          {"target", plan.target},
          {"dims", plan.dims},
          {"key", plan.key},
          {"schedule", plan.schedule},
          {"expected_rows", or_null(plan.expected_rows)},
          {"milliseconds", or_null(plan.milliseconds)},
          {"gpu", plan.gpu},
          {"sm_clock_mhz", or_null(plan.sm_clock_mhz)},
          {"commit", plan.commit}};
}

// Reads fields of one entry; what is wrong with the first that is missing or of another type is remembered.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void text(const char* name, std::string& to) {
    if (const Json* value = find(name, &Json::is_string, "text")) to = value->get<std::string>();
  }
  void optional(const char* name, std::string& to) {
    if (!is_null(name)) text(name, to);
  }
  void optional(const char* name, std::optional<double>& to) {
    if (is_null(name)) return;
    if (const Json* value = find(name, &Json::is_number, "number")) to = value->get<double>();
  }
  void optional(const char* name, std::optional<int64_t>& to) {
    if (!is_null(name)) whole(name, json_[name], whole_number, to.emplace());
  }
  void optional(const char* name, std::map<std::string, int64_t>& to) {
    if (is_null(name)) return;
    const std::string wanted = fmt::format("object of {}s", whole_number);
    const Json* object = find(name, &Json::is_object, wanted);
    if (!object) return;
    for (const auto& [key, value] : object->items()) whole(name, value, wanted, to[key]);
  }

  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr const char* whole_number = "whole number";

  void whole(const char* name, const Json& value, std::string_view wanted, int64_t& to) {
    if (const auto number = json_integer(value))
      to = *number;
    else
      complain(name, wanted);
  }
  bool is_null(const char* name) const {
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null();
  }
  const Json* find(const char* name, bool (Json::*is_type)() const noexcept, std::string_view wanted) {
    const auto at = json_.find(name);
    if (at != json_.end() && ((*at).*is_type)()) return &*at;
    complain(name, wanted);
    return nullptr;
  }
  void complain(const char* name, std::string_view wanted) {
    if (wrong_.empty()) wrong_ = wrong_member(json_, name, wanted);
  }

  const Json& json_;
  std::string wrong_;
};

// "entry 2 (moe_fc1)", counted from 1.
std::string entry_name(const Json& json, size_t index) {
  const auto name = json.is_object() ? json.find("kernel") : json.end();
  return fmt::format("entry {}{}", index + 1,
                     name != json.end() && name->is_string() ? fmt::format(" ({})", name->get<std::string>()) : "");
}

Result<TunedPlan> read_plan(const Json& json) {
  const auto wrong = [&](const std::string& what) { return user_error(what); };
  if (!json.is_object()) return wrong("it is no object");
  TunedPlan plan;
  Reader in(json);
  in.text("key", plan.key);
  in.text("schedule", plan.schedule);
  // The rest is for people, and a file may be written by hand.
  in.optional("kernel", plan.kernel);
  in.optional("target", plan.target);
  in.optional("dims", plan.dims);
  in.optional("expected_rows", plan.expected_rows);
  in.optional("milliseconds", plan.milliseconds);
  in.optional("gpu", plan.gpu);
  in.optional("sm_clock_mhz", plan.sm_clock_mhz);
  in.optional("commit", plan.commit);
  if (!in.wrong().empty()) return wrong(in.wrong());
  if (!is_digest_text(plan.key))
    return wrong(
        fmt::format("'{}' is no key, which has {} digits, 0 to f (`epifuse bundle list --json` has it as "
                    "'request')",
                    plan.key, digest_digits));
  if (!lowering::parse_schedule_name(plan.schedule))
    return wrong(fmt::format("'{}' is no name of a schedule", plan.schedule));
  return plan;
}

}  // namespace

std::string tuning_key(std::string_view request) { return digest(request).hex(); }

Result<TuningFile> parse_tuning_file(std::string_view text) {
  const Result<Json> read = read_json(text);
  if (!read) return user_error(fmt::format("this is no tuning file, but {}", read.error().message));
  const Json& json = *read;
  if (!json.is_object() || json.value("epifuse", Json()) != kind) return user_error("this is no tuning file");
  const Json found = json.value("version", Json());
  if (found != tuning_version)
    return user_error(fmt::format("this is a tuning file of version {}; this Epifuse reads version {}: tune again",
                                  found.dump(-1, ' ', true, Json::error_handler_t::replace), tuning_version));
  const auto kernels = json.find("kernels");
  if (kernels == json.end() || !kernels->is_array()) return user_error(wrong_member(json, "kernels", "list"));
  TuningFile file;
  std::vector<std::string> names;  // of the plans' entries
  for (size_t i = 0; i < kernels->size(); ++i) {
    const Json& entry = (*kernels)[i];
    const std::string name = entry_name(entry, i);
    Result<TunedPlan> plan = read_plan(entry);
    if (!plan) {
      file.unusable.push_back(fmt::format("{} is left out: {}", name, plan.error().message));
      continue;
    }
    const auto same = std::find_if(file.plans.begin(), file.plans.end(),
                                   [&](const TunedPlan& other) { return other.key == plan->key; });
    if (same == file.plans.end()) {
      file.plans.push_back(*std::move(plan));
      names.push_back(name);
      continue;
    }
    std::string& earlier = names[static_cast<size_t>(same - file.plans.begin())];
    file.replaced.push_back(fmt::format("{} has the key of {}: its plan '{}' is used, and not '{}'", name, earlier,
                                        plan->schedule, same->schedule));
    *same = *std::move(plan);
    earlier = name;
  }
  return file;
}

Result<TuningFile> read_tuning_file(FileSystem& disk, const std::string& path) {
  const Result<std::string> text = disk.read(path);
  if (!text) return text.error();
  Result<TuningFile> file = parse_tuning_file(*text);
  if (!file) return user_error(fmt::format("{}: {}", path, file.error().message));
  return file;
}

Result<TuningFile> read_whole_tuning_file(FileSystem& disk, const std::string& path) {
  Result<TuningFile> file = read_tuning_file(disk, path);
  if (file && !file->unusable.empty()) return user_error(fmt::format("{}: {}", path, fmt::join(file->unusable, "; ")));
  return file;
}

std::string print_tuning_file(std::vector<TunedPlan> plans) {
  std::sort(plans.begin(), plans.end(), [](const TunedPlan& a, const TunedPlan& b) {
    return std::tie(a.kernel, a.dims, a.key) < std::tie(b.kernel, b.dims, b.key);
  });
  Json kernels = Json::array();
  for (const TunedPlan& plan : plans) kernels.push_back(to_json(plan));
  const Json json = {{"epifuse", kind}, {"version", tuning_version}, {"kernels", std::move(kernels)}};
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::vector<TunedPlan> merge_tuned_plans(std::vector<TunedPlan> plans, const std::vector<TunedPlan>& newer) {
  for (const TunedPlan& plan : newer) {
    std::erase_if(plans, [&](const TunedPlan& old) { return old.key == plan.key; });
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace epifuse::jit
