// Inputs, the runs on the GPU, the reference, and the judgement, with the time of each.
#include "jit/verify.h"

#include <chrono>
#include <fmt/format.h>

#include "compiler/interpreter/interpreter.h"
#include "jit/device_call.h"
#include "jit/first_wrong_stage.h"
#include "jit/reference_gemm.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;
using interpreter::Verdict;

constexpr uint8_t poisons[] = {0xFF, 0xAA};
constexpr int runs = std::size(poisons);

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Bytes that the two runs left different, but for those that neither of them wrote.
int64_t unstable_bytes(const HostTensor& first, const HostTensor& second) {
  int64_t count = 0;
  for (size_t i = 0; i < first.bytes.size(); ++i) {
    const uint8_t a = first.bytes[i], b = second.bytes[i];
    count += a != b && !(a == poisons[0] && b == poisons[1]);
  }
  return count;
}

class Verification {
 public:
  Verification(Engine& engine, const CompiledKernelPtr& kernel, const VerifyOptions& options,
               const runtime::DevicePtr& device)
      : engine_(engine), kernel_(kernel), graph_(kernel->planned.graph), options_(options), device_(device) {}

  Result<VerifyReport> run() {
    Stopwatch watch;
    if (Status made = make_data(); !made) return made.error();
    report_.inputs_seconds = watch.lap();
    if (Status launched = run_on_device(); !launched) return launched.error();
    report_.gpu_seconds = watch.lap();
    const std::unique_ptr<interpreter::GemmProvider> gemm =
        gpu_gemm(engine_, device_, options_.gpu_gemm_from, options_.inputs.threads);
    const Result<interpreter::Reference> reference =
        interpreter::Reference::make(graph_, inputs_, options_.params, *gemm, options_.inputs.threads);
    if (!reference) return reference.error();
    report_.reference_seconds = watch.lap();
    if (Status judged = judge_quantisers(); !judged) return judged.error();
    if (Status judged = judge(*reference); !judged) return judged.error();
    bool unfused_ok = true;
    for (const Verdict& verdict : report_.unfused) unfused_ok = unfused_ok && verdict.ok;
    if (!unfused_ok) find_wrong_stage(*gemm);
    report_.judge_seconds = watch.lap();
    report_.ok = report_.problems.empty() && unfused_ok;
    for (const Verdict& verdict : report_.outputs) report_.ok = report_.ok && verdict.ok;
    for (const Requantised& again : report_.requantised) report_.ok = report_.ok && again.ok();
    return std::move(report_);
  }

