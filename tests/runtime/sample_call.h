// The sample kernel of tests/support/sample_recipe.h on the fake driver, and arguments that fit it.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <stdexcept>

#include "runtime/bind.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cubin.h"
#include "tests/support/fake_driver.h"
#include "tests/support/sample_recipe.h"

namespace epifuse::test {

inline KernelImage sample_image() {
  KernelImage image;
  image.cubin = fake_cubin({"gemm_entry", "finish_entry"}, "cubin");
  image.recipe = sample_recipe();
  return image;
}

// M = 300 rows, K = 64, N = 96, E = 4.
inline runtime::Arguments sample_arguments() {
  runtime::Arguments a;
  a.tensors = {{"x", 0x10000, {300, 64}, {}, Storage::bf16},
               {"w", 0x20000, {4, 96, 64}, {}, Storage::bf16},
               {"M.ends", 0x80000, {4}, {}, {}},
               {"y", 0x90000, {300, 96}, {}, Storage::e4m3},
               {"y.scale", 0xa0000, {300, 3}, {}, Storage::e8m0}};
  a.dims = {{"K", 64}, {"N", 96}, {"E", 4}, {"unused", 3}};
  a.params = {{"limit", 7.0}};
  a.workspace = {0xb0000, 4 * 256 + 320};
  return a;
}

inline runtime::TensorArgument& tensor(runtime::Arguments& a, const std::string& name) {
  for (auto& t : a.tensors) {
    if (t.name == name) return t;
  }
  throw std::logic_error("no such tensor");
}

// A fake machine with the sample kernel loaded.
struct SampleMachine {
  SampleMachine() {
    driver.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
    driver.current = FakeDriver::primary_context(0);
    device = *runtime::Device::open(driver.table(), 0);
    module = *runtime::Module::load(device, sample_image());
  }

  // What bind_call says of the arguments after a change.
  std::string complaint(const std::function<void(runtime::Arguments&)>& change) {
    runtime::Arguments a = sample_arguments();
    change(a);
    const auto call = runtime::bind_call(module, a);
    return call ? "" : call.error().message;
  }

  FakeDriver driver;
  runtime::DevicePtr device;
  runtime::ModulePtr module;
};

// The fake's memory is the host's, so a call that clears its workspace needs a real one.
struct HostWorkspace {
  alignas(256) unsigned char bytes[4 * 256 + 320];
  explicit HostWorkspace(runtime::Arguments& a) {
    std::fill(std::begin(bytes), std::end(bytes), 0xff);
    a.workspace.pointer = reinterpret_cast<uint64_t>(bytes);
  }
};

template <class T>
T field(const FakeLaunch& launch, size_t offset) {
  T value;
  REQUIRE(offset + sizeof value <= launch.parameters.size());
  std::memcpy(&value, launch.parameters.data() + offset, sizeof value);
  return value;
}

}  // namespace epifuse::test
