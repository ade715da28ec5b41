// Engines in many processes on one empty cache, some of them killed while they compile: whatever happens, the others
// end with the right kernels, each is compiled once but by who was killed, and nothing is left behind.
#include <map>
#include <random>
#include <thread>

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/cache/worker_processes.h"
#include "tests/jit/support.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;
using namespace std::chrono_literals;

namespace {

std::string name_of(int kernel) { return "k" + std::to_string(kernel); }

Program plain_kernel(int kernel) {
  Diagnostics diagnostics;
  return program_of("kernel " + name_of(kernel) + R"( {
  dim K = 64, N = 64
  dyn M
  in  x : bf16[M, K]
  in  w : bf16[N, K]
  out y : bf16[M, N] = gemm(x, w) * )" +
                        std::to_string(kernel + 2) + "\n}\n",
                    diagnostics);
}

// Tells every compile when it begins and when it ends.
class TellingToolchain : public FakeToolchain {
 public:
  explicit TellingToolchain(const EventLog& log) : log_(log) { takes = 4ms; }
  Result<toolchain::CompileOutcome> compile(const toolchain::CompileRequest& request) override {
    log_.add("start", request.program_name);
    Result<toolchain::CompileOutcome> outcome = FakeToolchain::compile(request);
    log_.add("made", request.program_name);
    return outcome;
  }

 private:
  const EventLog& log_;
};

jit::EngineOptions with_cache(const std::string& directory) {
  jit::EngineOptions options;
  options.settings.cache_directory = directory;
  return options;
}

jit::CompiledKernelPtr compile(jit::Engine& engine, const Program& program) {
  Diagnostics diagnostics;
  auto compiled = engine.compile(program, "", {}, diagnostics);
  return compiled && *compiled ? **compiled : nullptr;
}

// Only entries, and notes of where the toolchain was found. The number of entries.
int check_directory(const std::string& directory) {
  const Result<std::vector<std::string>> names = real_file_system().list(directory);
  REQUIRE(names);
  int entries = 0;
  for (const std::string& name : *names) {
    const cache::FileKind kind = cache::file_kind(name);
    CHECK((kind == cache::FileKind::entry || kind == cache::FileKind::note));
    entries += kind == cache::FileKind::entry;
  }
  return entries;
}

// Twenty processes with an engine each, and four threads that want all kernels in orders of their own.
struct Crowd {
  static constexpr int processes = 20, threads = 4, kernels = 30;

  Crowd() {
    MemoryFileSystem disk;
    jit::Engine engine({}, std::make_shared<FakeToolchain>(), disk);
    for (int kernel = 0; kernel < kernels; ++kernel) {
      programs.push_back(plain_kernel(kernel));
      const auto compiled = compile(engine, programs.back());
      REQUIRE(compiled);
      cubins.emplace_back(compiled->image.cubin.view());
    }
  }

  // Whether that kernel is to be had from the engine.
  bool is_right(jit::Engine& engine, int kernel) const {
    const auto compiled = compile(engine, programs[static_cast<size_t>(kernel)]);
    return compiled && compiled->image.cubin.view() == cubins[static_cast<size_t>(kernel)];
  }

  bool work(const std::string& directory, const EventLog& log, unsigned seed) const {
    jit::Engine engine(with_cache(directory), std::make_shared<TellingToolchain>(log), real_file_system());
    std::atomic<bool> right{true};
    std::vector<std::thread> all;
    for (unsigned thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        std::vector<int> order(kernels);
        for (int i = 0; i < kernels; ++i) order[static_cast<size_t>(i)] = i;
        std::shuffle(order.begin(), order.end(), std::mt19937(seed * threads + thread));
        for (const int kernel : order)
          if (!is_right(engine, kernel)) right = false;
      });
    }
    for (std::thread& thread : all) thread.join();
    log.add("calls", std::to_string(engine.toolchain_calls()));
    return right;
  }

  // Runs them, and kills so many; the number of compiles that a kill cut off.
  int run(unsigned seed, int kills) const {
    const ScratchDirectory scratch;
    const EventLog log(scratch / "log");
    const std::string directory = scratch / "cache";
    std::vector<pid_t> children;
    for (unsigned i = 0; i < processes; ++i)
      children.push_back(start_process([&] { return work(directory, log, seed * processes + i); }));
    std::set<pid_t> killed = kill_some(children, log, seed, kills);
    for (const pid_t child : children) {
      const bool good = succeeded(child);
      if (good) killed.erase(child);  // the kill came too late
      CHECK((good || killed.contains(child)));
    }
    const int cut_off = check_events(log, killed);

    jit::Engine engine(with_cache(directory), std::make_shared<TellingToolchain>(log), real_file_system());
    for (int kernel = 0; kernel < kernels; ++kernel) CHECK(is_right(engine, kernel));
    CHECK(engine.toolchain_calls() == 0);
    REQUIRE(engine.cache().prune(0, false));
    CHECK(check_directory(directory) == kernels);
    return cut_off;
  }

  // After some number of compiles has begun, and up to five milliseconds: by turns any process, and the one that has
  // begun last, which by then has ended its compile or not.
  static std::set<pid_t> kill_some(const std::vector<pid_t>& children, const EventLog& log, unsigned seed, int kills) {
    std::mt19937 random(seed);
    std::vector<size_t> moments;
    for (int kill = 0; kill < kills; ++kill) moments.push_back(random() % (kernels - 5));
    std::sort(moments.begin(), moments.end());
    std::set<pid_t> killed;
    for (size_t kill = 0; kill < moments.size(); ++kill) {
      std::vector<pid_t> begun;
      for (const auto deadline = std::chrono::steady_clock::now() + 60s; begun.size() <= moments[kill];) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        std::this_thread::sleep_for(200us);
        begun.clear();
        for (const EventLog::Event& event : log.events())
          if (event.what == "start") begun.push_back(event.process);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      const pid_t victim = kill % 2 ? begun.back() : children[random() % children.size()];
      ::kill(victim, SIGKILL);
      killed.insert(victim);
    }
    return killed;
  }

  // What the processes say they did: each kernel is compiled once, but by those that were killed, and by one at a time.
  static int check_events(const EventLog& log, const std::set<pid_t>& killed) {
    const Makes makes = makes_in(log, killed);
    CHECK(makes.one_at_a_time);
    CHECK(makes.all_ended);  // what was cut off was made by another
    std::map<pid_t, int> begun, reported;
    for (const EventLog::Event& event : log.events()) {
      if (event.what == "start") ++begun[event.process];
      if (event.what == "calls") reported[event.process] = std::stoi(event.key);
    }
    for (const auto& [process, calls] : reported) CHECK(calls == begun[process]);
    CHECK(reported.size() >= processes - killed.size());
    for (int kernel = 0; kernel < kernels; ++kernel) {
      const int by_the_living = log.count("start", name_of(kernel), killed);
      const bool by_the_killed = log.count("made", name_of(kernel)) > log.count("made", name_of(kernel), killed);
      CHECK((by_the_living == 1 || (by_the_living == 0 && by_the_killed)));
    }
    return makes.cut_off;
  }

  std::vector<Program> programs;
  std::vector<std::string> cubins;  // of each
};

