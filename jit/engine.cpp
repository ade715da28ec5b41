// The walk down the list of plans, and the table of loaded modules.
#include "jit/engine.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>
#include <mutex>

#include "base/cubin.h"
#include "base/digest.h"
#include "base/ensure.h"
#include "base/forks.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "jit/bundled_kernels.h"
#include "jit/request_record.h"
#include "jit/tuned_plans.h"

namespace epifuse::jit {
namespace {

cache::CacheOptions cache_options_of(const EngineOptions& options, FileSystem& disk) {
  cache::CacheOptions made = cache::cache_options(options.settings, options.log);
  if (!options.read_cache) {
    made.read_directories.clear();
    made.directory.clear();
    made.wanted = false;
  } else if (!options.write_cache) {
    const std::string own = std::exchange(made.directory, "");
    if (!own.empty() && disk.status(own).exists) made.read_directories.push_back(own);
    made.wanted = false;
  }
  return made;
}

Build build_of(const PlannedKernel& planned, const lowering::KernelPlan& plan) {
  Build build;
  build.request = compile_request(planned, plan);
  build.recipe = plan.recipe;
  for (const ir::Dimension& dim : planned.graph.dims) {
    if (dim.kind == ir::DimKind::fixed && dim.value) build.dims.emplace_back(dim.name, *dim.value);
  }
  build.schedule = lowering::schedule_name(plan.schedule);
  return build;
}

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The index of a bundle's plan. A tuner may have found it among those that the planner does not list by itself: it is
// then put behind them.
size_t place_of_plan(PlannedKernel& planned, const std::string& name) {
  std::vector<lowering::KernelPlan>& plans = planned.lowered.plans;
  const auto has_name = [&](const lowering::KernelPlan& plan) {
    return lowering::schedule_name(plan.schedule) == name;
  };
  const auto listed = std::find_if(plans.begin(), plans.end(), has_name);
  if (listed != plans.end()) return static_cast<size_t>(listed - plans.begin());
  Diagnostics ignored;
  lowering::Lowered only = lowering::lower(planned.graph, plans.front().target, {.only = name}, ignored);
  // A plan speaks of the nodes of its graph.
  if (only.plans.size() != 1 || ir::print(only.graph) != ir::print(planned.lowered.graph)) return 0;
  plans.push_back(std::move(only.plans.front()));
  return plans.size() - 1;
}

// What a kernel's module is found by. A bundle's word for its key decides nothing: its bytes do.
std::string module_name(const CompiledKernel& kernel) {
  if (kernel.from != From::bundle) return kernel.key;
  return fmt::format("{} {} {}", kernel.key, digest(kernel.image.cubin).hex(),
                     digest(kernel.image.recipe.to_json()).hex());
}

// A module on a device, loaded by the first who asks.
struct LoadSlot {
  std::mutex mutex;
  runtime::ModulePtr module;
};

}  // namespace

std::vector<runtime::NamedInteger> CompiledKernel::dims() const {
  std::vector<runtime::NamedInteger> list;
  for (const ir::Dimension& dim : planned.graph.dims) {
    if (dim.kind == ir::DimKind::fixed && dim.value) list.push_back({dim.name, *dim.value});
  }
  return list;
}

IntExpr CompiledKernel::workspace_bytes() const {
  return image.recipe.workspace_bytes.substitute([list = dims()](std::string_view name) -> std::optional<int64_t> {
    for (const runtime::NamedInteger& dim : list)
      if (dim.name == name) return dim.value;
    return std::nullopt;
  });
}

struct Engine::State {
  State(EngineOptions given, std::shared_ptr<toolchain::Toolchain> toolchain, FileSystem& disk)
      : log(given.log),
        store(std::move(toolchain), disk, cache_options_of(given, disk), given.settings.jit),
        tuned(disk, given.settings.tuning, given.log),
        bundles(disk, given.read_cache ? given.settings.bundles : std::vector<std::string>(), given.log),
        recorder(disk, given.settings.record, given.log),
        may_compile(given.settings.jit) {}

