// Buffers in host memory, by the names they have everywhere: `y`, `y.scale`, `M.ends`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/storage.h"

namespace epifuse::interpreter {

// A contiguous tensor: row-major, the last extent fastest. e2m1 counts elements in its extents, two to a byte.
struct HostTensor {
  Storage storage = Storage::f32;
  std::vector<int64_t> extents;
  std::vector<uint8_t> bytes;

  int64_t elements() const;
  // Distances between neighbours along each axis, in elements.
  std::vector<int64_t> strides() const;
};

HostTensor make_tensor(Storage storage, std::vector<int64_t> extents, uint8_t fill = 0);

using Buffers = std::map<std::string, HostTensor>;

// Reads elements `first`, `first + step`, … as doubles (every storage; integers are rounded to nothing below 2^53).
void load(const HostTensor& tensor, int64_t first, int64_t step, int64_t count, double* into);
// Reads the elements at `positions`.
void load_at(const HostTensor& tensor, const int64_t* positions, int64_t count, double* into);

double load_one(const HostTensor& tensor, int64_t position);
int64_t load_integer(const HostTensor& tensor, int64_t position);  // i32 and i64 only

// The bits of one element, and their store.
uint32_t load_code(const HostTensor& tensor, int64_t position);
void store_code(HostTensor& tensor, int64_t position, uint32_t code);
// Rounds once to the tensor's storage. Integers must be exact.
void store_one(HostTensor& tensor, int64_t position, double value);

}  // namespace epifuse::interpreter
