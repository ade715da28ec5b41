// The real NVRTC, where there is one.
#include <chrono>
#include <cstdio>
#include <elf.h>
#include <filesystem>
#include <thread>

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::toolchain;

namespace {

Settings settings() { return *read_settings(); }

// One for all tests, because what is loaded once stays loaded; null where this machine has no NVRTC.
NvrtcToolchain* nvrtc() {
  static NvrtcToolchain toolchain(real_file_system(), settings());
  static const bool found = [] {
    const Result<NvrtcLocation> location = toolchain.location();
    if (location) {
      std::printf("NVRTC %s, %s (%s)\n", location->version.text().c_str(), location->library.c_str(),
                  location->place.c_str());
    } else {
      std::printf("skipped: %s\n", location.error().message.c_str());
    }
    return static_cast<bool>(location);
  }();
  return found ? &toolchain : nullptr;
}

// Built-in math and types without any header, an unnamed namespace (its names are random without a seed), and a header.
const CompileRequest small{"small",
                           R"(#include "half.cuh"
namespace { __device__ __noinline__ float hidden(float x) { return expf(x) + tanhf(x) + erff(x) + rsqrtf(x); } }
extern "C" __global__ void __launch_bounds__(128) small_kernel(float* p, uint4* q) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  p[i] = half_of(hidden(p[i])) + __shfl_xor_sync(~0u, p[i], 1);
  q[i] = make_uint4(__float_as_uint(p[i]), min(i, 3), __popc(i), 4);
})",
                           {{"half.cuh", "#pragma once\n__device__ inline float half_of(float x) { return x / 2; }\n"}},
                           "sm_90a",
                           {}};

}  // namespace

TEST_CASE("a small kernel compiles to sm_90a in well under a second, and twice to the same bytes") {
  if (!nvrtc()) return;
  const Result<CompileOutcome> first = nvrtc()->compile(small);
  if (!first) FAIL(first.error().message);
  REQUIRE(first->cubin.size() > sizeof(Elf64_Ehdr));
  CHECK(first->cubin.substr(0, 4) == std::string(ELFMAG, SELFMAG));
  CHECK(first->ptx.find(".target sm_90a") != std::string::npos);
  CHECK(first->ptx.find("small_kernel") != std::string::npos);
  CHECK(first->ptx.back() != '\0');
  REQUIRE(first->entries.size() == 1);
  CHECK(first->entries[0].name == "small_kernel");
  CHECK(first->registers > 0);
  CHECK(first->registers <= 255);
  CHECK(first->spill_bytes == 0);
  CHECK(!first->wgmma_serialized);
  CHECK(first->notes.empty());
  CHECK(first->milliseconds > 0);
  CHECK(first->milliseconds < 5000);

  const Result<CompileOutcome> second = nvrtc()->compile(small);
  REQUIRE(second);
  CHECK(second->cubin == first->cubin);
  CHECK(second->ptx == first->ptx);
}

TEST_CASE("a compile says what its phases took") {
  if (!nvrtc()) return;
  const Result<CompileOutcome> outcome = nvrtc()->compile(small);
  REQUIRE(outcome);
  const PhaseTimes& phases = outcome->phases;
  if (nvrtc()->location()->version < NvrtcVersion{13, 0}) return;
  CHECK(phases.cuda + phases.nvvm + phases.ptxas > 0);
  CHECK(phases.cuda + phases.nvvm + phases.ptxas <= outcome->milliseconds + 3);  // each is rounded
}

