// The walk down the list of plans, and the table of loaded modules.
#include "jit/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <map>
#include <mutex>

#include "base/digest.h"
#include "base/ensure.h"
#include "base/forks.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "deploy/prepared_kernels.h"
#include "jit/bundled_kernels.h"
#include "jit/loaded_modules.h"
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

std::string tried_text(const std::vector<RefusedPlan>& refused) {
  std::string text;
  for (const RefusedPlan& plan : refused)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", plan.schedule, plan.reason);
  return text;
}

// What the module of a bundle's kernel is found by. The bundle's word for its key decides nothing: its bytes do.
std::string module_name(const std::string& key, const KernelImage& image) {
  return fmt::format("{} {} {}", key, digest(image.cubin).hex(), digest(image.recipe.to_json()).hex());
}

std::string module_name(const CompiledKernel& kernel) {
  return kernel.from == From::bundle ? module_name(kernel.key, kernel.image) : kernel.key;
}

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
  Result<CompiledKernelPtr> compile(PlannedKernel planned, Clock::time_point start, double planning,
                                    ArtifactStore::IfAbsent if_absent = ArtifactStore::IfAbsent::compile);

  // Nothing when no bundle has the request, or none that can be used; `planned` is then what it was. `tuned_first`: nor
  // when the tuning file names another plan, which can be compiled.
  CompiledKernelPtr from_bundle(PlannedKernel& planned, bool tuned_first, Clock::time_point start, double planning);

  Error with_bundles(Error error, const PlannedKernel& planned);

  // An entry of a bundle onto the device.
  Status prepare(const cache::BundleReader& bundle, size_t entry, const runtime::DevicePtr& device);

  const MadeHere made_here;
  const LogSink log;
  ArtifactStore store;
  TunedPlans tuned;
  cache::BundleSet bundles;
  RequestRecorder recorder;
  const bool may_compile;
  LoadedModules loaded;
  std::atomic<bool> sealed{false};
  std::mutex mutex;                         // guards what follows
  std::map<std::string, KernelImage> made;  // what came from elsewhere than a bundle, by its key: for prepare()
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
  std::optional<PlannedKernel> planned = state_->tuned.plan(program, kernel, options, diagnostics);
  if (!planned) return {std::nullopt};
  record(program, planned->graph, options, false);
  Result<CompiledKernelPtr> made = state_->compile(*std::move(planned), start, milliseconds_since(start));
  if (!made) return made.error();
  return {*std::move(made)};
}

std::optional<PlannedKernel> Engine::plan(const Program& program, std::string_view kernel,
                                          const CompilerOptions& options, Diagnostics& diagnostics) {
  return state_->tuned.plan(program, kernel, options, diagnostics);
}

Result<CompiledKernelPtr> Engine::compile(PlannedKernel planned) {
  return state_->compile(std::move(planned), Clock::now(), 0);
}

CompiledKernelPtr Engine::find(PlannedKernel planned) {
  const Result<CompiledKernelPtr> found =
      state_->compile(std::move(planned), Clock::now(), 0, ArtifactStore::IfAbsent::leave);
  return found ? *found : nullptr;
}

std::vector<Result<CompiledKernelPtr>> Engine::compile_all(std::vector<PlannedKernel> planned, int threads) {
  std::vector<Result<CompiledKernelPtr>> made(planned.size(), CompiledKernelPtr());
  interpreter::parallel_for(static_cast<int64_t>(planned.size()), threads, [&](int64_t task) {
    const auto i = static_cast<size_t>(task);
    made[i] = compile(std::move(planned[i]));
  });
  return made;
}

