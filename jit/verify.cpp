// Inputs, two runs on the GPU, the reference, and the judgement, with the time of each.
#include "jit/verify.h"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/interpreter.h"
#include "jit/device_call.h"
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
    if (Status judged = judge(*reference); !judged) return judged.error();
    report_.judge_seconds = watch.lap();
    report_.ok = report_.problems.empty();
    for (const Verdict& verdict : report_.outputs) report_.ok = report_.ok && verdict.ok;
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
    for (Buffers& stored : stored_) {
      Result<Buffers> outputs = interpreter::make_outputs(*problem);
      if (!outputs) return outputs.error();
      stored = *std::move(outputs);
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
    return {};
  }

  Status judge(const interpreter::Reference& reference) {
    for (const ir::Output& output : graph_.outputs) {
      if (output.left_out) continue;
      const std::string& name = output.tensor.name;
      std::optional<Verdict> worse;
      for (int i = 0; i < runs; ++i) {
        const interpreter::Before before{output.accumulate ? &before_ : nullptr, poisons[i]};
        Result<Verdict> verdict = interpreter::judge(reference, output, stored_[i], before);
        if (!verdict) return verdict.error();
        if (!worse || (worse->ok && !verdict->ok)) worse = *std::move(verdict);
      }
      report_.outputs.push_back(*std::move(worse));
      for (const std::string& buffer : {name, name + ".scale"}) {
        if (!stored_[0].contains(buffer)) continue;
        const int64_t unstable = unstable_bytes(stored_[0].at(buffer), stored_[1].at(buffer));
        if (unstable == 0) continue;
        report_.problems.push_back(
            fmt::format("two runs on the same inputs differ in {} bytes of '{}'", unstable, buffer));
      }
      // Nobody reads them any more, and the outputs of a large kernel do not fit into memory many times.
      for (Buffers& stored : stored_) {
        stored.erase(name);
        stored.erase(name + ".scale");
      }
    }
    return {};
  }

  Engine& engine_;
  const CompiledKernelPtr& kernel_;
  const ir::Graph& graph_;
  const VerifyOptions& options_;
  const runtime::DevicePtr& device_;
  Buffers inputs_, before_;
  Buffers stored_[runs];
  VerifyReport report_;
};

}  // namespace

std::string VerifyReport::print() const {
  std::string text;
  for (const auto& [name, counts] : group_counts) {
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    const bool many = counts.size() > 16;
    text += fmt::format("{}: {} rows in {} groups ({}{})\n", name, total, counts.size(),
                        fmt::join(counts.begin(), many ? counts.begin() + 16 : counts.end(), ", "), many ? ", …" : "");
  }
  for (const Verdict& verdict : outputs) text += verdict.print();
  for (const std::string& problem : problems) text += "WRONG: " + problem + "\n";
  text += fmt::format("{} (inputs {:.1f} s, GPU {:.1f} s, reference {:.1f} s, judgement {:.1f} s)\n",
                      ok ? "ok" : "WRONG", inputs_seconds, gpu_seconds, reference_seconds, judge_seconds);
  return text;
}

std::string VerifyReport::to_json() const {
  nlohmann::ordered_json json = {{"ok", ok}, {"problems", problems}};
  json["groups"] = nlohmann::ordered_json::object();
  for (const auto& [name, counts] : group_counts) json["groups"][name] = counts;
  json["outputs"] = nlohmann::ordered_json::array();
  for (const Verdict& verdict : outputs) json["outputs"].push_back(nlohmann::ordered_json::parse(verdict.to_json()));
  json["seconds"] = {
      {"inputs", inputs_seconds}, {"gpu", gpu_seconds}, {"reference", reference_seconds}, {"judgement", judge_seconds}};
  return json.dump(2);
}

Result<VerifyReport> verify(Engine& engine, const CompiledKernelPtr& kernel, const VerifyOptions& options,
                            const runtime::DevicePtr& device) {
  return Verification(engine, kernel, options, device).run();
}

}  // namespace epifuse::jit
