// bench: kernels of specs on this machine's GPU, fused against unfused, or what launching them costs the host; and two
// such runs against each other.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "runtime/gpu_sensors.h"
#include "tools/bench_compare.h"
#include "tools/bench_report.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/find_gpu.h"
#include "tools/kernel_bench.h"
#include "tools/output_file.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

// A spec with those of its kernels that are asked for.
struct SizedFile {
  std::string path;
  Program program;
  std::vector<SizedKernel> kernels;
};

// Everything that can be wrong with the specs and sizes is found before the GPU is asked for. An empty optional: the
// diagnostics say why.
Result<std::optional<std::vector<SizedFile>>> read_files(const CommandLine& line, Surroundings& world,
                                                         Diagnostics& diagnostics) {
  std::vector<SizedFile> files;
  for (const std::string& path : line.specs) {
    Result<Program> program = read_spec(path, world.disk, diagnostics, line.output);
    if (!program) return program.error();
    if (diagnostics.has_errors()) return {std::nullopt};
    auto kernels = sized_kernels(*program, line, world, diagnostics);
    if (!kernels) return kernels.error();
    if (!*kernels) return {std::nullopt};
    for (const SizedKernel& kernel : **kernels)
      if (!plan_kernel(*program, kernel.name, kernel.compiler_options(line), diagnostics)) return {std::nullopt};
    files.push_back({path, *std::move(program), **std::move(kernels)});
  }
  return {std::move(files)};
}

BenchEnvironment look_around(const Gpu& gpu, Surroundings& world, BenchSetting& setting) {
  BenchEnvironment found;
  found.gpu = gpu.device->info();
  found.max_clock_mhz = figures_of(gpu.target).full_clock_mhz;
  if (const Result<int> cuda = runtime::driver_version(gpu.device->driver())) found.cuda_version = *cuda;
  if (const auto nvrtc = toolchain::NvrtcToolchain(world.disk, world.settings).location())
    found.nvrtc = nvrtc->version.text();
  const Result<runtime::Nvml> nvml = runtime::load_nvml();
  if (!nvml) {
    note(nvml.error().message);
    return found;
  }
  const Result<runtime::GpuSensors> sensors = runtime::GpuSensors::open(*nvml, *gpu.device);
  if (!sensors) {
    note(sensors.error().message);
    return found;
  }
  found.driver = sensors->driver_version();
  found.max_clock_mhz = sensors->max_sm_clock_mhz().value_or(found.max_clock_mhz);
  found.power_limit_watts = sensors->power_limit_watts();
  setting.measure.sensors = [sensors = *sensors] { return sensors.read(); };
  return found;
}

Report compare(const CommandLine& line, Surroundings& world) {
  std::string texts[2];
  for (size_t i = 0; i < 2; ++i) {
    Result<std::string> text = world.disk.read(line.specs[i]);
    if (!text) return failure(ExitCode::user, text.error().message);
    texts[i] = *std::move(text);
  }
  const Result<Comparison> comparison = compare_benches(texts[0], line.specs[0], texts[1], line.specs[1]);
  if (!comparison) return failure(comparison.error());
  Report report;
  report.text = comparison_text(*comparison, line.tolerance_percent);
  report.fields = comparison_json(*comparison, line.tolerance_percent);
  const auto slower = std::count_if(comparison->forms.begin(), comparison->forms.end(),
                                    [&](const ComparedForm& form) { return form.slower(line.tolerance_percent); });
  if (slower > 0) {
    report.code = ExitCode::wrong;
    const auto judged = std::count_if(comparison->forms.begin(), comparison->forms.end(),
                                      [](const ComparedForm& form) { return form.judged; });
    report.error = fmt::format("{} of {} fused times are more than {} % longer in {}", slower, judged,
                               line.tolerance_percent, line.specs[1]);
  }
  return report;
}

}  // namespace

Report bench(const CommandLine& line, Surroundings& world) {
  if (line.compare) return compare(line, world);
  std::string output;
  if (!line.output.empty()) {
    const Result<std::string> file = output_file(world.disk, line.output);
    if (!file) return failure(file.error());
    output = *file;
  }
  Diagnostics diagnostics;
  auto files = read_files(line, world, diagnostics);
  if (!files) return failure(files.error());
  if (!*files) return failure(std::move(diagnostics));
  const Result<Gpu> gpu = find_gpu();
  if (!gpu)
    return failure(ExitCode::machine,
                   fmt::format("bench times kernels on a GPU and needs one: {}", gpu.error().message));

  BenchSetting setting;
  setting.gpu = *gpu;
  setting.line = &line;
  setting.measure.warm_seconds = line.warm_seconds;
  setting.measure.rounds = line.rounds;
  const BenchEnvironment environment = look_around(*gpu, world, setting);
  setting.full_clock_mhz = environment.max_clock_mhz;
  const std::unique_ptr<jit::Engine> engine = make_engine(world, true);

  Report report;
  std::vector<KernelBench> benches;
  for (SizedFile& file : **files) {
    for (SizedKernel& kernel : file.kernels) {
      const std::string name = kernel.name;
      auto made = bench_kernel(*engine, file.program, std::move(kernel), setting, diagnostics);
      if (!made)
        return failure(exit_code(made.error().kind),
                       fmt::format("{} of {}: {}", name, file.path, made.error().message));
      if (!*made) return failure(std::move(diagnostics));
      (*made)->file = file.path;
      report.text += (report.text.empty() ? "" : "\n") + bench_text(**made);
      benches.push_back(**std::move(made));
    }
  }
  report.text = fmt::format("{}, {} multiprocessors\n\n", environment.gpu.name, environment.gpu.sm_count) + report.text;
  report.fields = bench_json(environment, setting, benches);
  report.diagnostics = std::move(diagnostics);
  if (!output.empty()) {
    const std::string document = read_json(report.fields)->dump(1) + "\n";
    if (Status written = write_output(world.disk, output, document); !written) return failure(written.error());
    report.text += fmt::format("\nwritten to {}\n", line.output);
  }
  return report;
}

}  // namespace epifuse::tools
