#include "tools/kernel_bench.h"

#include <fmt/format.h>

#include "jit/device_problem.h"
#include "tools/compile_kernel.h"
#include "tools/cost_text.h"

namespace epifuse::tools {
namespace {

// Random numbers that repeat every 2^24 do not repeat within an L2, and cost the host nothing.
constexpr int64_t repeat_after = int64_t{1} << 24;

// The forms of a kernel, bound to one set of buffers. Graphs refer to calls, and calls to buffers.
struct Bound {
  jit::DeviceProblem problem;
  std::vector<std::unique_ptr<jit::BoundSequence>> calls;
  std::vector<jit::Contender> contenders;

  Status add(std::string name, const jit::LaunchSequence& form) {
    Result<jit::BoundSequence> call = problem.bind(form);
    if (!call) return call.error();
    calls.push_back(std::make_unique<jit::BoundSequence>(*std::move(call)));
    const jit::BoundSequence* launched = calls.back().get();
    const jit::Contender direct{std::move(name), [launched](cuda::Stream stream) { return launched->launch(stream); }};
    Result<jit::Contender> replayed = jit::replayed(form.device(), direct);
    if (!replayed) return replayed.error();
    contenders.push_back(*std::move(replayed));
    return {};
  }
};

// A kernel without an unfused form, or with one that does not fit into the memory, is timed alone.
Status add_unfused(jit::Engine& engine, const Program& program, const BenchSetting& setting, KernelBench& made,
                   Bound& bound) {
  CompilerOptions options = made.kernel.compiler_options(*setting.line);
  options.target = setting.gpu.target;
  options.schedule.clear();
  Diagnostics refusals;
  const auto compiled = jit::compile_unfused(engine, program, made.kernel.name, options, refusals, setting.line->jobs);
  if (!compiled && compiled.error().kind == ErrorKind::environment) {
    made.unfused_problem = compiled.error().message;  // no compiler, and a bundle of fused kernels alone
    return {};
  }
  if (!compiled) return compiled.error();
  if (!*compiled) {
    made.unfused_problem = refusals.all().empty() ? "it has none" : refusals.all().front().message;
    return {};
  }
  const Result<jit::LaunchSequence> loaded = jit::load_unfused(engine, **compiled, setting.gpu.device);
  if (!loaded) return loaded.error();
  if (const Status added = bound.add("unfused", *loaded); !added) {
    made.unfused_problem = added.error().message;
    return {};
  }
  made.unfused = **compiled;
  return {};
}

Status time_forms(const BenchSetting& setting, const Bound& bound, KernelBench& made) {
  const runtime::DevicePtr& device = setting.gpu.device;
  if (!setting.line->no_full_clock) {  // first, as long as the card is not hot
    const Result<jit::Measurement> measured = jit::measure_at_full_clock(device, bound.contenders, setting.measure);
    if (!measured) return measured.error();
    for (size_t i = 0; i < made.forms.size(); ++i) made.forms[i].full_clock = measured->milliseconds[i];
    made.full_clock = measured->conditions;
  }
  const Result<jit::Measurement> measured = jit::measure_hot(device, bound.contenders, setting.measure);
  if (!measured) return measured.error();
  for (size_t i = 0; i < made.forms.size(); ++i) made.forms[i].hot = measured->milliseconds[i];
  made.hot = measured->conditions;
  return {};
}

void set_floors(const BenchSetting& setting, KernelBench& made) {
  const TargetFigures& figures = figures_of(setting.gpu.target);
  const int multiprocessors = setting.gpu.device->info().sm_count;
  made.hot_clock_mhz = made.hot.sm_clock_mhz.value_or(figures.hot_clock_mhz);
  made.hot_floor = ir::floor_of(made.work, figures, multiprocessors, made.hot_clock_mhz);
  made.full_clock_floor = ir::floor_of(made.work, figures, multiprocessors, setting.full_clock_mhz);
}

}  // namespace

Result<std::optional<KernelBench>> bench_kernel(jit::Engine& engine, const Program& program, SizedKernel kernel,
                                                const BenchSetting& setting, Diagnostics& diagnostics) {
  KernelBench made;
  CompilerOptions options = kernel.compiler_options(*setting.line);
  options.target = setting.gpu.target;
  auto compiled = engine.compile(program, kernel.name, options, diagnostics);
  if (!compiled) return compiled.error();
  if (!*compiled) return {std::nullopt};
  made.compiled = **compiled;
  const ir::Graph& graph = made.compiled->planned.graph;
  Result<ir::Work> work = ir::least_work(graph, kernel.sizes);
  if (!work) return work.error();
  made.work = *std::move(work);
  made.dims = number_list(graph, kernel.sizes);

  const Result<jit::LoadedKernel> loaded = engine.load(made.compiled, setting.gpu.device);
  if (!loaded) return loaded.error();
  jit::InputOptions data = kernel.inputs.data;
  data.repeat_after = repeat_after;
  Result<jit::DeviceProblem> problem = jit::DeviceProblem::make(graph, data, kernel.params, setting.gpu.device);
  if (!problem) return problem.error();
  made.kernel = std::move(kernel);
  if (setting.line->host) {
    Result<jit::HostCost> cost = jit::measure_host_cost(engine, *loaded, *problem, {});
    if (!cost) return cost.error();
    made.host = *std::move(cost);
    return {std::move(made)};
  }

  Bound bound{*std::move(problem), {}, {}};
  if (Status added = bound.add("fused", *loaded); !added) return added.error();
  if (!setting.line->no_unfused)
    if (Status added = add_unfused(engine, program, setting, made, bound); !added) return added.error();
  for (const jit::Contender& contender : bound.contenders) made.forms.push_back({contender.name, {}, {}});
  if (Status timed = time_forms(setting, bound, made); !timed) return timed.error();
  set_floors(setting, made);
  return {std::move(made)};
}

}  // namespace epifuse::tools
