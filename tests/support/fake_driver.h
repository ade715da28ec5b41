// A CUDA driver without a GPU: it hands out handles, keeps "device memory" on the host, records every call by name, and
// stores what it is given (map arguments, launches with their parameter bytes), so that binding, launching, capturing
// and error messages are tested on any machine. Entries can be made to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/driver_api.h"

namespace epifuse::test {

struct FakeLaunch {
  std::string entry;
  bool by_kernel_handle = false;  // the context-independent handle was launched, not the primary context's function
  unsigned grid = 0, block = 0, shared_bytes = 0;
  cuda::Stream stream = nullptr;
  bool overlaps = false;  // may start before what is in front of it has ended
  std::vector<std::byte> parameters;
};

struct FakeMap {
  cuda::TensorMapDataType type;
  uint64_t base = 0;
  std::vector<uint64_t> extents, strides;
  std::vector<uint32_t> box, element_strides;
  cuda::TensorMapSwizzle swizzle;
};

// One at a time per process: the entries are plain functions and find their state through a global.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();

  runtime::Driver table() const { return table_; }

  // The machine.
  int device_count = 1;
  int sm_count = 132;
  int version = 13000;  // of the driver
  int capability_major = 9, capability_minor = 0;
  int shared_bytes_per_block = 232448;
  int max_threads_per_block = 1024;
  std::map<std::string, size_t> entries;   // parameter bytes of each entry of the library that is loaded
  cuda::Context current = nullptr;         // of the calling thread
  std::map<uint64_t, int> other_device;    // pointers that lie on another device
  std::map<std::string, cuda::Code> fail;  // entry (field name) -> what it returns, without doing anything

  // What happened.
  std::vector<std::string> calls;  // field names in order
  std::vector<FakeLaunch> launches;
  std::vector<FakeMap> maps;
  std::map<std::string, int> shared_bytes_set;
  int open_handles = 0;  // streams, events, libraries, graphs, allocations not yet destroyed

  int count(const std::string& name) const;
  void forget() { calls.clear(), launches.clear(), maps.clear(); }

  static cuda::Context primary_context(int device);

 private:
  runtime::Driver table_;
};

}  // namespace epifuse::test
