// tune: the fastest plan of kernels, measured on the GPU of this machine, into a tuning file.
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/version.h"
#include "jit/device_problem.h"
#include "jit/measure.h"
#include "jit/tuner.h"
#include "jit/tuning_file.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/find_gpu.h"
#include "tools/output_file.h"
#include "tools/sized_kernels.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;
using lowering::KernelPlan;

// Random numbers that repeat every 2^24 do not repeat within an L2, and cost the host nothing.
constexpr int64_t repeat_after = int64_t{1} << 24;
// Of a round that only leaves out what is slow.
constexpr double quick_share = 0.5;

// A kernel whose plans are tried.
struct Subject {
  SizedKernel kernel;
  PlannedKernel planned;  // every plan
};

// Rounds on a GPU: compiles plans, binds those that may be used to one set of buffers, and times them.
class Rounds {
 public:
  Rounds(jit::Engine& engine, const Gpu& gpu, const Subject& subject, jit::DeviceProblem& problem,
         const CommandLine& line)
      : engine_(engine), gpu_(gpu), subject_(subject), problem_(problem), line_(line) {}

  Result<jit::Round> run(const std::vector<const KernelPlan*>& plans, bool last) {
    jit::Round round;
    std::vector<jit::Contender> contenders;
    std::vector<std::unique_ptr<jit::BoundSequence>> calls;
    const std::vector<Result<jit::CompiledKernelPtr>> compiled = engine_.compile_all(each_alone(plans), line_.jobs);
    for (const Result<jit::CompiledKernelPtr>& kernel : compiled) {
      if (!kernel) return kernel.error();
      const KernelImage& image = (*kernel)->image;
      jit::Trial trial;
      trial.refused = jit::Refusal{image.spill_bytes, image.wgmma_serialized, {}}.reason();
      round.trials.push_back(trial);
      if (!trial.refused.empty()) continue;
      if (Status bound = bind(*kernel, calls, contenders); !bound) return bound.error();
    }
    if (contenders.empty()) return round;
    const Result<jit::Measurement> measured = jit::measure_hot(gpu_.device, contenders, options(last));
    if (!measured) return measured.error();
    size_t next = 0;
    for (jit::Trial& trial : round.trials)
      if (trial.refused.empty()) trial.milliseconds = measured->milliseconds[next++];
    round.conditions = measured->conditions;
    return round;
  }

 private:
  std::vector<PlannedKernel> each_alone(const std::vector<const KernelPlan*>& plans) const {
    const PlannedKernel& all = subject_.planned;
    std::vector<PlannedKernel> list;
    for (const KernelPlan* plan : plans) {
      PlannedKernel& one = list.emplace_back();
      one.graph = all.graph;
      one.lowered.graph = all.lowered.graph;
      one.lowered.plans = {*plan};
      one.request = all.request;
    }
    return list;
  }

  Status bind(const jit::CompiledKernelPtr& compiled, std::vector<std::unique_ptr<jit::BoundSequence>>& calls,
              std::vector<jit::Contender>& contenders) {
    const Result<jit::LoadedKernel> loaded = engine_.load(compiled, gpu_.device);
    if (!loaded) return loaded.error();
    Result<jit::BoundSequence> call = problem_.bind(*loaded);
    if (!call) return call.error();
    calls.push_back(std::make_unique<jit::BoundSequence>(*std::move(call)));
    const jit::BoundSequence* launched = calls.back().get();
    const Result<jit::Contender> replayed = jit::replayed(
        gpu_.device, {compiled->schedule(), [launched](cuda::Stream stream) { return launched->launch(stream); }});
    if (!replayed) return replayed.error();
    contenders.push_back(*replayed);
    return {};
  }

  jit::MeasureOptions options(bool last) const {
    jit::MeasureOptions options;
    options.sensors = jit::sensors_of(*gpu_.device);
    options.warm_seconds = line_.warm_seconds;
    options.rounds = line_.rounds;
    if (!last) {
      options.rounds = std::max(2, static_cast<int>(options.rounds * quick_share));
      options.least_seconds *= quick_share;
    }
    return options;
  }

  jit::Engine& engine_;
  const Gpu& gpu_;
  const Subject& subject_;
  jit::DeviceProblem& problem_;
  const CommandLine& line_;
};

// Rows of each group, where all have as many.
std::optional<int64_t> expected_rows(const SizedKernel& kernel) {
  const std::optional<std::vector<int64_t>>& counts = kernel.inputs.data.counts;
  if (!counts || counts->empty()) return std::nullopt;
  const bool alike = std::all_of(counts->begin(), counts->end(), [&](int64_t n) { return n == counts->front(); });
  return alike ? std::optional(counts->front()) : std::nullopt;
}

