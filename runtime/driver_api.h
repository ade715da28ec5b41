// The CUDA driver, opened at run time (libcuda.so.1), as a table of function pointers. Nothing links against it, so a
// machine without a GPU runs everything that needs none, and says so in plain words when something does.
//
// The table is an ordinary struct: tests fill it with a fake, or wrap the real one to count the calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/cuda_types.h"

namespace epifuse::runtime {

namespace driver_entries {
using namespace cuda;
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters) using field = Code(*) parameters;
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
}  // namespace driver_entries

struct DriverApi {
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters) driver_entries::field field = nullptr;
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
};

// A table is shared by all that hold handles of the driver behind it.
using Driver = std::shared_ptr<const DriverApi>;

// Opens the driver and initialises it. Errors (environment): no such library, an entry is missing because the driver is
// too old, the driver finds no usable GPU. The library stays open for the life of the process.
Result<Driver> load_driver(const char* library = "libcuda.so.1");

// An error for what the driver returned: "loading kernel 'k': the GPU cannot run this binary (209,
// CUDA_ERROR_NO_BINARY_FOR_GPU)". `doing` says what was tried.
Error driver_error(const DriverApi& driver, cuda::Code code, std::string_view doing);

// Status of one call.
inline Status check(const DriverApi& driver, cuda::Code code, std::string_view doing) {
  if (code == cuda::Code::success) return {};
  return driver_error(driver, code, doing);
}

}  // namespace epifuse::runtime