Result<CompiledKernelPtr> Engine::State::compile(PlannedKernel planned, Clock::time_point start, double planning,
                                                 ArtifactStore::IfAbsent if_absent) {
  if (const Status here = made_here.check("this Engine"); !here) return here.error();
  if (CompiledKernelPtr found = from_bundle(planned, may_compile, start, planning)) return found;
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
    {
      const std::lock_guard<std::mutex> guard(mutex);
      this->made.try_emplace(made->key, made->image);
    }
    add(artifact.times);
    made->milliseconds = milliseconds_since(start);
    times.look_up = std::max(0.0, made->milliseconds - times.plan - times.emit - times.toolchain);
    say(LogLevel::debug,
        fmt::format("kernel '{}' ({}) in {:.2f} ms: plan {:.2f}, emit {:.2f}, look-up {:.2f}, toolchain {:.0f}",
                    made->image.recipe.kernel, from_name(made->from), made->milliseconds, times.plan, times.emit,
                    times.look_up, times.toolchain));
    return CompiledKernelPtr(std::move(made));
  };

  const auto missed = [&](const Error& error) -> Result<CompiledKernelPtr> {
    // The tuning file's plan is not there, and will not be.
    if (sealed && may_compile)
      if (CompiledKernelPtr found = from_bundle(planned, false, start, planning)) return found;
    return with_bundles(error, planned);
  };

  size_t best = 0;
  std::vector<Refusal> refusals;
  std::vector<RefusedPlan> just_left;  // compiled by this very call, which took as long, and not said to be left
  for (size_t i = 0; i < plans.size(); ++i) {
    Result<std::variant<Artifact, Refusal>> got = store.get(build(i), if_absent);
    if (!got) return missed(got.error());
    if (auto* artifact = std::get_if<Artifact>(&*got)) {
      if (!just_left.empty())
        say(LogLevel::warn,
            fmt::format("kernel '{}': '{}' is used; plans that were compiled before it and left: {}", plans[i].kernel,
                        lowering::schedule_name(plans[i].schedule), tried_text(just_left)));
      return finish(i, std::move(*artifact));
    }
    refusals.push_back(std::get<Refusal>(*got));
    add(refusals[i].times);
    if (refusals[i].better_than(refusals[best])) best = i;
    made->refused.push_back({lowering::schedule_name(plans[i].schedule), refusals[i].reason()});
    // Who tuned expects that plan.
    const bool tuned_one = planned.is_tuned(i) && plans.size() > 1;
    if (refusals[i].compiled && !tuned_one) just_left.push_back(made->refused.back());
    say(tuned_one ? LogLevel::warn : LogLevel::info,
        fmt::format("kernel '{}': the plan '{}'{} is left, because it {} (tried {} of {} plans)", plans[i].kernel,
                    made->refused[i].schedule, tuned_one ? " of the tuning file" : "", made->refused[i].reason, i + 1,
                    plans.size()));
  }

  Result<Artifact> artifact = store.get_anyway(build(best), if_absent);
  if (!artifact) return missed(artifact.error());
  // It was compiled a moment ago, to be looked at, and is in memory since.
  if (refusals[best].compiled) {
    artifact->from = From::toolchain;
    artifact->ptx = std::move(refusals[best].ptx);
  }
  made->said = planned.asked_schedule.empty()
                   ? fmt::format("no plan of kernel '{}' is free of spills; '{}' is used, which {}; tried: {}",
                                 plans[best].kernel, made->refused[best].schedule, made->refused[best].reason,
                                 tried_text(made->refused))
                   : fmt::format("the plan '{}' of kernel '{}', which was asked for, {}", made->refused[best].schedule,
                                 plans[best].kernel, made->refused[best].reason);
  artifact->image.warnings.push_back(made->said);
  say(LogLevel::warn, made->said);
  made->refused.erase(made->refused.begin() + static_cast<std::ptrdiff_t>(best));
  return finish(best, *std::move(artifact));
}

CompiledKernelPtr Engine::State::from_bundle(PlannedKernel& planned, bool tuned_first, Clock::time_point start,
                                             double planning) {
  if (!bundles.any()) return nullptr;
  BundleAnswer answer = ask_bundles(bundles, planned, tuned_first);
  if (!answer.unusable.empty()) say(LogLevel::warn, answer.unusable);
  if (!answer.passed_over.empty()) say(LogLevel::info, answer.passed_over);
  if (!answer.kernel) {
    if (tuned_first && !answer.found_one()) say(LogLevel::info, explain_miss(bundles, planned));
    return nullptr;
  }
  BundleInfo& info = answer.kernel->info;
  auto made = std::make_shared<CompiledKernel>();
  made->image = std::move(answer.kernel->image);
  made->key = std::move(info.key);
  made->from = From::bundle;
  made->bundle = std::move(answer.kernel->bundle);
  made->schedule_name = std::move(info.plan);
  for (BundleInfo::Refused& one : info.refused) made->refused.push_back({std::move(one.plan), std::move(one.reason)});
  made->planned = std::move(planned);
  made->plan = place_of_plan(made->planned, made->schedule_name);
  made->milliseconds = milliseconds_since(start);
  made->times.plan = planning;
  made->times.look_up = std::max(0.0, made->milliseconds - planning);
  say(LogLevel::debug,
      fmt::format("kernel '{}' from the bundle {} in {:.2f} ms: plan {:.2f}, look-up {:.2f}", made->image.recipe.kernel,
                  made->bundle, made->milliseconds, planning, made->times.look_up));
  return made;
}

