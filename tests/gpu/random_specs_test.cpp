// Random specs (tests/support/random_spec.h), compiled, run and compared with the interpreter, several at a time. What
// fails is shrunk to a small spec and printed. --seeds says how many, --first-seed from which seed on
// (support/options.h).
#include <algorithm>
#include <cstdio>
#include <exception>

#include "compiler/interpreter/parallel.h"
#include "jit/verify.h"
#include "tests/gpu/support/kernels.h"
#include "tests/gpu/support/options.h"
#include "tests/support/random_inputs.h"
#include "tests/support/refusals.h"
#include "tests/support/shrink_spec.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The unfused path compiles a kernel for every operation: every so many specs are compared with it too.
constexpr uint64_t unfused_every = 25;
// Failures that are shrunk, and runs for each.
constexpr size_t most_shrunk = 3;
constexpr int most_tries = 60;

struct Outcome {
  enum class Kind { right, refused, wrong } kind = Kind::right;
  std::string what;  // why it was refused, or what is wrong
};

// Every diagnostic is the refusal of something that the language has.
bool is_refusal(const Diagnostics& diagnostics) {
  const std::vector<Diagnostic>& all = diagnostics.all();
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const Diagnostic& one) {
    return one.message.find("not lowered yet") != std::string::npos;
  });
}

Outcome wrong(std::string what) { return {Outcome::Kind::wrong, std::move(what)}; }

// Called on any thread: no assertions.
Outcome outcome_of(const RandomSpec& spec, const Target& target, std::string_view schedule) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", spec.text, no_files, diagnostics);
  CompilerOptions options;
  options.left_out = spec.left_out;
  options.target = target;
  options.schedule = schedule;
  const auto kernel = engine().compile(program, "", options, diagnostics);
  if (!kernel) return wrong(kernel.error().message);
  if (!*kernel) {
    if (!is_refusal(diagnostics)) return wrong(diagnostics.print());
    return {Outcome::Kind::refused, diagnostics.all().front().message};
  }
  jit::VerifyOptions verify_options;
  verify_options.inputs = input_options(spec);
  verify_options.inputs.threads = 1;  // specs run side by side
  if (spec.seed % unfused_every == 0) {
    options.schedule.clear();
    const auto unfused = jit::compile_unfused(engine(), program, "", options, diagnostics, 1);
    if (!unfused) return wrong(unfused.error().message);
    if (!*unfused && !is_refusal(diagnostics)) return wrong(diagnostics.print());
    if (*unfused) verify_options.unfused = **unfused;
  }
  const auto report = jit::verify(engine(), **kernel, verify_options, gpu().device);
  // The interpreter, which judges, refuses by name too.
  if (!report && report.error().message.ends_with(" yet")) return {Outcome::Kind::refused, report.error().message};
  if (!report) return wrong(report.error().message);
  return report->ok ? Outcome{} : wrong(report->print());
}

// Half of the specs run as planned, half under one of their schedules, in turn.
std::string schedule_for(const RandomSpec& spec, const Target& target) {
  if (spec.seed % 2 == 0) return "";
  MemorySource no_files({});
  Diagnostics diagnostics;
  CompilerOptions options;
  options.left_out = spec.left_out;
  options.target = target;
  options.all_plans = true;
  const Program program = load_program("spec.epi", spec.text, no_files, diagnostics);
  const std::optional<PlannedKernel> planned = plan_kernel(program, "", options, diagnostics);
  if (!planned || planned->lowered.plans.size() < 2) return "";
  const auto& plans = planned->lowered.plans;
  return lowering::schedule_name(plans[spec.seed / 2 * 31 % plans.size()].schedule);
}

// What an internal error says is what is wrong with a spec, and must not end the others.
Outcome try_spec(const RandomSpec& spec, const Target& target, std::string_view schedule) {
  try {
    return outcome_of(spec, target, schedule);
  } catch (const std::exception& error) {
    return wrong(error.what());
  }
}

}  // namespace

TEST_CASE("random specs compile and are right") {
  const auto [first, seeds] = random_spec_options();
  const Target target = gpu_target();
  engine();  // made here: it asserts
  std::vector<Outcome> outcomes(seeds);
  std::vector<std::string> schedules(seeds);
  interpreter::parallel_for(static_cast<int64_t>(seeds), 0, [&](int64_t i) {
    const RandomSpec spec = random_spec(first + static_cast<uint64_t>(i));
    schedules[static_cast<size_t>(i)] = schedule_for(spec, target);
    outcomes[static_cast<size_t>(i)] = try_spec(spec, target, schedules[static_cast<size_t>(i)]);
  });

  Refusals refusals;
  size_t shrunk = 0;
  for (size_t i = 0; i < seeds; ++i) {
    if (outcomes[i].kind == Outcome::Kind::refused) refusals.add(outcomes[i].what);
    if (outcomes[i].kind != Outcome::Kind::wrong) continue;
    const RandomSpec spec = random_spec(first + i);
    std::string report = spec.describe() + schedules[i] + "\n" + outcomes[i].what;
    if (shrunk++ < most_shrunk) {
      const auto fails = [&](const RandomSpec& smaller) {
        return try_spec(smaller, target, schedule_for(smaller, target)).kind == Outcome::Kind::wrong;
      };
      const RandomSpec small = shrink(spec, fails, most_tries);
      report += "\nshrunk to:\n" + small.describe() + try_spec(small, target, schedule_for(small, target)).what;
    }
    std::printf("%s\n", report.c_str());
    INFO(report);
    CHECK(outcomes[i].kind != Outcome::Kind::wrong);
  }
  refusals.print(seeds);
}
