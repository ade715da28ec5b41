// Tuning files: what is written is read back, damage is named, and the order of authority: the caller's schedule, the
// file, the planner.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "jit/tuning_file.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::TunedPlan;

namespace {

constexpr auto path = "/tuning.json";

TunedPlan tuned_plan(const std::string& kernel, const std::string& request, const std::string& schedule) {
  TunedPlan plan;
  plan.key = jit::tuning_key(request);
  plan.schedule = schedule;
  plan.kernel = kernel;
  plan.target = "sm_90a";
  plan.dims = {{"E", 8}, {"K", 7168}};
  plan.milliseconds = 2.875;
  plan.gpu = "NVIDIA H200";
  plan.commit = "abc";
  return plan;
}

// The one entry that is left out, as the sentence about it.
std::string left_out(const std::string& text) {
  const auto file = jit::parse_tuning_file(text);
  if (!file) FAIL(file.error().message);
  CHECK(file->plans.size() == 1);
  CHECK(file->replaced.empty());
  REQUIRE(file->unusable.size() == 1);
  return file->unusable.front();
}

std::string why_not(const std::string& text) {
  const auto plans = jit::parse_tuning_file(text);
  REQUIRE(!plans);
  CHECK(plans.error().kind == ErrorKind::user);
  return plans.error().message;
}

PlannedKernel planned(const std::string& text = small_spec, CompilerOptions options = {}) {
  Diagnostics diagnostics;
  const Program program = program_of(text, diagnostics);
  std::optional<PlannedKernel> made = plan_kernel(program, "", options, diagnostics);
  REQUIRE(made);
  return *std::move(made);
}

std::string name_of(const PlannedKernel& kernel, size_t plan) {
  return lowering::schedule_name(kernel.lowered.plans.at(plan).schedule);
}

auto with_tuning(const std::string& file = path) {
  return [file](jit::EngineOptions& options) { options.settings.tuning = file; };
}

void put(MemoryFileSystem& disk, const std::string& schedule, const std::string& request = planned().request) {
  disk.put(path, jit::print_tuning_file({tuned_plan("small", request, schedule)}));
}

}  // namespace

TEST_CASE("a tuning file is read back as it was written, in one order") {
  TunedPlan a = tuned_plan("a", "request a", "pingpong 128x160 stages 4 dynamic");
  a.expected_rows = 4096;
  a.sm_clock_mhz = 1395.5;
  const TunedPlan b = tuned_plan("b", "request b", "cooperative 128x256");
  const std::string text = jit::print_tuning_file({b, a});
  CHECK(text == jit::print_tuning_file({a, b}));
  const auto read = jit::parse_tuning_file(text);
  REQUIRE(read);
  CHECK(read->unusable.empty());
  CHECK(read->replaced.empty());
  REQUIRE(read->plans.size() == 2);
  const TunedPlan& first = read->plans.front();
  CHECK(first.key == jit::tuning_key("request a"));
  CHECK(first.schedule == "pingpong 128x160 stages 4 dynamic");
  CHECK(first.kernel == "a");
  CHECK(first.target == "sm_90a");
  CHECK(first.dims == a.dims);
  CHECK(first.expected_rows == 4096);
  CHECK(first.milliseconds == 2.875);
  CHECK(first.gpu == "NVIDIA H200");
  CHECK(first.sm_clock_mhz == 1395.5);
  CHECK(first.commit == "abc");
  CHECK(!read->plans.back().expected_rows);
  CHECK(!read->plans.back().sm_clock_mhz);
  CHECK(jit::print_tuning_file(read->plans) == text);
  // A name is any bytes.
  CHECK(jit::parse_tuning_file(jit::print_tuning_file({tuned_plan("\xff\"\n", "r", "pointwise")}))->plans.size() == 1);
}

TEST_CASE("newer plans replace those of the same request") {
  const auto merged = jit::merge_tuned_plans({tuned_plan("a", "1", "pointwise"), tuned_plan("b", "2", "pointwise")},
                                             {tuned_plan("a", "1", "pass 128x64"), tuned_plan("a", "3", "pointwise")});
  REQUIRE(merged.size() == 3);
  const auto schedule = [&](const std::string& request) {
    for (const TunedPlan& plan : merged)
      if (plan.key == jit::tuning_key(request)) return plan.schedule;
    return std::string();
  };
  CHECK(schedule("1") == "pass 128x64");
  CHECK(schedule("2") == "pointwise");
  CHECK(schedule("3") == "pointwise");
}

TEST_CASE("what is no tuning file is said to be none") {
  for (const char* text : {"", "{", "[]", "7", "{}", "{\"epifuse\": 1}", "{\"epifuse\": \"bench\", \"version\": 1}"})
    CHECK(contains(why_not(text), "no tuning file"));
  const auto json = nlohmann::ordered_json::parse(jit::print_tuning_file({tuned_plan("a", "1", "pointwise")}));
  const auto changed = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto copy = json;
    change(copy);
    return copy.dump();
  };
  CHECK(contains(why_not(changed([](auto& j) { j["version"] = tuning_version + 1; })), "tune again"));
  CHECK(contains(why_not(changed([](auto& j) { j.erase("version"); })), "version null"));
  CHECK(contains(why_not(changed([](auto& j) { j["kernels"] = 1; })), "'kernels'"));
}

