// Bundles onto a GPU without the compiler, in C++: what libepifuse_runtime is made of. Without a driver, and without a
// bundle, there are errors to report and none to crash with.
#include "deploy/kernel_library.h"

int main() {
  using namespace epifuse;
  deploy::KernelLibrary library([] { return runtime::load_driver(); });
  const Status none = library.add_bundle("/nonexistent.epb");
  const auto kernel = library.find({"", {"fc1", "sm_90a", {}, {}, ""}}, deploy::no_device);
  const auto prepared = library.prepare(0);
  const bool told = !none && !kernel && !prepared && prepared.error().kind == ErrorKind::environment;
  return told ? 0 : 1;
}
