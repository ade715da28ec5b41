// One kernel on the GPU of this machine, timed in its fused and its unfused form.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/work.h"
#include "jit/host_cost.h"
#include "jit/measure.h"
#include "jit/unfused.h"
#include "tools/find_gpu.h"
#include "tools/sized_kernels.h"

namespace epifuse::tools {

// What of a command line is the same for all kernels.
struct BenchSetting {
  Gpu gpu;
  jit::MeasureOptions measure;
  double full_clock_mhz = 0;  // the most that the card runs at
  const CommandLine* line = nullptr;
};

struct FormTimes {
  std::string form;                   // "fused", "unfused"
  jit::Distribution hot, full_clock;  // ms of one launch; full_clock.count is 0 where that was not measured
};

struct KernelBench {
  std::string file;
  SizedKernel kernel;
  std::vector<std::pair<std::string, int64_t>> dims;
  ir::Work work;
  jit::CompiledKernelPtr compiled;
  jit::CompiledUnfusedPtr unfused;  // null: was not timed
  std::string unfused_problem;      // why; empty when it was not asked for
  std::vector<FormTimes> forms;
  jit::GpuConditions hot, full_clock;  // while the forms were timed
  double hot_clock_mhz = 0;            // of the floor: the clock that was measured, or the usual one
  ir::Floor hot_floor, full_clock_floor;
  std::optional<jit::HostCost> host;  // instead of the forms
};

// An empty optional: the diagnostics say why. Whatever form is timed runs by replay of a graph.
Result<std::optional<KernelBench>> bench_kernel(jit::Engine& engine, const Program& program, SizedKernel kernel,
                                                const BenchSetting& setting, Diagnostics& diagnostics);

}  // namespace epifuse::tools