 private:
  Status make_data() {
    Result<Buffers> inputs = make_inputs(graph_, options_.inputs);
    if (!inputs) return inputs.error();
    inputs_ = *std::move(inputs);
    const Result<interpreter::Problem> problem = interpreter::Problem::bind(graph_, inputs_, options_.params);
    if (!problem) return problem.error();
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      if (graph_.dims[i].kind != ir::DimKind::grouped) continue;
      const interpreter::Groups& groups = *problem->groups(static_cast<ir::DimId>(i));
      std::vector<int64_t> counts;
      for (size_t e = 0; e < groups.start.size(); ++e) counts.push_back(groups.count(e));
      report_.group_counts.emplace_back(graph_.dims[i].name, std::move(counts));
    }
    for (Buffers* stored : {&stored_[0], &stored_[1], &unfused_}) {
      if (stored == &unfused_ && !options_.unfused) continue;
      Result<Buffers> outputs = interpreter::make_outputs(*problem);
      if (!outputs) return outputs.error();
      *stored = *std::move(outputs);
    }
    // What `+=` adds to: whole numbers, in f32 and every shorter type.
    for (const ir::Output& output : graph_.outputs) {
      if (!output.accumulate || output.left_out) continue;
      HostTensor& before = before_[output.tensor.name] = stored_[0].at(output.tensor.name);
      for (int64_t i = 0; i < before.elements(); ++i) interpreter::store_one(before, i, static_cast<double>(i % 7 - 3));
    }
    return {};
  }

  Status run_on_device() {
    const Result<LoadedKernel> loaded = engine_.load(kernel_, device_);
    if (!loaded) return loaded.error();
    Result<DeviceCall> call = DeviceCall::make(*loaded, inputs_, stored_[0], options_.params);
    if (!call) return call.error();
    for (int i = 0; i < runs; ++i) {
      if (Status filled = call->fill_outputs(poisons[i], before_); !filled) return filled;
      if (Status launched = call->launch(options_.sm_margin); !launched) return launched;
      if (Status copied = call->download(stored_[i]); !copied) return copied;
    }
    Result<std::vector<std::string>> misplaced = call->misplaced_writes(inputs_);
    if (!misplaced) return misplaced.error();
    report_.problems = *std::move(misplaced);
    return options_.unfused ? run_unfused() : Status();
  }

  Status run_unfused() {
    report_.unfused_stages = options_.unfused->stages.size();
    const Result<LaunchSequence> loaded = load_unfused(engine_, options_.unfused, device_);
    if (!loaded) return loaded.error();
    Result<DeviceCall> call = DeviceCall::make(*loaded, inputs_, unfused_, options_.params);
    if (!call) return call.error();
    if (Status filled = call->fill_outputs(poisons[0], before_); !filled) return filled;
    if (Status launched = call->launch(options_.sm_margin); !launched) return launched;
    if (Status copied = call->download(unfused_); !copied) return copied;
    const Result<std::vector<std::string>> misplaced = call->misplaced_writes(inputs_);
    if (!misplaced) return misplaced.error();
    for (const std::string& problem : *misplaced) report_.problems.push_back("the unfused kernels: " + problem);
    return {};
  }

  Status judge_quantisers() {
    Result<std::vector<Requantised>> list =
        requantise(graph_, inputs_, stored_[0], poisons[0], options_.inputs.threads);
    if (!list) return list.error();
    report_.requantised = *std::move(list);
    return {};
  }

  void find_wrong_stage(interpreter::GemmProvider& gemm) {
    Result<std::optional<Verdict>> wrong = first_wrong_stage(engine_, options_.unfused, inputs_, before_,
                                                             options_.params, gemm, options_.inputs.threads, device_);
    // What was found wrong stays found, whether or not there is room to look closer.
    if (!wrong)
      report_.problems.push_back("the unfused stages could not be looked at one by one: " + wrong.error().message);
    else
      report_.first_wrong_stage = *std::move(wrong);
  }

  Status judge(const interpreter::Reference& reference) {
    for (const ir::Output& output : graph_.outputs) {
      if (output.left_out) continue;
      const std::string& name = output.tensor.name;
      std::vector<interpreter::Run> judged;
      for (int i = 0; i < runs; ++i) judged.push_back({&stored_[i], before_of(output, poisons[i])});
      if (options_.unfused) judged.push_back({&unfused_, before_of(output, poisons[0])});
      Result<std::vector<Verdict>> verdicts = interpreter::judge_runs(reference, output, judged);
      if (!verdicts) return verdicts.error();
      const bool second_is_worse = (*verdicts)[0].ok && !(*verdicts)[1].ok;
      report_.outputs.push_back(std::move((*verdicts)[second_is_worse]));
      if (options_.unfused) {
        report_.unfused.push_back(std::move((*verdicts)[runs]));
        Result<StoredDifference> difference =
            stored_difference(graph_, inputs_, options_.params, output, stored_[0], unfused_, options_.inputs.threads);
        if (!difference) return difference.error();
        report_.differences.push_back(*std::move(difference));
      }
      for (const std::string& buffer : {name, name + ".scale"}) {
        if (!stored_[0].contains(buffer)) continue;
        const int64_t unstable = unstable_bytes(stored_[0].at(buffer), stored_[1].at(buffer));
        if (unstable == 0) continue;
        report_.problems.push_back(
            fmt::format("two runs on the same inputs differ in {} bytes of '{}'", unstable, buffer));
      }
      // Nobody reads them any more, and the outputs of a large kernel do not fit into memory many times.
      for (Buffers* stored : {&stored_[0], &stored_[1], &unfused_}) {
        stored->erase(name);
        stored->erase(name + ".scale");
      }
    }
    return {};
  }

  interpreter::Before before_of(const ir::Output& output, uint8_t poison) const {
    return {output.accumulate ? &before_ : nullptr, poison};
  }

  Engine& engine_;
  const CompiledKernelPtr& kernel_;
  const ir::Graph& graph_;
  const VerifyOptions& options_;
  const runtime::DevicePtr& device_;
  Buffers inputs_, before_;
  Buffers stored_[runs], unfused_;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> verify(Engine& engine, const CompiledKernelPtr& kernel, const VerifyOptions& options,
                            const runtime::DevicePtr& device) {
  return Verification(engine, kernel, options, device).run();
}

}  // namespace epifuse::jit
