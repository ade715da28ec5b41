// Kernels to the bytes of a bundle. Equal entries give equal bytes, in whatever order they come and on any machine:
// entries and parts are sorted by content, and nothing else is written.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cache/bundle_entry.h"

namespace epifuse::cache {

// An entry that is there twice is written once. Two that answer the same request differently are an error (user) that
// names it: only one of them can be found. Parts that are equal, of whatever entries, are stored once.
Result<std::string> encode_bundle(std::vector<BundleEntry> entries);

// Labels that stand for several kernels, which differ in their text alone (a spec that was edited, another with a
// kernel of the same name): without a compiler such a kernel is found by its request and no more.
std::vector<BundleLabel> ambiguous_labels(const std::vector<BundleEntry>& entries);

}  // namespace epifuse::cache
