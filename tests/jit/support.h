// Engines for tests: on a disk in memory or a scratch directory, with a fake toolchain.
#pragma once

#include <memory>
#include <string>

#include "jit/engine.h"
#include "tests/support/catch.h"
#include "tests/support/fake_toolchain.h"
#include "tests/support/memory_file_system.h"

namespace epifuse::test {

// Small, and still with four outputs of three kinds.
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
  MemorySource nothing({});
  return load_program("small.epi", text, nothing, diagnostics);
}

// One engine and its toolchain. Several may share a disk.
struct TestEngine {
  explicit TestEngine(FileSystem& disk, EngineOptionsChange change = {}) {
    jit::EngineOptions options;
    options.settings.cache_directory = "/cache";
    options.log = [this](LogLevel level, std::string_view text) {
      const std::lock_guard<std::mutex> guard(mutex);
      lines.push_back({level, std::string(text)});
    };
    if (change) change(options);
    engine = std::make_unique<jit::Engine>(std::move(options), toolchain, disk);
  }
};

}  // namespace epifuse::test
