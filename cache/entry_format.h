// One entry of the cache, as bytes. One file holds one entry: there are no side files, and reading executes nothing.
//
//   offset  size
//   0       8     "EPIFUSE\x1a"
//   8       4     cache_entry_version (base/version.h)
//   12      4     kind (EntryKind)
//   16      4x8   sizes of the four sections: request, toolchain, metadata, payload
//   48      ...   the sections, one behind the other
//   end-16  16    XXH3-128 of everything before, high half first
//
// Integers are little-endian. The checksum stays at the end in every later version, so that damage and another version
// can always be told apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse::cache {

enum class EntryKind : uint32_t {
  artifact = 1,  // payload: a compiled kernel
  redirect = 2,  // payload: what to use in place of a refused plan; the meaning is its maker's
};

struct Entry {
  EntryKind kind = EntryKind::artifact;
  std::string request;    // ArtifactKey::request()
  std::string toolchain;  // ArtifactKey::toolchain()
  std::string metadata;   // a small JSON object for people: kernel, target
  std::string payload;
};

std::string encode_entry(const Entry& entry);

// The same in somebody else's bytes.
struct EntryView {
  EntryKind kind = EntryKind::artifact;
  std::string_view request, toolchain, metadata, payload;
};

enum class EntryState {
  good,
  other_version,  // written by another Epifuse: not used, and nothing is wrong with it
  damaged,
};

struct DecodedEntry {
  EntryState state = EntryState::damaged;
  EntryView entry;     // when good; as long as the bytes live
  std::string reason;  // when damaged: what is wrong, for a message
};

// Reads any bytes whatsoever.
DecodedEntry decode_entry(std::string_view bytes);

}  // namespace epifuse::cache