// A kernel that is nowhere and cannot be made: what the bundles have instead.
Error Engine::State::with_bundles(Error error, const PlannedKernel& planned) {
  if (error.kind == ErrorKind::environment) error.message += "\n" + explain_miss(bundles, planned);
  return error;
}

Status Engine::add_bundle(const std::string& path) {
  if (state_->sealed) return deploy::sealed_error(fmt::format("the bundle {} is not added", path));
  return state_->bundles.add(path);
}

Status Engine::add_bundle(SharedBytes bytes, std::string name) {
  if (state_->sealed) return deploy::sealed_error(fmt::format("the bundle {} is not added", name));
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

bool Engine::may_compile() const { return state_->may_compile && !state_->sealed; }

Result<LoadedKernel> Engine::load(CompiledKernelPtr compiled, const runtime::DevicePtr& device) {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here.error();
  EPIFUSE_ENSURE(compiled && device, "load of nothing");
  Result<runtime::ModulePtr> module = state_->loaded.get(
      module_name(*compiled), device, [&] { return cache::describe(label_of(compiled->planned)); },
      [&] { return runtime::Module::load(device, compiled->image); });
  if (!module) return module.error();
  return LoadedKernel{std::move(compiled), *std::move(module)};
}

Status Engine::State::prepare(const cache::BundleReader& bundle, size_t entry, const runtime::DevicePtr& device) {
  const Result<cache::BundleEntry> found = bundle.entry(entry);
  if (!found) return found.error();
  const Result<BundleInfo> info = BundleInfo::parse(found->info);
  if (!info)
    return Error{ErrorKind::wrong, fmt::format("{} of the bundle {} cannot be read: {}", cache::describe(found->label),
                                               bundle.name(), info.error().message)};
  const Result<KernelImage> image = deploy::image_of(*found, bundle.name());
  if (!image) return image.error();
  const Result<runtime::ModulePtr> module = loaded.get(
      module_name(info->key, *image), device,
      [&] { return fmt::format("{} of the bundle {}", cache::describe(found->label), bundle.name()); },
      [&] { return deploy::load_module(device, *image, found->label, bundle.name()); });
  return module ? Status() : Status(module.error());
}

Result<size_t> Engine::prepare(const runtime::DevicePtr& device) {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here.error();
  EPIFUSE_ENSURE(device, "prepare for nothing");
  const Result<Target> target = runtime::target_of(device->info());
  if (!target) return target.error();
  const std::vector<cache::BundlePtr> bundles = state_->bundles.bundles();
  const Result<deploy::KernelsOfTarget> found =
      deploy::visit_kernels(bundles, target->name, [&](size_t bundle, size_t entry, const cache::BundleLabel&) {
        return state_->prepare(*bundles[bundle], entry, device);
      });
  if (!found) return found.error();
  size_t count = found->count;
  std::map<std::string, KernelImage> made;
  {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    made = state_->made;
  }
  for (const auto& [key, image] : made) {
    if (image.recipe.target != target->name) continue;
    const Result<runtime::ModulePtr> module = state_->loaded.get(
        key, device, [&] { return fmt::format("kernel '{}' for {}", image.recipe.kernel, image.recipe.target); },
        [&] { return runtime::Module::load(device, image); });
    if (!module) return module.error();
    ++count;
  }
  if (count > 0) return count;
  Error nothing = deploy::nothing_to_prepare(*found, target->name, device.get());
  nothing.message += ", and this engine has compiled none";
  for (const std::string& problem : state_->bundles.problems()) nothing.message += "\n  " + problem;
  return nothing;
}

Status Engine::seal() {
  if (const Status here = state_->made_here.check("this Engine"); !here) return here;
  state_->sealed = true;
  state_->store.seal();
  state_->loaded.seal();
  return {};
}

int Engine::toolchain_calls() const { return state_->store.toolchain_calls(); }
cache::KernelCache& Engine::cache() { return state_->store.cache(); }
toolchain::Toolchain& Engine::toolchain() { return state_->store.toolchain(); }

}  // namespace epifuse::jit
