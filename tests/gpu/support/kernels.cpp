#include "tests/gpu/support/kernels.h"

#include <thread>

#include "compiler/semantics/resolve.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "gpu_test_files.h"

namespace epifuse::test {

jit::Engine& engine() {
  static jit::Engine* instance = [] {
    jit::EngineOptions options;
    options.settings = must(read_settings());
    options.log = stderr_log(LogLevel::warn);
    options.read_cache = options.write_cache = false;
    auto nvrtc = std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), options.settings);
    return new jit::Engine(std::move(options), std::move(nvrtc), real_file_system());
  }();
  return *instance;
}

std::string file_text(std::string_view path) {
  const auto text = gpu_test_files_text(path);
  INFO(path);
  REQUIRE(text);
  return std::string(*text);
}

namespace {

std::vector<std::string> spec_files(bool of_one_kernel) {
  std::vector<std::string> found;
  for (const auto& file : gpu_test_files()) {
    const size_t first = file.text.find("\nkernel ");
    const bool in_specs = file.path.starts_with("specs/") && file.path.rfind('/') == 5;
    if (in_specs && (first == file.text.rfind("\nkernel ")) == of_one_kernel) found.emplace_back(file.path);
  }
  return found;
}

}  // namespace

std::vector<std::string> spec_files() { return spec_files(true); }
std::vector<std::string> cookbook_files() { return spec_files(false); }

std::vector<std::string> recipe_files() {
  std::vector<std::string> found;
  for (const auto& file : gpu_test_files())
    if (file.path.starts_with("specs/") && file.path.rfind('/') != 5) found.emplace_back(file.path);
  return found;
}

ir::Graph graph_of_spec(const std::string& text) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", text, no_files, diagnostics);
  auto graph = resolve(program, "", {}, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return *std::move(graph);
}

jit::CompiledKernelPtr compile_or_refuse(const std::string& text, const std::map<std::string, int64_t>& dims,
                                         std::string& why, const std::string& schedule) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", text, no_files, diagnostics);
  CompilerOptions options;
  options.dims = dims;
  options.schedule = schedule;
  options.target = gpu_target();
  const auto compiled = must(engine().compile(program, "", options, diagnostics));
  why = diagnostics.print();
  return compiled.value_or(nullptr);
}

jit::CompiledKernelPtr compile_spec(const std::string& text, const std::map<std::string, int64_t>& dims,
                                    const std::string& schedule) {
  std::string why;
  auto compiled = compile_or_refuse(text, dims, why, schedule);
  INFO(why);
  REQUIRE(compiled);
  return compiled;
}

namespace {

// Every tile by index, and once with other stages, another band, tiles that are dealt out or in pairs: of tile to tile
// others.
std::vector<std::string> schedules_to_try(const std::vector<lowering::KernelPlan>& all) {
  std::vector<std::string> names;
  std::map<std::pair<bool, int>, std::vector<std::string>> others;
  for (const lowering::KernelPlan& plan : all) {
    const lowering::Schedule& s = plan.schedule;
    const bool usual = s.stages == s.usual_stages && s.band == lowering::usual_band && !s.dynamic && !s.pairs;
    (usual ? names : others[{s.cooperative, s.tile_columns}]).push_back(lowering::schedule_name(s));
  }
  size_t next = 0;
  for (const auto& [tile, variants] : others) names.push_back(variants[next++ * 5 % variants.size()]);
  return names;
}

}  // namespace

std::string wrong_with(const jit::CompiledKernelPtr& kernel, const jit::VerifyOptions& options) {
  if (kernel->image.spill_bytes != 0) return "registers are spilled";
  if (kernel->image.wgmma_serialized) return "products are serialised";
  const auto report = jit::verify(engine(), kernel, options, gpu().device);
  if (!report) return report.error().message;
  return report->ok ? "" : report->print();
}

std::vector<jit::CompiledKernelPtr> compile_every_schedule(const std::string& text, const std::string& kernel,
                                                           const std::map<std::string, int64_t>& dims) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", text, no_files, diagnostics);
  CompilerOptions options;
  options.dims = dims;
  options.target = gpu_target();
  options.all_plans = true;
  const auto planned = plan_kernel(program, kernel, options, diagnostics);
  INFO(kernel << "\n" << diagnostics.print());
  REQUIRE(planned);
  const std::vector<std::string> names = schedules_to_try(planned->lowered.plans);
  const size_t count = names.size();
  std::vector<std::optional<Result<std::optional<jit::CompiledKernelPtr>>>> results(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      CompilerOptions own = options;
      own.schedule = names[i];
      Diagnostics said;
      results[i] = engine().compile(program, kernel, own, said);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<jit::CompiledKernelPtr> kernels;
  for (auto& result : results) {
    const auto compiled = must(*std::move(result));
    REQUIRE(compiled);
    kernels.push_back(*compiled);
  }
  return kernels;
}

}  // namespace epifuse::test
