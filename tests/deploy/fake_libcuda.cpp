// A libcuda.so.1 for machines without a GPU: the fake driver (tests/support/fake_driver.h) behind the names that the
// CUDA driver exports, so that whole programs run over libepifuse_runtime.so as it is shipped. Its kernels are declared
// by the content of their cubin (tests/support/fake_cubin.h), a text of lines "ENTRY PARAMETER_BYTES"; of them
// copy_entry does something: it copies `bytes` bytes.
#include <cstring>
#include <sstream>

#include "tests/support/fake_cubin.h"
#include "tests/support/fake_driver.h"

namespace epifuse::test {
namespace {

struct CopyParameters {
  const void* from;
  void* to;
  int64_t bytes;
};

FakeDriver& machine() {
  static FakeDriver* const driver = new FakeDriver;  // used until the end of the process
  return *driver;
}

cuda::Code load(cuda::Library* library, const void* data, int* options, void** values, unsigned count,
                int* library_options, void** library_values, unsigned library_count) {
  machine().entries.clear();
  std::istringstream lines(static_cast<const char*>(data) + fake_cubin_content);
  size_t bytes = 0;
  for (std::string entry; lines >> entry >> bytes;) machine().entries[entry] = bytes;
  return machine().table()->library_load_data(library, data, options, values, count, library_options, library_values,
                                              library_count);
}

cuda::Code launch(const cuda::LaunchConfig* config, cuda::Function function, void** arguments, void** extra) {
  const cuda::Code code = machine().table()->launch_kernel_ex(config, function, arguments, extra);
  if (code != cuda::Code::success || machine().launches.back().entry != "copy_entry") return code;
  CopyParameters copy{};
  std::memcpy(&copy, arguments[0], sizeof copy);
  std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
  return code;
}

const runtime::DriverApi& table() {
  static const runtime::DriverApi* const entries = [] {
    auto* own = new runtime::DriverApi(*machine().table());
    own->library_load_data = load;
    own->launch_kernel_ex = launch;
    return own;
  }();
  return *entries;
}

template <auto member>
struct Forward;
template <class... A, cuda::Code (*runtime::DriverApi::*member)(A...)>
struct Forward<member> {
  static cuda::Code call(A... arguments) {
    const auto entry = table().*member;
    return entry ? entry(arguments...) : cuda::Code::invalid_value;
  }
};

}  // namespace
}  // namespace epifuse::test

// The names of the driver have no parameters here to forward one by one; the loader asks which function each is.
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters)                                                      \
  extern "C" void (*resolve_##symbol())() {                                                                  \
    return reinterpret_cast<void (*)()>(&epifuse::test::Forward<&epifuse::runtime::DriverApi::field>::call); \
  }                                                                                                          \
  extern "C" __attribute__((visibility("default"), ifunc("resolve_" #symbol))) void symbol();
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