  void say(LogLevel level, const std::string& text) const {
    if (log) log(level, text);
  }

  // `planning` milliseconds went by before `start`.
  Result<CompiledKernelPtr> compile(PlannedKernel planned, Clock::time_point start, double planning);

  // Nothing when no bundle has the request, or none that can be used; `planned` is then what it was.
  CompiledKernelPtr from_bundle(PlannedKernel& planned, Clock::time_point start, double planning);

  Error with_bundles(Error error, const PlannedKernel& planned);

  // As plan_kernel, by the tuning file where the options name no plan.
  std::optional<PlannedKernel> plan(const Program& program, std::string_view kernel, const CompilerOptions& options,
                                    Diagnostics& diagnostics);

  const MadeHere made_here;
  const LogSink log;
  ArtifactStore store;
  TunedPlans tuned;
  cache::BundleSet bundles;
  RequestRecorder recorder;
  const bool may_compile;
  std::mutex mutex;  // guards the table, not the slots
  // A loaded module keeps its device, so no other one can come to have the address.
  std::map<std::pair<std::string, const runtime::Device*>, std::shared_ptr<LoadSlot>> loaded;
};

Engine::Engine(EngineOptions options, std::shared_ptr<toolchain::Toolchain> toolchain, FileSystem& disk)
    : state_(std::make_unique<State>(std::move(options), std::move(toolchain), disk)) {}
Engine::~Engine() = default;

Result<std::shared_ptr<Engine>> Engine::from_environment(LogSink log) {
  Result<Settings> settings = read_settings();
  if (!settings) return settings.error();
  EngineOptions options;
  options.log = log ? std::move(log) : stderr_log(settings->log);
  auto nvrtc = std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), *settings);
  options.settings = *std::move(settings);
  return std::make_shared<Engine>(std::move(options), std::move(nvrtc), real_file_system());
}

Result<std::optional<CompiledKernelPtr>> Engine::compile(const Program& program, std::string_view kernel,
                                                         const CompilerOptions& options, Diagnostics& diagnostics) {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here.error();
  const auto start = Clock::now();
  std::optional<PlannedKernel> planned = state_->plan(program, kernel, options, diagnostics);
  if (!planned) return {std::nullopt};
  record(program, planned->graph, options, false);
  Result<CompiledKernelPtr> made = state_->compile(*std::move(planned), start, milliseconds_since(start));
  if (!made) return made.error();
  return {*std::move(made)};
}

std::optional<PlannedKernel> Engine::plan(const Program& program, std::string_view kernel,
                                          const CompilerOptions& options, Diagnostics& diagnostics) {
  return state_->plan(program, kernel, options, diagnostics);
}

std::optional<PlannedKernel> Engine::State::plan(const Program& program, std::string_view kernel,
                                                 const CompilerOptions& options, Diagnostics& diagnostics) {
  if (!tuned.any() || options.tuned || !options.schedule.empty())
    return plan_kernel(program, kernel, options, diagnostics);
  CompilerOptions own = options;
  own.tuned = [this](const std::string& request) { return tuned.find(request); };
  std::optional<PlannedKernel> planned = plan_kernel(program, kernel, own, diagnostics);
  if (planned && !planned->tuned.empty() && !planned->lowered.has_preferred)
    tuned.warn_of(planned->graph.name, planned->tuned);
  return planned;
}

Result<CompiledKernelPtr> Engine::compile(PlannedKernel planned) {
  return state_->compile(std::move(planned), Clock::now(), 0);
}

std::vector<Result<CompiledKernelPtr>> Engine::compile_all(std::vector<PlannedKernel> planned, int threads) {
  std::vector<Result<CompiledKernelPtr>> made(planned.size(), CompiledKernelPtr());
  interpreter::parallel_for(static_cast<int64_t>(planned.size()), threads, [&](int64_t task) {
    const auto i = static_cast<size_t>(task);
    made[i] = compile(std::move(planned[i]));
  });
  return made;
}