TEST_CASE("an entry that cannot be used is left out by name, and the others are used") {
  const auto json = nlohmann::ordered_json::parse(
      jit::print_tuning_file({tuned_plan("a", "1", "pointwise"), tuned_plan("b", "2", "pointwise")}));
  const auto changed = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto copy = json;
    change(copy);
    return copy.dump();
  };
  CHECK(contains(left_out(changed([](auto& j) { j["kernels"][0] = 1; })), "entry 1 is left out: it is no object"));
  CHECK(contains(left_out(changed([](auto& j) { j["kernels"][1]["schedule"] = 1; })), "entry 2 (b) is left out: "));
  for (const char* name : {"kernel", "target", "dims", "key", "schedule", "milliseconds", "gpu", "commit"}) {
    const bool decides = name == std::string("key") || name == std::string("schedule");
    const std::string without = changed([&](auto& j) { j["kernels"][0].erase(name); });
    CHECK(jit::parse_tuning_file(without)->plans.size() == (decides ? 1 : 2));
    if (decides) CHECK(contains(left_out(without), fmt::format("'{}'", name)));
    CHECK(contains(left_out(changed([&](auto& j) { j["kernels"][0][name] = nlohmann::ordered_json::array(); })),
                   fmt::format("'{}'", name)));
  }
  for (const char* name : {"expected_rows", "sm_clock_mhz"})
    CHECK(contains(left_out(changed([&](auto& j) { j["kernels"][0][name] = "many"; })), fmt::format("'{}'", name)));
  const auto says = [&](const char* name, const nlohmann::ordered_json& value, const std::string& what) {
    CHECK(contains(left_out(changed([&](auto& j) { j["kernels"][0][name] = value; })), what));
  };
  says("dims", {{"E", "eight"}}, "'dims' is no object of whole numbers");
  says("dims", 8, "'dims' is no object of whole numbers");
  says("milliseconds", "2", "'milliseconds' is no number");
  says("expected_rows", 1.5, "'expected_rows' is no whole number");
  const std::string key = json["kernels"][0]["key"];
  for (const std::string& odd : {std::string(), key.substr(1), key + "0", "G" + key.substr(1), std::string(32, 'A')})
    says("key", odd, fmt::format("entry 1 (a) is left out: '{}' is no key, which has 32 digits", odd));
  CHECK(contains(left_out(changed([](auto& j) { j["kernels"][0]["schedule"] = "fast"; })), "'fast' is no name"));
  // What later versions may add to an entry is left alone.
  CHECK(jit::parse_tuning_file(changed([](auto& j) { j["kernels"][0]["more"] = 1; }))->unusable.empty());

  MemoryFileSystem disk;
  disk.put(path, changed([](auto& j) { j["kernels"][0]["gpu"] = 1; }));
  CHECK(jit::read_tuning_file(disk, path)->plans.size() == 1);
  const auto whole = jit::read_whole_tuning_file(disk, path);
  REQUIRE(!whole);
  CHECK(whole.error().message == std::string(path) + ": entry 1 (a) is left out: 'gpu' is no text");
}

TEST_CASE("of entries with one key the last that can be used is, and each that is not is named") {
  auto json = nlohmann::ordered_json::parse(jit::print_tuning_file({tuned_plan("a", "1", "pointwise")}));
  const auto add = [&](const char* kernel, const char* schedule) {
    json["kernels"].push_back(json["kernels"][0]);
    json["kernels"].back()["kernel"] = kernel;
    json["kernels"].back()["schedule"] = schedule;
  };
  add("b", "pass 128x64");
  add("c", "fast");
  add("d", "pass 128x128");
  const auto file = jit::parse_tuning_file(json.dump());
  REQUIRE(file);
  REQUIRE(file->plans.size() == 1);
  CHECK(file->plans[0].schedule == "pass 128x128");
  REQUIRE(file->replaced.size() == 2);
  CHECK(file->replaced[0] ==
        "entry 2 (b) has the key of entry 1 (a): its plan 'pass 128x64' is used, and not 'pointwise'");
  CHECK(contains(file->replaced[1], "entry 4 (d) has the key of entry 2 (b): its plan 'pass 128x128'"));
  CHECK(file->unusable.size() == 1);
}

TEST_CASE("entries that cannot be used, and keys that stand twice, are a warning each, and the rest is used") {
  MemoryFileSystem disk;
  auto json = nlohmann::ordered_json::parse(
      jit::print_tuning_file({tuned_plan("small", planned().request, "pingpong 128x64 stages 2")}));
  json["kernels"].push_back(7);
  json["kernels"].push_back(json["kernels"][0]);
  json["kernels"].back()["schedule"] = "pingpong 128x64 stages 3";
  disk.put(path, json.dump());
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(engine.compile()->schedule() == "pingpong 128x64 stages 3");
  engine.compile();
  const std::vector<std::string> said = engine.lines(LogLevel::warn);
  REQUIRE(said.size() == 2);
  CHECK(said[0] == std::string("the tuning file ") + path + ": entry 2 is left out: it is no object");
  CHECK(contains(said[1], "entry 3 (small) has the key of entry 1 (small)"));
}

