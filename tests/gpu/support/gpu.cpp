// The shared device of the GPU tests, compiling for it, and tests in a process of their own.
#include "tests/gpu/support/gpu.h"

#include <cstdio>
#include <unistd.h>

#include "base/settings.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"

namespace epifuse::test {

Gpu& gpu() {
  // Never destroyed: the order in which a process takes down this and the driver is not ours to choose.
  static Gpu* instance = [] {
    const auto driver = CountingDriver::wrap(must(runtime::load_driver()));
    const auto device = must(runtime::Device::open(driver, 0));
    return new Gpu{device, must(runtime::make_stream(device))};
  }();
  return *instance;
}

const Target& gpu_target() {
  static const Target target = must(runtime::target_of(gpu().device->info()));
  return target;
}

KernelImage compile_image(const std::string& source, LaunchRecipe recipe, const std::string& arch) {
  static toolchain::NvrtcToolchain nvrtc(real_file_system(), must(read_settings()));
  recipe.target = arch.empty() ? gpu_target().name : arch;
  auto outcome =
      must(nvrtc.compile({recipe.kernel, source, toolchain::headers_included_by(source), recipe.target, {}}));
  KernelImage image;
  image.cubin = std::move(outcome.cubin);
  image.recipe = std::move(recipe);
  image.registers = outcome.registers;
  image.spill_bytes = outcome.spill_bytes;
  return image;
}

runtime::ModulePtr compile_module(const std::string& source, LaunchRecipe recipe) {
  return must(runtime::Module::load(gpu().device, compile_image(source, std::move(recipe))));
}

std::string run_in_child(const std::string& test_case, bool& failed) {
  char program[4096] = {};
  const auto length = readlink("/proc/self/exe", program, sizeof program - 1);
  REQUIRE(length > 0);
  std::FILE* pipe = popen(("\"" + std::string(program) + "\" \"" + test_case + "\" 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char chunk[4096];
  while (const size_t n = std::fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, n);
  failed = pclose(pipe) != 0;
  return output;
}

}  // namespace epifuse::test
