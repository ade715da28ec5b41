// The GPU that the tests run on, and the shortest way from a CUDA text to a loaded kernel.
#pragma once

#include <string>
#include <vector>

#include "runtime/bind.h"
#include "runtime/device_buffer.h"
#include "runtime/stream.h"
#include "tests/support/catch.h"
#include "tests/support/counting_driver.h"

namespace epifuse::test {

struct Gpu {
  runtime::DevicePtr device;    // 0, behind a table that counts calls (CountingDriver)
  runtime::OwnedStream stream;  // of its own
};

// Opened at the first use, for the life of the process.
Gpu& gpu();

// What kernels are compiled for here.
const Target& gpu_target();

// The value of a Result; its error fails the test. Good results say nothing to Catch, which keeps count in one thread
// only: tests compile in several.
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status) FAIL(status.error().message);
}

// Compiles `source`, which may include the device templates, with NVRTC for the GPU's target (or `arch`) and joins it
// with the recipe, whose kernel and target it sets.
KernelImage compile_image(const std::string& source, LaunchRecipe recipe, const std::string& arch = "");

// compile_image, loaded on the GPU.
runtime::ModulePtr compile_module(const std::string& source, LaunchRecipe recipe);

// Device memory with these values, and back.
template <class T>
runtime::DeviceBuffer upload(const std::vector<T>& values) {
  auto buffer = must(runtime::DeviceBuffer::allocate(gpu().device, values.size() * sizeof(T)));
  must(buffer.upload(std::as_bytes(std::span(values)), gpu().stream.get()));
  return buffer;
}
template <class T, class Buffer>
std::vector<T> download(const Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  must(buffer.download(std::as_writable_bytes(std::span(values)), gpu().stream.get()));
  return values;
}

// Runs one test case of this program in a process of its own (what faults a GPU ends every context of the process), and
// yields what it printed. `failed`: whether it did not succeed.
std::string run_in_child(const std::string& test_case, bool& failed);

}  // namespace epifuse::test