TEST_CASE("the tuning file's plan goes before the planner's, and the caller's before both") {
  MemoryFileSystem disk;
  const PlannedKernel own = planned();
  const std::string last = name_of(own, own.lowered.plans.size() - 1), second = name_of(own, 1);
  put(disk, last);
  TestEngine engine(disk, "/cache", with_tuning());
  const auto compiled = engine.compile();
  CHECK(compiled->schedule() == last);
  CHECK(compiled->plan == 0);
  CHECK(compiled->planned.is_tuned(compiled->plan));
  CHECK(compiled->planned.lowered.plans.size() == own.lowered.plans.size());
  CHECK(compiled->refused.empty());

  CompilerOptions options;
  options.schedule = second;
  CHECK(engine.compile(small_spec, options)->schedule() == second);
  CHECK(!engine.compile(small_spec, options)->planned.is_tuned(0));

  TestEngine untuned(disk);
  CHECK(untuned.compile()->schedule() == name_of(own, 0));
  CHECK(!untuned.compile()->planned.is_tuned(0));
  CHECK(engine.lines(LogLevel::warn).empty());
}

TEST_CASE("a tuned plan need not be among the planner's own") {
  MemoryFileSystem disk;
  const std::string name = "pingpong 128x64 stages 3 band 4 dynamic";
  put(disk, name);
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(engine.compile()->schedule() == name);
}

TEST_CASE("a tuned plan that the kernel cannot have is left, and the reason said") {
  MemoryFileSystem disk;
  put(disk, "pingpong 128x64 dynamic pairs");
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(!engine.compile()->planned.is_tuned(0));
  const std::vector<std::string> said = engine.lines(LogLevel::warn);
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0],
                 "has the plan 'pingpong 128x64 dynamic pairs' for kernel 'small', which cannot run so: tiles are "
                 "dealt out one by one, and not in pairs; tune it again"));
}

TEST_CASE("the tuning file is asked for the kernel, its dimensions and what is left out, and for nothing else") {
  MemoryFileSystem disk;
  const std::string name = "pingpong 128x64 stages 2";
  put(disk, name);
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(engine.compile(std::string("# a comment\n") + small_spec)->schedule() == name);
  CompilerOptions other;
  other.dims["N"] = 128;
  CHECK(engine.compile(small_spec, other)->schedule() != name);
  CompilerOptions without;
  without.left_out.insert("q");
  CHECK(engine.compile(small_spec, without)->schedule() != name);
}

TEST_CASE("a tuned plan that spills falls back to the planner's order") {
  MemoryFileSystem disk;
  const PlannedKernel own = planned();
  put(disk, "pingpong 128x64 stages 2");
  TestEngine engine(disk, "/cache", with_tuning());
  engine.toolchain->say = [](int n, const auto&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.spill_bytes = n == 0 ? 8 : 0;
    return {};
  };
  const auto compiled = engine.compile();
  CHECK(compiled->schedule() == name_of(own, 0));
  CHECK(!compiled->planned.is_tuned(compiled->plan));
  REQUIRE(compiled->refused.size() == 1);
  CHECK(compiled->refused[0].schedule == "pingpong 128x64 stages 2");
  // Who tuned expects that plan.
  REQUIRE(engine.lines(LogLevel::warn).size() == 1);
  CHECK(contains(engine.lines(LogLevel::warn)[0],
                 "the plan 'pingpong 128x64 stages 2' of the tuning file is left, because it spills 8 bytes"));
}

TEST_CASE("a tuning file that cannot be used costs one warning, and the planner decides") {
  MemoryFileSystem disk;
  const std::string own = name_of(planned(), 0);
  SECTION("it is missing") {}
  SECTION("it is damaged") { disk.put(path, "{"); }
  SECTION("it is of another version") { disk.put(path, "{\"epifuse\": \"tuning\", \"version\": 99, \"kernels\": []}"); }
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(engine.compile()->schedule() == own);
  CHECK(engine.compile()->schedule() == own);
  REQUIRE(engine.lines(LogLevel::warn).size() == 1);
  CHECK(contains(engine.lines(LogLevel::warn)[0], "EPIFUSE_TUNING"));
  CHECK(contains(engine.lines(LogLevel::warn)[0], path));
}

TEST_CASE("a plan of the file that the kernel cannot have is said, and the planner decides") {
  MemoryFileSystem disk;
  put(disk, "pingpong 128x64 stages 12");
  TestEngine engine(disk, "/cache", with_tuning());
  CHECK(engine.compile()->schedule() == name_of(planned(), 0));
  REQUIRE(engine.lines(LogLevel::warn).size() == 1);
  CHECK(contains(engine.lines(LogLevel::warn)[0], "pingpong 128x64 stages 12"));
}
