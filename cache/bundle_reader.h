// Reading a bundle: from a mapped file or from memory, whatever bytes those are. Nothing is copied but labels, and
// nothing is trusted: opening checks the index against its checksum and every place in it against the size, and an
// entry's parts are checked against theirs each time one is taken.
//
// Errors of kind wrong are damage; each message begins with the bundle's name. A bundle of a later version is an error
// of kind user. A reader is immutable, so any thread may use it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "base/shared_bytes.h"
#include "cache/bundle_entry.h"

namespace epifuse::cache {

class BundleReader;
using BundlePtr = std::shared_ptr<const BundleReader>;

class BundleReader {
 public:
  // The file stays mapped as long as the reader or an entry's bytes live. It may be renamed or removed, and replaced by
  // renaming another over it; writing into it is damage.
  // A path that leads to no regular file is an error (user).
  static Result<BundlePtr> open(FileSystem& disk, const std::string& path);
  // `name` is for messages.
  static Result<BundlePtr> from_bytes(SharedBytes bytes, std::string name);

  const std::string& name() const { return name_; }
  size_t size() const { return entries_; }
  uint64_t bytes() const { return bytes_.size(); }

  // The entry of a canonical request.
  Result<std::optional<size_t>> find(std::string_view request) const;
  // The entries of a kernel for a target with exactly these dims: several where they differ in what is left out, in
  // the plan that was asked for, or in the kernel's text. In the order of their labels.
  Result<std::vector<size_t>> find(const std::string& kernel, const std::string& target,
                                   const std::map<std::string, int64_t>& dims) const;
  // All of a kernel, for whatever target and dims; those of every kernel for an empty name.
  Result<std::vector<size_t>> find_kernel(std::string_view kernel) const;

  Result<BundleLabel> label(size_t entry) const;
  Result<SharedBytes> request(size_t entry) const;
  Result<BundleEntry> entry(size_t entry) const;
  // The number of the entry's cubin among the parts: equal for entries that share it.
  uint32_t cubin_part(size_t entry) const;

  // Every byte of the file, and every entry.
  Status verify() const;

 private:
  BundleReader(SharedBytes bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}
  Status check_index();
  Status check_unused() const;
  std::string_view view() const { return bytes_.view(); }
  Error damaged(std::string_view what) const;
  uint32_t part_of(size_t entry, size_t which) const;
  uint32_t named(size_t place) const;  // the entry at a place of the index of names
  Result<SharedBytes> part(uint32_t number) const;
  Result<std::vector<size_t>> with_prefix(std::string_view label_prefix) const;

  SharedBytes bytes_;
  std::string name_;
  size_t entries_ = 0, parts_ = 0;
};

}  // namespace epifuse::cache