jit::TunedPlan entry_of(const Subject& subject, const jit::Tuned& tuned, const Gpu& gpu) {
  jit::TunedPlan entry;
  entry.key = jit::tuning_key(subject.planned.request);
  entry.schedule = lowering::schedule_name(tuned.best().plan->schedule);
  entry.kernel = subject.kernel.name;
  entry.target = gpu.target.name;
  for (const ir::Dimension& dim : subject.planned.graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) entry.dims[dim.name] = *dim.value;
  entry.expected_rows = expected_rows(subject.kernel);
  entry.milliseconds = tuned.best().milliseconds;
  entry.gpu = gpu.device->info().name;
  entry.sm_clock_mhz = tuned.conditions.sm_clock_mhz;
  entry.commit = commit();
  return entry;
}

// Someone else may be tuning into the same file.
Result<std::unique_ptr<FileLock>> lock(FileSystem& disk, const std::string& path) {
  constexpr auto between = std::chrono::milliseconds(50);
  constexpr int most_tries = 200;
  for (int i = 0; i < most_tries; ++i) {
    Result<std::unique_ptr<FileLock>> taken = disk.try_lock(path + ".lock");
    if (!taken || *taken) return taken;
    std::this_thread::sleep_for(between);
  }
  return environment_error(fmt::format("{}.lock is held by another process", path));
}

// A file that cannot be understood is not replaced.
Status store(FileSystem& disk, const std::string& path, const jit::TunedPlan& entry) {
  const Result<std::unique_ptr<FileLock>> held = lock(disk, path);
  if (!held) return held.error();
  std::vector<jit::TunedPlan> plans;
  if (disk.status(path).exists) {
    Result<jit::TuningFile> read = jit::read_whole_tuning_file(disk, path);
    if (!read) return read.error();
    plans = std::move(read->plans);
  }
  return write_output(disk, path, jit::print_tuning_file(jit::merge_tuned_plans(std::move(plans), {entry})));
}

// Damage of the file is told before the GPU works for it.
Status check_readable(FileSystem& disk, const std::string& path) {
  if (!disk.status(path).exists) return {};
  const Result<jit::TuningFile> read = jit::read_whole_tuning_file(disk, path);
  return read ? Status() : Status(read.error());
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Subject& subject, const jit::Tuned& tuned, const Gpu& gpu) {
  Json plans = Json::array();
  for (const jit::TriedPlan& tried : tuned.plans) {
    Json row = {{"plan", lowering::schedule_name(tried.plan->schedule)}, {"cost", tried.plan->cost}};
    if (!tried.trial.refused.empty()) {
      row["refused"] = tried.trial.refused;
    } else {
      const jit::Distribution& ms = tried.trial.milliseconds;
      row.update({{"ms", tried.milliseconds},
                  {"over_best", tried.milliseconds / tuned.best().milliseconds},
                  {"spread", ms.spread()},
                  {"count", ms.count},
                  {"model_rank", tried.model_rank}});
    }
    plans.push_back(std::move(row));
  }
  const jit::GpuConditions& conditions = tuned.conditions;
  Json json = {{"kernel", subject.kernel.name},
               {"target", gpu.target.name},
               {"dims", subject.kernel.inputs.dims},
               {"counts", or_null(subject.kernel.inputs.data.counts)},
               {"legal_plans", subject.planned.lowered.plans.size()},
               {"best", nullptr},
               {"choice_of_model", nullptr},
               {"choice_over_best", nullptr},
               {"sm_clock_mhz", or_null(conditions.sm_clock_mhz)},
               {"watts", or_null(conditions.watts)},
               {"hot", conditions.hot()},
               {"plans", std::move(plans)}};
  if (tuned.any()) {
    const jit::TriedPlan& choice = tuned.choice_of_model();
    json["best"] = lowering::schedule_name(tuned.best().plan->schedule);
    json["choice_of_model"] = lowering::schedule_name(choice.plan->schedule);
    json["choice_over_best"] = choice.milliseconds / tuned.best().milliseconds;
  }
  return json;
}

