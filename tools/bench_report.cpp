#include "tools/bench_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/version.h"
#include "jit/tuning_file.h"
#include "tools/compile_kernel.h"
#include "tools/cost_text.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string conditions_text(const jit::GpuConditions& conditions) {
  std::string text = conditions.sm_clock_mhz ? fmt::format("{:.0f} MHz", *conditions.sm_clock_mhz) : "clock unknown";
  if (conditions.watts) text += fmt::format(", {:.0f} W", *conditions.watts);
  return text;
}

// One line for each form; all that is hot first.
std::string forms_text(const KernelBench& bench, bool hot) {
  const ir::Floor& floor = hot ? bench.hot_floor : bench.full_clock_floor;
  const auto times = [&](const FormTimes& form) -> const jit::Distribution& {
    return hot ? form.hot : form.full_clock;
  };
  std::string text;
  for (const FormTimes& form : bench.forms) {
    const jit::Distribution& ms = times(form);
    text += fmt::format("    {:15} {:9.4f} ms ±{:4.1f} %", form.form, ms.median, 50 * ms.spread());
    if (bench.work.flop() > 0) text += fmt::format("  {:6.0f} TFLOP/s", bench.work.flop() / ms.median / 1e9);
    text += fmt::format("  {:6.0f} GB/s  {:5.1f} % of the floor's speed", bench.work.bytes() / ms.median / 1e6,
                        100 * floor.ms() / ms.median);
    if (&form != &bench.forms.front())
      text += fmt::format("  fused is {:.2f} times as fast", ms.median / times(bench.forms.front()).median);
    text += '\n';
  }
  text += fmt::format("    {:15} {:9.4f} ms           tensor cores {:.4f}, memory {:.4f}\n", "floor", floor.ms(),
                      floor.tensor_ms, floor.memory_ms);
  if (bench.work.pass_bytes > 0)
    text += fmt::format("    {:15} {:9.4f} ms           computed: a product at its floor, then one ideal pass\n",
                        "product + pass", floor.two_launches_ms);
  return text;
}

std::string host_text(const jit::HostCost& cost) {
  const auto row = [&](std::string_view what, const jit::Distribution& us) {
    return fmt::format("    {:22} {:7.3f} µs ±{:4.1f} %  {:+7.3f} µs\n", what, us.median, 50 * us.spread(),
                       us.median - cost.bare.median);
  };
  return fmt::format("  host, {} driver call{} a launch; beside them\n", cost.driver_calls,
                     cost.driver_calls == 1 ? "" : "s") +
         row("driver calls alone", cost.bare) + row("launch", cost.launch) +
         row("rebind and launch", cost.rebind_and_launch) + row("bind and launch", cost.bind_and_launch);
}

Json distribution_json(const jit::Distribution& distribution, std::string_view unit) {
  if (distribution.count == 0) return nullptr;
  return {{fmt::format("median_{}", unit), distribution.median}, {fmt::format("low_{}", unit), distribution.low},
          {fmt::format("high_{}", unit), distribution.high},     {fmt::format("least_{}", unit), distribution.least},
          {fmt::format("most_{}", unit), distribution.most},     {"count", distribution.count}};
}

Json conditions_json(const jit::GpuConditions& conditions) {
  return {{"sm_clock_mhz", optional_json(conditions.sm_clock_mhz)},
          {"watts", optional_json(conditions.watts)},
          {"celsius", optional_json(conditions.celsius)},
          {"samples", conditions.samples}};
}

Json host_json(const jit::HostCost& cost) {
  return {{"driver_calls", cost.driver_calls},
          {"driver_calls_alone", distribution_json(cost.bare, "us")},
          {"launch", distribution_json(cost.launch, "us")},
          {"rebind_and_launch", distribution_json(cost.rebind_and_launch, "us")},
          {"bind_and_launch", distribution_json(cost.bind_and_launch, "us")}};
}

Json kernel_entry(const KernelBench& bench, const BenchSetting& setting) {
  const jit::CompiledKernel& compiled = *bench.compiled;
  Json entry = {{"file", bench.file},
                {"kernel", bench.kernel.name},
                {"request", jit::tuning_key(compiled.planned.request)},
                {"without", bench.kernel.left_out}};
  entry.update(*read_json(sizes_json(bench.dims, bench.kernel.sizes)));
  entry.update(*read_json(work_json(bench.work)));
  entry["plan"] = compiled.schedule();
  entry["plan_text"] = lowering::print(compiled.planned.lowered.graph, compiled.planned.lowered.plans[compiled.plan]);
  entry["compile"] = *read_json(kernel_json(compiled));
  if (bench.unfused) entry["compile_unfused"] = *read_json(unfused_json(*bench.unfused));
  if (!bench.unfused_problem.empty()) entry["unfused_problem"] = bench.unfused_problem;
  if (bench.host) {
    entry["host"] = host_json(*bench.host);
    return entry;
  }
  entry["floor"] = {{"hot", *read_json(floor_json(bench.hot_floor, bench.hot_clock_mhz))},
                    {"full_clock", *read_json(floor_json(bench.full_clock_floor, setting.full_clock_mhz))}};
  entry["hot"] = conditions_json(bench.hot);
  entry["hot"]["is_hot"] = bench.hot.sm_clock_mhz ? Json(bench.hot.hot()) : Json();
  entry["full_clock"] = bench.full_clock.samples > 0 ? conditions_json(bench.full_clock) : Json();
  entry["forms"] = Json::array();
  for (const FormTimes& form : bench.forms)
    entry["forms"].push_back({{"form", form.form},
                              {"hot", distribution_json(form.hot, "ms")},
                              {"full_clock", distribution_json(form.full_clock, "ms")}});
  return entry;
}

}  // namespace

std::string bench_text(const KernelBench& bench) {
  std::string text = fmt::format("{} ({}): {}\n", bench.kernel.name, bench.compiled->schedule(),
                                 numbers_text(bench.dims, bench.kernel.sizes));
  if (bench.host) return text + host_text(*bench.host);
  const std::string_view state = !bench.hot.sm_clock_mhz ? "" : bench.hot.hot() ? "" : " (not hot: counts for nothing)";
  text += fmt::format("  hot, {}{}\n{}", conditions_text(bench.hot), state, forms_text(bench, true));
  if (bench.forms.front().full_clock.count > 0) text += fmt::format("  full clock\n{}", forms_text(bench, false));
  if (!bench.unfused_problem.empty()) text += fmt::format("  not timed unfused: {}\n", bench.unfused_problem);
  return text;
}

std::string bench_json(const BenchEnvironment& environment, const BenchSetting& setting,
                       const std::vector<KernelBench>& benches) {
  Json kernels = Json::array();
  for (const KernelBench& bench : benches) kernels.push_back(kernel_entry(bench, setting));
  const Json json = {{"version", version},
                     {"commit", commit()},
                     {"gpu",
                      {{"name", environment.gpu.name},
                       {"multiprocessors", environment.gpu.sm_count},
                       {"max_clock_mhz", environment.max_clock_mhz},
                       {"power_limit_watts", optional_json(environment.power_limit_watts)}}},
                     {"driver", environment.driver.empty() ? Json() : Json(environment.driver)},
                     {"cuda", environment.cuda_version},
                     {"nvrtc", environment.nvrtc.empty() ? Json() : Json(environment.nvrtc)},
                     {"seed", setting.line->seed},
                     {"warm_seconds", setting.measure.warm_seconds},
                     {"rounds", setting.measure.rounds},
                     {"kernels", std::move(kernels)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace epifuse::tools