std::shared_ptr<toolchain::Toolchain> nvrtc(const Settings& settings) {
  return std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), settings);
}

Settings must_read_settings() {
  const Result<Settings> settings = read_settings();
  REQUIRE(settings);
  return *settings;
}

}  // namespace

TEST_CASE("B107 engines in twenty processes of four threads compile each of thirty kernels once") {
  CHECK(Crowd().run(0, 0) == 0);
}

TEST_CASE("B111 engines that are killed while they compile stop nobody and leave nothing") {
  const Crowd crowd;
  int cut_off = 0;
  for (unsigned repeat = 1; repeat <= 5; ++repeat) {
    CAPTURE(repeat);
    cut_off += crowd.run(repeat, 8);
  }
  CHECK(cut_off > 0);
}

TEST_CASE("the same fifty times", "[.][long]") {
  const Crowd crowd;
  int cut_off = 0;
  for (unsigned repeat = 1; repeat <= 50; ++repeat) {
    CAPTURE(repeat);
    cut_off += crowd.run(1000 + repeat, 8);
  }
  WARN(cut_off << " compiles were cut off by a kill");
  CHECK(cut_off > 0);
}

TEST_CASE("processes killed while NVRTC compiles stop nobody and leave nothing", "[nvrtc]") {
  constexpr int processes = 8, kernels = 3;
  const Settings settings = must_read_settings();
  if (const auto found = nvrtc(settings)->identity(); !found) {
    WARN("SKIP: " << found.error().message);
    return;
  }
  std::mt19937 random(4711);
  int killed = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const ScratchDirectory scratch;
    jit::EngineOptions options;
    options.settings = settings;
    options.settings.cache_directory = scratch / "cache";
    const auto all_compile = [&](jit::Engine& engine, int first) {
      bool good = true;
      for (int i = 0; i < kernels; ++i) good = compile(engine, plain_kernel((i + first) % kernels)) && good;
      return good;
    };
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process)
      children.push_back(start_process([&] {
        jit::Engine engine(options, nvrtc(settings), real_file_system());
        return all_compile(engine, process);
      }));
    for (size_t kill = 0; kill < 3; ++kill) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 600));
      ::kill(children[kill], SIGKILL);
    }
    for (size_t process = 0; process < children.size(); ++process) {
      const bool good = succeeded(children[process]);
      CHECK((good || process < 3));
      killed += !good;
    }
    jit::Engine engine(options, nvrtc(settings), real_file_system());
    CHECK(all_compile(engine, 0));
    CHECK(engine.toolchain_calls() == 0);
    REQUIRE(engine.cache().prune(0, false));
    CHECK(check_directory(scratch / "cache") == kernels);
  }
  CHECK(killed > 0);
}

// On a quiet machine with two cores: the least of some times is what the work takes.
TEST_CASE("two kernels on two cores take less than one and a half times as long as one", "[.][long]") {
  const Settings settings = must_read_settings();
  REQUIRE(nvrtc(settings)->identity());
  // Seconds until so many kernels are compiled on an empty cache, each by a process of its own.
  const auto seconds = [&](int kernels) {
    double least = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const ScratchDirectory scratch;
      jit::EngineOptions options;
      options.settings = settings;
      options.settings.cache_directory = scratch / "cache";
      const auto begin = std::chrono::steady_clock::now();
      std::vector<pid_t> children;
      for (int kernel = 0; kernel < kernels; ++kernel)
        children.push_back(start_process([&] {
          jit::Engine engine(options, nvrtc(settings), real_file_system());
          return compile(engine, plain_kernel(kernel)) && engine.toolchain_calls() == 1;
        }));
      for (const pid_t child : children) CHECK(succeeded(child));
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return least;
  };
  const double one = seconds(1), two = seconds(2);
  WARN("one kernel " << one << " s, two at once " << two << " s: " << two / one << " times as long");
  CHECK(two < 1.5 * one);
}
