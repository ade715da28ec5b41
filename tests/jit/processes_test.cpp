// Real processes on one empty cache: each kernel is compiled once among them all, by their own counts.
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/jit/support.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr int processes = 8;

// Kernels k0, k1 and k2.
std::string spec(int i) {
  std::string text = small_spec;
  return text.replace(text.find("small"), 5, "k" + std::to_string(i));
}

struct Outcome {
  bool good = false;
  int toolchain_calls = 0;
};

// Runs `work` in so many new processes at once; each reports how often its engine called the toolchain.
template <class Work>
std::vector<Outcome> in_processes(const ScratchDirectory& scratch, Work work) {
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Outcome outcome = work(i);
      std::ofstream(scratch / ("report" + std::to_string(i))) << outcome.toolchain_calls;
      ::_exit(outcome.good ? 0 : 1);  // without the test framework's exit handlers
    }
    children.push_back(child);
  }
  std::vector<Outcome> outcomes;
  for (int i = 0; i < processes; ++i) {
    int status = 0;
    Outcome outcome;
    outcome.good = ::waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::ifstream(scratch / ("report" + std::to_string(i))) >> outcome.toolchain_calls;
    outcomes.push_back(outcome);
  }
  return outcomes;
}

bool compiles(jit::Engine& engine, const std::string& text) {
  Diagnostics diagnostics;
  const Program program = program_of(text, diagnostics);
  const auto compiled = engine.compile(program, "", {}, diagnostics);
  return compiled && *compiled;
}

}  // namespace

TEST_CASE("eight processes on an empty cache compile each plan once, and the next eight nothing") {
  const ScratchDirectory scratch;
  const auto run = [&](int process) -> Outcome {
    TestEngine engine(real_file_system(), scratch / "cache");
    engine.toolchain->takes = std::chrono::milliseconds(40);
    engine.toolchain->say = [](int, const toolchain::CompileRequest& request, toolchain::CompileOutcome& outcome) {
      outcome.spill_bytes = request.program_name == "k1" ? 8 : 0;  // every plan of it
      return Status();
    };
    bool good = true;
    for (int i = 0; i < 3; ++i) good = compiles(*engine, spec((i + process) % 3)) && good;  // not all in one order
    return {good, engine->toolchain_calls()};
  };
  Diagnostics diagnostics;
  const auto planned = plan_kernel(program_of(spec(1), diagnostics), "", {}, diagnostics);
  REQUIRE(planned);
  const int needed = 2 + static_cast<int>(planned->lowered.plans.size());
  for (const bool warm : {false, true}) {
    int calls = 0;
    for (const Outcome& outcome : in_processes(scratch, run)) {
      CHECK(outcome.good);
      calls += outcome.toolchain_calls;
    }
    CHECK(calls == (warm ? 0 : needed));
  }
}

TEST_CASE("eight processes with NVRTC compile once, and a warm one does not open it", "[nvrtc]") {
  const Result<Settings> settings = read_settings();
  REQUIRE(settings);
  if (const auto found = toolchain::NvrtcToolchain(real_file_system(), *settings).identity(); !found) {
    WARN("SKIP: " << found.error().message);
    return;
  }
  const ScratchDirectory scratch;
  bool warm = false;
  const auto run = [&](int) -> Outcome {
    jit::EngineOptions options;
    options.settings = *settings;
    options.settings.cache_directory = scratch / "cache";
    jit::Engine engine(options, std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), *settings),
                       real_file_system());
    const bool good = compiles(engine, small_spec);
    std::ifstream file("/proc/self/maps");
    const std::string maps((std::istreambuf_iterator<char>(file)), {});
    return {good && !(warm && maps.find("libnvrtc") != std::string::npos), engine.toolchain_calls()};
  };
  for (const int expected : {1, 0}) {
    int calls = 0;
    warm = expected == 0;
    for (const Outcome& outcome : in_processes(scratch, run)) {
      CHECK(outcome.good);
      calls += outcome.toolchain_calls;
    }
    CHECK(calls == expected);
  }
}
