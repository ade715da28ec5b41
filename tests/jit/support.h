// Engines for tests: a fake toolchain, any disk, and a small spec.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jit/engine.h"
#include "tests/support/catch.h"
#include "tests/support/fake_toolchain.h"
#include "tests/support/memory_file_system.h"

namespace epifuse::test {

// Small, and still with outputs of two kinds and several plans.
inline constexpr auto small_spec = R"(
kernel small {
  dim   E = 2, K = 64, N = 64
  group M by E
  param limit = 4
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  in  p : f32[M] = 1
  v     = min(gemm(x, w), limit) * p
  out y : bf16[M, N]  = v
  out q : mxfp8[M, N] = v
}
)";

inline Program program_of(const std::string& text, Diagnostics& diagnostics) {
  MemorySource no_files({});
  return load_program("small.epi", text, no_files, diagnostics);
}

struct LoggedLine {
  LogLevel level;
  std::string text;
};

// One process: an engine with a cache in `directory` of a disk that it may share with others.
class TestEngine {
 public:
  explicit TestEngine(FileSystem& disk, const std::string& directory = "/cache",
                      const std::function<void(jit::EngineOptions&)>& change = nullptr)
      : toolchain(std::make_shared<FakeToolchain>()) {
    jit::EngineOptions options;
    options.settings.cache_directory = directory;
    options.log = [this](LogLevel level, std::string_view text) {
      const std::lock_guard<std::mutex> guard(mutex_);
      lines_.push_back({level, std::string(text)});
    };
    if (change) change(options);
    engine_ = std::make_unique<jit::Engine>(std::move(options), toolchain, disk);
  }

  const std::shared_ptr<FakeToolchain> toolchain;
  jit::Engine& operator*() { return *engine_; }
  jit::Engine* operator->() { return engine_.get(); }

  // A compile that must go well.
  jit::CompiledKernelPtr compile(const std::string& text = small_spec, const CompilerOptions& options = {}) {
    Diagnostics diagnostics;
    const Program program = program_of(text, diagnostics);
    auto compiled = engine_->compile(program, "", options, diagnostics);
    INFO(diagnostics.print());
    INFO((compiled ? std::string() : compiled.error().message));
    REQUIRE(compiled);
    REQUIRE(*compiled);
    return **compiled;
  }
  // A compile that must fail, by its error and not by the spec.
  Error compile_error() {
    Diagnostics diagnostics;
    const Program program = program_of(small_spec, diagnostics);
    auto compiled = engine_->compile(program, "", {}, diagnostics);
    REQUIRE_FALSE(compiled);
    return compiled.error();
  }

  std::vector<std::string> lines(LogLevel level) const {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::string> texts;
    for (const LoggedLine& line : lines_)
      if (line.level == level) texts.push_back(line.text);
    return texts;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<LoggedLine> lines_;
  std::unique_ptr<jit::Engine> engine_;
};

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace epifuse::test