Result<CompiledKernelPtr> Engine::State::compile(PlannedKernel planned, Clock::time_point start, double planning) {
  if (const Status here = made_here.check("this Engine"); !here) return here.error();
  if (CompiledKernelPtr found = from_bundle(planned, start, planning)) return found;
  const std::vector<lowering::KernelPlan>& plans = planned.lowered.plans;
  auto made = std::make_shared<CompiledKernel>();
  CompileTimes& times = made->times;
  times.plan = planning;
  const auto build = [&](size_t plan) {
    const auto begun = Clock::now();
    Build of_plan = build_of(planned, plans[plan]);
    times.emit += milliseconds_since(begun);
    return of_plan;
  };
  const auto add = [&](const ToolchainTimes& more) {
    times.toolchain += more.milliseconds;
    times.phases += more.phases;
  };
  const auto finish = [&](size_t plan, Artifact artifact) -> Result<CompiledKernelPtr> {
    made->plan = plan;
    made->schedule_name = lowering::schedule_name(plans[plan].schedule);
    made->image = std::move(artifact.image);
    made->ptx = std::move(artifact.ptx);
    made->key = std::move(artifact.key);
    made->from = artifact.from;
    made->planned = std::move(planned);
    add(artifact.times);
    made->milliseconds = milliseconds_since(start);
    times.look_up = std::max(0.0, made->milliseconds - times.plan - times.emit - times.toolchain);
    say(LogLevel::debug,
        fmt::format("kernel '{}' ({}) in {:.2f} ms: plan {:.2f}, emit {:.2f}, look-up {:.2f}, toolchain {:.0f}",
                    made->image.recipe.kernel, from_name(made->from), made->milliseconds, times.plan, times.emit,
                    times.look_up, times.toolchain));
    return CompiledKernelPtr(std::move(made));
  };

  size_t best = 0;
  std::vector<Refusal> refusals;
  for (size_t i = 0; i < plans.size(); ++i) {
    Result<std::variant<Artifact, Refusal>> got = store.get(build(i));
    if (!got) return with_bundles(got.error(), planned);
    if (auto* artifact = std::get_if<Artifact>(&*got)) return finish(i, std::move(*artifact));
    refusals.push_back(std::get<Refusal>(*got));
    add(refusals[i].times);
    if (refusals[i].better_than(refusals[best])) best = i;
    made->refused.push_back({lowering::schedule_name(plans[i].schedule), refusals[i].reason()});
    say(LogLevel::info, fmt::format("kernel '{}': the plan '{}' is left, because it {}", plans[i].kernel,
                                    made->refused[i].schedule, made->refused[i].reason));
  }

  Result<Artifact> artifact = store.get_anyway(build(best));
  if (!artifact) return with_bundles(artifact.error(), planned);
  // It was compiled a moment ago, to be looked at, and is in memory since.
  if (refusals[best].compiled) {
    artifact->from = From::toolchain;
    artifact->ptx = std::move(refusals[best].ptx);
  }
  made->said = planned.asked_schedule.empty()
                   ? fmt::format("no plan of kernel '{}' is free of spills; '{}' is used, which {}", plans[best].kernel,
                                 made->refused[best].schedule, made->refused[best].reason)
                   : fmt::format("the plan '{}' of kernel '{}', which was asked for, {}", made->refused[best].schedule,
                                 plans[best].kernel, made->refused[best].reason);
  artifact->image.warnings.push_back(made->said);
  say(LogLevel::warn, made->said);
  made->refused.erase(made->refused.begin() + static_cast<std::ptrdiff_t>(best));
  return finish(best, *std::move(artifact));
}

