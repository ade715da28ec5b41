// Cache and runtime without the compiler: a serving machine launches what was built elsewhere. Without a GPU the driver
// cannot be opened, which is an error to report and none to crash with.
#include "base/file_system.h"
#include "cache/kernel_cache.h"
#include "runtime/driver_api.h"

int main() {
  using namespace epifuse;
  cache::KernelCache kernels(real_file_system(), {.wanted = false});
  const Result<cache::Found> found = kernels.find_or_make(
      ArtifactKey("request", "toolchain"), []() -> Result<cache::Made> { return cache::Made{.payload = "cubin"}; });
  const Result<runtime::Driver> driver = runtime::load_driver();
  const bool driver_told = driver || driver.error().kind == ErrorKind::environment;
  return found && (*found).payload == "cubin" && driver_told ? 0 : 1;
}
