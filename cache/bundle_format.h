// The bytes of a bundle: one file with kernels that were compiled ahead of time (docs/bundles.md has the table). Shared
// by its writer and its reader, and by nobody else.
//
//   offset  size
//   0       8     "EPIBUNDL"
//   8       4     bundle_version (base/version.h)
//   12      4     0
//   16      8     size of the file
//   24      8     e, entries
//   32      8     p, parts
//   40      24    0
//   64      40 e  entries, by the digest of the request, then by the request
//           4 e   the same entries by their labels: numbers into the table above; padded to a multiple of 8
//           32 p  parts: bytes that entries refer to
//           16    XXH3-128 of everything before: the index
//           ...   the parts, each at a multiple of 16, cubins at one of 256; between them zeros
//   end-16  16    XXH3-128 of everything before
//
//   entry:  u64, u64  XXH3-128 of the request, high half first
//           u32 x 6   part of the request, label, info, recipe, image, cubin
//   part:   u64 offset, u64 size, u64, u64 XXH3-128 of its bytes
//
// Integers are little-endian; digests have their high half first. Magic, version, size and the checksum at the end stay
// where they are in every later version, so that damage and a newer bundle can always be told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace epifuse::cache::bundle {

inline constexpr std::string_view magic = "EPIBUNDL";
inline constexpr uint64_t header_bytes = 64, entry_bytes = 40, name_bytes = 4, part_bytes = 32, digest_bytes = 16;
inline constexpr uint64_t part_alignment = 16;
inline constexpr uint64_t cubin_alignment = 256;  // of the parts that a driver reads

// The parts of an entry, in the order of its row.
enum Part : size_t { request, label, info, recipe, image, cubin, part_count };

inline constexpr uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Where the tables of e entries and p parts are, and what follows them.
struct Places {
  uint64_t entries, names, parts, index_digest, end;
};
inline constexpr Places places(uint64_t entries, uint64_t parts) {
  Places at{};
  at.entries = header_bytes;
  at.names = at.entries + entries * entry_bytes;
  at.parts = round_up(at.names + entries * name_bytes, 8);
  at.index_digest = at.parts + parts * part_bytes;
  at.end = at.index_digest + digest_bytes;
  return at;
}

template <class I>
void append(std::string& out, I value) {
  for (size_t i = 0; i < sizeof(I); ++i) out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}
inline void append(std::string& out, const Digest& value) {
  append(out, value.high);
  append(out, value.low);
}

template <class I>
I number_at(std::string_view bytes, uint64_t offset) {
  I value = 0;
  for (size_t i = 0; i < sizeof(I); ++i)
    value |= static_cast<I>(static_cast<I>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i));
  return value;
}
inline Digest digest_at(std::string_view bytes, uint64_t offset) {
  return {number_at<uint64_t>(bytes, offset), number_at<uint64_t>(bytes, offset + 8)};
}

}  // namespace epifuse::cache::bundle
