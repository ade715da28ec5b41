// Why a key has no entry: the parts in which the nearest entry's request differs from the one that is asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/artifact_key.h"
#include "base/artifact_record.h"
#include "cache/cache_directory.h"

namespace epifuse::cache {

struct NearestEntry {
  std::string path;
  std::vector<RecordDifference> differences;  // a part may also be "toolchain"
};

// The entry with the fewest differences, of the same kernel if there is one. Nothing where there is no entry that can
// be read. Reads up to `most` entries, all of them for a person who asks.
std::optional<NearestEntry> nearest_entry(const std::vector<CacheDirectory>& directories, const ArtifactKey& key,
                                          size_t most = SIZE_MAX);

// "CUDA text, line 12; template tile/tile.cuh": the parts, up to three by name.
std::string parts_of(const std::vector<RecordDifference>& differences);

}  // namespace epifuse::cache
