#include "tools/compile_kernel.h"

#include "compiler/toolchain/nvrtc_toolchain.h"

namespace epifuse::tools {

CompilerOptions compiler_options(const CommandLine& line) {
  CompilerOptions options;
  options.dims = line.dims;
  options.left_out = line.left_out;
  options.target = line.target.value_or(Target{});
  options.schedule = line.schedule;
  return options;
}

Result<KernelOutcome> compile_kernel(const Program& program, const CommandLine& line, Surroundings& world,
                                     bool read_cache) {
  jit::EngineOptions options;
  options.settings = world.settings;
  options.log = world.log;
  options.read_cache = read_cache;
  jit::Engine engine(std::move(options), std::make_shared<toolchain::NvrtcToolchain>(world.disk, world.settings),
                     world.disk);
  KernelOutcome outcome;
  auto compiled = engine.compile(program, line.kernel, compiler_options(line), outcome.diagnostics);
  if (!compiled) return compiled.error();
  outcome.kernel = compiled->value_or(nullptr);
  outcome.toolchain_calls = engine.toolchain_calls();
  return outcome;
}

}  // namespace epifuse::tools
