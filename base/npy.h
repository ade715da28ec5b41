// NumPy files: `.npy` (versions 1 to 3, little endian, C order) and `.npz` (a zip of them, not compressed).
//
// NumPy has no types for what kernels store, so bf16 lies in a file as uint16 bits, and e4m3, e5m2, e8m0 and packed
// e2m1 as uint8. float32 and float64 are taken for every floating storage and rounded once, to nearest even.
//
// Files come from outside: every size in them is checked before it is used, and what cannot be right is an error that
// names the file or the array, never a wrong tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/storage.h"

namespace epifuse {

struct NpyArray {
  std::string dtype;  // as NumPy spells it: "<f4", "|u1"
  std::vector<int64_t> shape;
  std::string data;  // row-major, little endian
};

// A whole file, or one member of a .npz; `name` is for messages.
Result<NpyArray> read_npy(std::string_view bytes, std::string_view name);
std::string write_npy(const NpyArray& array);

using NpzArrays = std::vector<std::pair<std::string, NpyArray>>;  // in the order of the file, names without ".npy"

Result<NpzArrays> read_npz(std::string_view bytes, std::string_view name);
// Refuses arrays of 4 GiB together: an archive has 32-bit offsets.
Result<std::string> write_npz(const NpzArrays& arrays);

// The elements as a buffer of this storage and these extents holds them. e2m1 counts elements in its extents; its file
// has half as many bytes along the last axis, or, where that is odd and rows share bytes, one axis of bytes.
Result<std::string> npy_to_storage(const NpyArray& array, Storage storage, const std::vector<int64_t>& extents,
                                   std::string_view name);
NpyArray npy_from_storage(Storage storage, const std::vector<int64_t>& extents, std::string_view bytes);

// The extents that a tensor of this storage has in the file.
std::vector<int64_t> npy_extents(const NpyArray& array, Storage storage);

}  // namespace epifuse
