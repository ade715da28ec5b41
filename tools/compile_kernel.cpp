#include "tools/compile_kernel.h"

#include <nlohmann/json.hpp>

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

std::unique_ptr<jit::Engine> make_engine(const Surroundings& world, bool use_cache) {
  jit::EngineOptions options;
  options.settings = world.settings;
  options.log = world.log;
  options.read_cache = options.write_cache = use_cache;
  auto nvrtc = std::make_shared<toolchain::NvrtcToolchain>(world.disk, world.settings);
  return std::make_unique<jit::Engine>(std::move(options), std::move(nvrtc), world.disk);
}

std::string kernel_json(const jit::CompiledKernel& kernel) {
  using Json = nlohmann::ordered_json;
  Json refused = Json::array();
  for (const jit::RefusedPlan& plan : kernel.refused)
    refused.push_back({{"plan", plan.schedule}, {"reason", plan.reason}});
  const KernelImage& image = kernel.image;
  const Json json = {{"kernel", image.recipe.kernel},
                     {"target", image.recipe.target},
                     {"key", kernel.key},
                     {"compiled", kernel.from == jit::From::toolchain},
                     {"from", jit::from_name(kernel.from)},
                     {"ms", kernel.milliseconds},
                     {"plan", kernel.schedule()},
                     {"refused", std::move(refused)},
                     {"registers", image.registers},
                     {"spill_bytes", image.spill_bytes},
                     {"wgmma_serialized", image.wgmma_serialized},
                     {"cubin_bytes", image.cubin.size()},
                     {"warnings", image.warnings}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace epifuse::tools
