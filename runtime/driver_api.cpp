// Opening libcuda and putting its error codes in words.
#include "runtime/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <utility>

namespace epifuse::runtime {
namespace {

// What people meet most, said so that they can act. The driver's own sentence is used for all others.
std::string_view in_words(cuda::Code code) {
  switch (static_cast<int>(code)) {
    case 1: return "the driver refuses an argument";
    case 2: return "the GPU is out of memory";
    case 34: return "the libcuda that was found is the toolkit's stub, not a driver; install the NVIDIA driver";
    case 46: return "the GPU is used exclusively by another process, or is not available";
    case 100: return "the NVIDIA driver finds no GPU";
    case 200: return "the kernel binary is damaged or of an unknown kind";
    case 201: return "no CUDA context is current on this thread";
    case 209: return "the kernel binary is for another GPU architecture";
    case 221: return "the driver's PTX compiler is missing";
    case 222: return "the kernel's PTX is newer than the driver";
    case 218: return "the kernel's PTX is invalid";
    case 400: return "a handle is invalid; a stream or a buffer may have been destroyed, or belongs to another device";
    case 500: return "the name was not found";
    case 700: return "a kernel accessed memory that is not mapped (illegal address)";
    case 701: return "a kernel needs more registers, threads or shared memory than the GPU has";
    case 702: return "a kernel ran longer than the display watchdog allows";
    case 715: return "a kernel executed an illegal instruction";
    case 716: return "a kernel accessed a misaligned address";
    case 718: return "a kernel jumped to an invalid place";
    case 719: return "a kernel failed";
    case 802: return "the GPU system is not ready (on NVSwitch machines: start nvidia-fabricmanager)";
    case 803: return "the NVIDIA kernel module and libcuda have different versions; reboot or reinstall the driver";
    case 900: return "the operation is not allowed while a stream is captured";
    case 901: return "the capture of the stream was invalidated by an earlier error";
    default: return "";
  }
}

}  // namespace

Error driver_error(const DriverApi& driver, cuda::Code code, std::string_view doing) {
  const char* name = nullptr;
  const char* sentence = nullptr;
  driver.get_error_name(code, &name);
  driver.get_error_string(code, &sentence);
  std::string_view words = in_words(code);
  if (words.empty()) words = sentence ? sentence : "an error that the driver cannot name";
  return environment_error(fmt::format("{}: {} ({}, {})", doing, words, static_cast<int>(code), name ? name : "?"));
}

Result<Driver> load_driver(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return environment_error(fmt::format("no NVIDIA driver on this machine: {} cannot be opened ({})", library,
                                         reason ? reason : "no reason given"));
  }
  auto api = std::make_shared<DriverApi>();
  std::string missing;
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters)                         \
  api->field = reinterpret_cast<driver_entries::field>(dlsym(handle, #symbol)); \
  if (!api->field && missing.empty()) missing = #symbol;
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY

  if (!missing.empty()) {
    int version = 0;
    if (api->driver_get_version) api->driver_get_version(&version);
    return environment_error(
        fmt::format("the NVIDIA driver is too old: {} (CUDA {}.{}) has no {}; CUDA 12.4 or newer is needed", library,
                    version / 1000, version % 1000 / 10, missing));
  }
  if (const cuda::Code code = api->init(0); code != cuda::Code::success) {
    return driver_error(*api, code, "starting the NVIDIA driver");
  }
  return Driver(std::move(api));
}

}  // namespace epifuse::runtime
