// Small bundles for tests: kernels of bytes that are easy to tell apart.
#pragma once

#include <fmt/format.h>
#include <string>
#include <vector>

#include "base/digest.h"
#include "cache/bundle_format.h"
#include "cache/bundle_reader.h"
#include "cache/bundle_writer.h"
#include "tests/support/catch.h"

namespace epifuse::test {

inline cache::BundleEntry sample_entry(const std::string& kernel, int64_t k, size_t cubin_bytes = 40) {
  cache::BundleEntry entry;
  entry.label = {kernel, "sm_90a", {{"E", 8}, {"K", k}}, {}, ""};
  entry.request = fmt::format("request 1\nkernel {}\n  dim K = {}\ntarget sm_90a\n", kernel, k);
  entry.info = fmt::format(R"({{"key":"{}-{}","plan":"p"}})", kernel, k);
  entry.recipe = fmt::format(R"({{"kernel":"{}"}})", kernel);
  entry.image = R"({"registers":168})";
  std::string cubin =
      "\x7f"
      "ELF of " +
      kernel;
  cubin.resize(cubin_bytes, '*');  // K is a parameter: one cubin for every K
  entry.cubin = std::move(cubin);
  return entry;
}

inline std::string encoded(std::vector<cache::BundleEntry> entries) {
  Result<std::string> bytes = cache::encode_bundle(std::move(entries));
  INFO((bytes ? std::string() : bytes.error().message));
  REQUIRE(bytes);
  return *std::move(bytes);
}

inline cache::BundlePtr opened(std::string bytes) {
  Result<cache::BundlePtr> bundle = cache::BundleReader::from_bytes(std::move(bytes), "sample.epb");
  INFO((bundle ? std::string() : bundle.error().message));
  REQUIRE(bundle);
  return *std::move(bundle);
}

// Bytes with right checksums, as somebody could make them who means ill.
inline std::string with_checksums(std::string bytes, uint64_t entries, uint64_t parts) {
  const cache::bundle::Places at = cache::bundle::places(entries, parts);
  std::string index;
  cache::bundle::append(index, digest(std::string_view(bytes).substr(0, at.index_digest)));
  bytes.replace(at.index_digest, index.size(), index);
  bytes.resize(bytes.size() - cache::bundle::digest_bytes);
  const Digest whole = digest(bytes);
  cache::bundle::append(bytes, whole);
  return bytes;
}

inline bool same_entry(const cache::BundleEntry& a, const cache::BundleEntry& b) {
  return a.request == b.request && a.label == b.label && a.info == b.info && a.recipe == b.recipe &&
         a.image == b.image && a.cubin == b.cubin;
}

}  // namespace epifuse::test