TEST_CASE("threads compile at once to the same bytes") {
  if (!nvrtc()) return;
  std::vector<std::string> cubins(4);
  std::vector<std::thread> threads;
  for (std::string& cubin : cubins) {
    threads.emplace_back([&cubin] {
      if (const Result<CompileOutcome> outcome = nvrtc()->compile(small)) cubin = outcome->cubin;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!cubins[0].empty());
  for (const std::string& cubin : cubins) CHECK(cubin == cubins[0]);
}

TEST_CASE("a text that the compiler refuses gives its log, with the place") {
  if (!nvrtc()) return;
  CompileRequest bad = small;
  bad.program_name = "bad";
  bad.source = "extern \"C\" __global__ void k(float* p) {\n  *p = unknown_name;\n}\n";
  const Result<CompileOutcome> outcome = nvrtc()->compile(bad);
  REQUIRE(!outcome);
  CHECK(outcome.error().kind == ErrorKind::user);
  CHECK(outcome.error().message.find("bad.cu(2)") != std::string::npos);
  CHECK(outcome.error().message.find("unknown_name") != std::string::npos);
}

TEST_CASE("nothing is included from the disk") {
  if (!nvrtc()) return;
  const test::ScratchDirectory scratch;
  REQUIRE(real_file_system().write_atomically(scratch / "planted.cuh", ""));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  CompileRequest request = small;
  request.source = "#include \"planted.cuh\"\n";
  const Result<CompileOutcome> outcome = nvrtc()->compile(request);
  std::filesystem::current_path(before);
  REQUIRE(!outcome);
  CHECK(outcome.error().message.find("cannot open source file") != std::string::npos);
}

TEST_CASE("an unknown target and an unknown flag are the machine's, with path and version") {
  if (!nvrtc()) return;
  const NvrtcLocation location = *nvrtc()->location();
  CompileRequest target = small, flag = small;
  target.arch = "sm_1";
  flag.flags = {"--no-such-flag"};
  for (const CompileRequest& request : {target, flag}) {
    const Result<CompileOutcome> outcome = nvrtc()->compile(request);
    REQUIRE(!outcome);
    CHECK(outcome.error().kind == ErrorKind::environment);
    CHECK(outcome.error().message.find(location.library) != std::string::npos);
    CHECK(outcome.error().message.find(location.version.text()) != std::string::npos);
  }
  CHECK(nvrtc()->compile(flag).error().message.find("--no-such-flag") != std::string::npos);
}

TEST_CASE("a kernel that spills is seen to spill") {
  if (!nvrtc()) return;
  CompileRequest request = small;
  request.headers.clear();
  request.source = R"(extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = in[i * 1024 + threadIdx.x];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 7) % 64] + v[(i + 31) % 64];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = v[i];
})";
  const Result<CompileOutcome> outcome = nvrtc()->compile(request);
  if (!outcome) FAIL(outcome.error().message);
  CHECK(outcome->spill_bytes > 0);
  CHECK(outcome->entries.at(0).registers <= 32);
  REQUIRE(outcome->notes.size() == 1);
  CHECK(outcome->notes[0].find("'spilling' spills") != std::string::npos);
}

TEST_CASE("serialised wgmma and an ignored setmaxnreg are seen") {
  if (!nvrtc()) return;
  CompileRequest request = small;
  request.headers.clear();
  request.source = R"(extern "C" __global__ void waiting(float* p, unsigned long long a, unsigned long long b, int n) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) {
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile(
        "{ .reg .pred q; setp.ne.b32 q, 1, 0;"
        " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, q, 1, 1, 0, 0; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b));
    d[0] += 1.f;  // reads an accumulator in flight
    asm volatile("wgmma.commit_group.sync.aligned;");
  }
  p[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
})";
  const Result<CompileOutcome> outcome = nvrtc()->compile(request);
  if (!outcome) FAIL(outcome.error().message);
  CHECK(outcome->wgmma_serialized);
  CHECK(outcome->entries.at(0).wgmma_serialized);
  bool setmaxnreg_seen = false;
  for (const std::string& note : outcome->notes) setmaxnreg_seen |= note.starts_with("setmaxnreg has no effect");
  CHECK(setmaxnreg_seen);
}

TEST_CASE("every template compiles on its own") {
  if (!nvrtc()) return;
  for (const Header& header : embedded_templates()) {
    CompileRequest request{"template", "#include \"" + std::string(header.path) + "\"\n", {}, "sm_90a", {}};
    request.headers = headers_included_by(request.source);
    const Result<CompileOutcome> outcome = nvrtc()->compile(request);
    INFO(header.path);
    if (!outcome) FAIL(outcome.error().message);
  }
}

TEST_CASE("the identity is told from a few reads, without loading the library") {
  if (!nvrtc()) return;
  test::FaultyFileSystem disk(real_file_system());
  NvrtcToolchain fresh(disk, settings());
  const auto start = std::chrono::steady_clock::now();
  const Result<std::string> identity = fresh.identity();
  const auto took = std::chrono::steady_clock::now() - start;
  REQUIRE(identity);
  CHECK(*identity == *nvrtc()->identity());
  CHECK(identity->starts_with("nvrtc " + nvrtc()->location()->version.text()));
  // Without build ids, as in 12.8, the files are read whole.
  const int reads = disk.counts.reads;
  if (identity->find("xxh3-") == std::string::npos) {
    CHECK(took < std::chrono::milliseconds(50));
    CHECK(reads <= 5);  // start and last byte of two files, and perhaps the loader's cache
  }
  CHECK(*fresh.identity() == *identity);
  CHECK(disk.counts.reads == reads);  // looked for once
}

TEST_CASE("a variable that changes NVRTC's code is noted") {
  if (!nvrtc()) return;
  Settings with = settings();
  with.toolchain_environment = {"NVRTC_APPEND_FLAGS=-G"};
  NvrtcToolchain toolchain(real_file_system(), with);
  const Result<CompileOutcome> outcome = toolchain.compile(small);
  REQUIRE(outcome);
  REQUIRE(outcome->notes.size() == 1);
  CHECK(outcome->notes[0].find("NVRTC_APPEND_FLAGS=-G") != std::string::npos);
}