CompiledKernelPtr Engine::State::from_bundle(PlannedKernel& planned, Clock::time_point start, double planning) {
  if (!bundles.any()) return nullptr;
  std::optional<cache::BundleSet::Found> found = bundles.find(planned.request);
  if (!found) {
    if (may_compile) say(LogLevel::info, explain_miss(bundles, planned));
    return nullptr;
  }
  const std::string& name = found->bundle->name();
  Result<BundleInfo> info = BundleInfo::parse(found->entry.info);
  Result<KernelImage> image =
      KernelImage::from_parts(found->entry.recipe, found->entry.image, std::move(found->entry.cubin));
  const auto unusable = [&](const std::string& why) {
    say(LogLevel::warn,
        fmt::format("{} of the bundle {} is not used: {}", cache::describe(found->entry.label), name, why));
    return nullptr;
  };
  if (!info) return unusable(info.error().message);
  if (!image) return unusable(image.error().message);
  const Target& target = planned.lowered.plans.front().target;
  if (const std::optional<int> made_for = cubin_capability(image->cubin);
      made_for && *made_for != target.major * 10 + target.minor)
    return unusable(fmt::format("its cubin is for sm_{}", *made_for));
  // A tuning file on this machine is newer than the bundle, but where nothing is compiled the bundle is all there is.
  if (may_compile && planned.lowered.has_preferred && planned.tuned != info->tuned) {
    say(LogLevel::info, fmt::format("{} of the bundle {} has the plan {}, and the tuning file names {}",
                                    cache::describe(found->entry.label), name, info->plan, planned.tuned));
    return nullptr;
  }
  auto made = std::make_shared<CompiledKernel>();
  made->image = *std::move(image);
  made->key = std::move(info->key);
  made->from = From::bundle;
  made->bundle = name;
  made->schedule_name = std::move(info->plan);
  for (BundleInfo::Refused& one : info->refused) made->refused.push_back({std::move(one.plan), std::move(one.reason)});
  made->planned = std::move(planned);
  made->plan = place_of_plan(made->planned, made->schedule_name);
  made->milliseconds = milliseconds_since(start);
  made->times.plan = planning;
  made->times.look_up = std::max(0.0, made->milliseconds - planning);
  say(LogLevel::debug, fmt::format("kernel '{}' from the bundle {} in {:.2f} ms: plan {:.2f}, look-up {:.2f}",
                                   made->image.recipe.kernel, name, made->milliseconds, planning, made->times.look_up));
  return made;
}

// A kernel that is nowhere and cannot be made: what the bundles have instead.
Error Engine::State::with_bundles(Error error, const PlannedKernel& planned) {
  if (error.kind == ErrorKind::environment) error.message += "\n" + explain_miss(bundles, planned);
  return error;
}

Status Engine::add_bundle(const std::string& path) { return state_->bundles.add(path); }
Status Engine::add_bundle(SharedBytes bytes, std::string name) {
  return state_->bundles.add(std::move(bytes), std::move(name));
}

void Engine::record(const Program& program, const ir::Graph& graph, const CompilerOptions& options, bool unfused) {
  if (!state_->recorder.wanted()) return;
  std::map<std::string, int64_t> dims;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) dims[dim.name] = *dim.value;
  state_->recorder.note(program, dims, graph.name, options, unfused);
}

Result<KernelImage> Engine::compile_text(const toolchain::CompileRequest& request, const LaunchRecipe& recipe) {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here.error();
  Result<Artifact> artifact = state_->store.get_anyway({request, recipe, {}, ""});
  if (!artifact) return artifact.error();
  return std::move(artifact->image);
}

Result<LoadedKernel> Engine::load(CompiledKernelPtr compiled, const runtime::DevicePtr& device) {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here.error();
  EPIFUSE_ENSURE(compiled && device, "load of nothing");
  std::shared_ptr<LoadSlot> slot;
  {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    std::shared_ptr<LoadSlot>& place = state_->loaded[{module_name(*compiled), device.get()}];
    if (!place) place = std::make_shared<LoadSlot>();
    slot = place;
  }
  const std::lock_guard<std::mutex> guard(slot->mutex);
  if (!slot->module) {
    Result<runtime::ModulePtr> module = runtime::Module::load(device, compiled->image);
    if (!module) return module.error();
    slot->module = *std::move(module);
  }
  return LoadedKernel{std::move(compiled), slot->module};
}

int Engine::toolchain_calls() const { return state_->store.toolchain_calls(); }
cache::KernelCache& Engine::cache() { return state_->store.cache(); }
toolchain::Toolchain& Engine::toolchain() { return state_->store.toolchain(); }

}  // namespace epifuse::jit
