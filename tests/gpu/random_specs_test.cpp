// Forty random specs (tests/support/random_spec.h), compiled and compared with the interpreter. A failure prints the
// seed and the spec.
#include <cstdio>

#include "jit/verify.h"
#include "tests/gpu/support/kernels.h"
#include "tests/support/random_spec.h"

using namespace epifuse;
using namespace epifuse::test;

TEST_CASE("random specs compile and are right") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomSpec spec = random_spec(seed);
    INFO(spec.describe());
    MemorySource no_files({});
    Diagnostics diagnostics;
    const Program program = load_program("spec.epi", spec.text, no_files, diagnostics);
    CompilerOptions options;
    options.left_out = spec.left_out;
    options.target = must(runtime::target_of(gpu().device->info()));
    // Half of them as planned, half under each of their schedules in turn.
    if (seed % 2 == 1) {
      const std::optional<PlannedKernel> planned = plan_kernel(program, "", options, diagnostics);
      INFO(diagnostics.print());
      REQUIRE(planned);
      const auto& plans = planned->lowered.plans;
      options.schedule = lowering::schedule_name(plans[seed / 2 % plans.size()].schedule);
    }
    INFO(options.schedule);
    const auto kernel = must(engine().compile(program, "", options, diagnostics));
    INFO(diagnostics.print());
    REQUIRE(kernel);
    jit::VerifyOptions verify_options;
    verify_options.inputs.counts = spec.counts;
    verify_options.inputs.sizes = spec.sizes;
    verify_options.inputs.slack_rows = spec.slack_rows;
    verify_options.inputs.seed = seed;
    const auto report = must(jit::verify(engine(), *kernel, verify_options, gpu().device));
    INFO(report.print());
    CHECK(report.ok);
    if (!report.ok) std::printf("%s%s\n", spec.describe().c_str(), report.print().c_str());
  }
}