std::string to_text(const Subject& subject, const jit::Tuned& tuned, const Gpu& gpu) {
  std::string text = fmt::format("{} for {} on {}", subject.kernel.name, gpu.target.name, gpu.device->info().name);
  if (const auto rows = expected_rows(subject.kernel)) text += fmt::format(", {} rows of each group", *rows);
  text += "\n";
  if (!tuned.any()) text += "  no plan is free of spills: there is nothing to choose\n";
  if (tuned.any()) text += fmt::format("  {:46} {:>9} {:>9} {:>8} {:>6}\n", "plan", "ms", "/ best", "spread", "model");
  size_t timed = 0;
  for (const jit::TriedPlan& tried : tuned.plans) {
    const std::string name = lowering::schedule_name(tried.plan->schedule);
    if (!tried.trial.refused.empty()) {
      text += fmt::format("  {:46} {}\n", name, tried.trial.refused);
      continue;
    }
    ++timed;
    text += fmt::format("  {:46} {:9.4f} {:9.3f} {:6.1f} % {:6}\n", name, tried.milliseconds,
                        tried.milliseconds / tuned.best().milliseconds, 100 * tried.trial.milliseconds.spread(),
                        tried.model_rank);
  }
  if (!tuned.any()) return text;
  const jit::TriedPlan& choice = tuned.choice_of_model();
  text += fmt::format("  timed {} of {} plans; the model's choice, {}, takes {:.3f} of the best\n", timed,
                      subject.planned.lowered.plans.size(), lowering::schedule_name(choice.plan->schedule),
                      choice.milliseconds / tuned.best().milliseconds);
  const jit::GpuConditions& conditions = tuned.conditions;
  if (conditions.sm_clock_mhz)
    text += fmt::format("  SM clock {:.0f} MHz, {:.0f} W: {}\n", *conditions.sm_clock_mhz, conditions.watts.value_or(0),
                        conditions.hot() ? "hot" : "not hot");
  return text;
}

Result<std::optional<Subject>> subject_of(const Program& program, SizedKernel kernel, const CommandLine& line,
                                          const Gpu& gpu, Diagnostics& diagnostics) {
  CompilerOptions options = kernel.compiler_options(line);
  options.target = gpu.target;
  options.all_plans = true;
  std::optional<PlannedKernel> planned = plan_kernel(program, kernel.name, options, diagnostics);
  if (!planned) return {std::nullopt};
  return {Subject{std::move(kernel), *std::move(planned)}};
}

Result<jit::Tuned> tune_on_gpu(const Subject& subject, const CommandLine& line, const Gpu& gpu, Surroundings& world) {
  // A plan that spills is no plan, and nothing to warn of.
  Surroundings quiet{world.settings, "", world.disk, nullptr};
  // A bundle answers each of the plans that are tried with the one that it has.
  quiet.settings.bundles.clear();
  const std::unique_ptr<jit::Engine> engine = make_engine(quiet, true);
  jit::InputOptions data = subject.kernel.inputs.data;
  data.repeat_after = repeat_after;
  Result<jit::DeviceProblem> problem =
      jit::DeviceProblem::make(subject.planned.graph, data, subject.kernel.params, gpu.device);
  if (!problem) return problem.error();
  Rounds rounds(*engine, gpu, subject, *problem, line);
  return jit::tune(subject.planned.lowered.plans,
                   [&](const auto& plans, bool last) { return rounds.run(plans, last); });
}

}  // namespace

Report tune(const CommandLine& line, Surroundings& world) {
  if (line.output.empty() && !line.report)
    return failure(ExitCode::usage, "the plans that are found need a file, -o FILE; --report only shows them");
  std::string file;
  if (!line.output.empty()) {
    const Result<std::string> checked = output_file(world.disk, line.output);
    if (!checked) return failure(checked.error());
    file = *checked;
  }
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics, line.output);
  if (!program) return failure(program.error());
  if (!file.empty())
    if (Status readable = check_readable(world.disk, file); !readable) return failure(readable.error());
  if (diagnostics.has_errors()) return failure(std::move(diagnostics));
  auto kernels = sized_kernels(*program, line, world, diagnostics);
  if (!kernels) return failure(kernels.error());
  if (!*kernels) return failure(std::move(diagnostics));
  for (const SizedKernel& kernel : **kernels)
    if (!plan_kernel(*program, kernel.name, kernel.compiler_options(line), diagnostics))
      return failure(std::move(diagnostics));
  const Result<Gpu> gpu = find_gpu();
  if (!gpu)
    return failure(ExitCode::machine, fmt::format("tune tries plans on a GPU and needs one: {}", gpu.error().message));

  Report report;
  Json list = Json::array();
  for (SizedKernel& kernel : **kernels) {
    const Result<std::optional<Subject>> subject = subject_of(*program, std::move(kernel), line, *gpu, diagnostics);
    if (!subject) return failure(subject.error());
    if (!*subject) return failure(std::move(diagnostics));
    const Result<jit::Tuned> tuned = tune_on_gpu(**subject, line, *gpu, world);
    if (!tuned) return failure(tuned.error());
    if (!file.empty() && tuned->any())
      if (Status stored = store(world.disk, file, entry_of(**subject, *tuned, *gpu)); !stored)
        return failure(stored.error());
    report.text += (report.text.empty() ? "" : "\n") + to_text(**subject, *tuned, *gpu);
    list.push_back(to_json(**subject, *tuned, *gpu));
  }
  if (!file.empty()) report.text += fmt::format("stored in {}\n", line.output);
  Json fields = {{"gpu", gpu->device->info().name}, {"kernels", std::move(list)}};
  if (!file.empty()) fields["output"] = line.output;
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace epifuse::tools
