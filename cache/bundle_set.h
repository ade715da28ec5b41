// Bundles in the order they are searched, and the answer when none of them has what is wanted.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "cache/bundle_reader.h"

namespace epifuse::cache {

// What two requests differ in whose labels are equal, for people: the first line, be it of a type, an option, a
// `const`, a group clause or an expression. "the kernel's text: 'K = 1' there, 'K = 2' here". Of two that are equal one
// is looked for and not found, so that it is the digest that differs.
std::string differing_line(std::string_view has, std::string_view wanted);

// Thread-safe.
class BundleSet {
 public:
  // `paths` are opened at the first question. A bundle that cannot be used costs a warning, and is as if it were not
  // there. `disk` must outlive the set.
  BundleSet(FileSystem& disk, std::vector<std::string> paths, LogSink log);

  // Behind those that are there already. The error is the reader's.
  Status add(const std::string& path);
  Status add(SharedBytes bytes, std::string name);
  void add(BundlePtr bundle);

  bool any() const;  // a bundle, whether or not it can be used

  struct Found {
    BundlePtr bundle;
    BundleEntry entry;
  };
  // In the first bundle that has the request undamaged.
  std::optional<Found> find(std::string_view request);

  struct Nearest {
    BundlePtr bundle;
    BundleLabel label;
    std::string differs;  // "the dims K and I", "what is left out", "the kernel's text: …"
  };
  // What comes closest to a request that find() does not find: of the same kernel, else nothing.
  std::optional<Nearest> nearest(std::string_view request, const BundleLabel& label);

  std::vector<BundlePtr> bundles();  // those that are used, in their order

  // The names of the kernels in all bundles, sorted.
  std::vector<std::string> kernels();
  std::vector<std::string> names();     // of the bundles that are used
  std::vector<std::string> problems();  // messages about those that are not

 private:
  void warn_once(const std::string& text);

  FileSystem& disk_;
  const LogSink log_;
  mutable std::mutex mutex_;        // guards what follows
  std::vector<std::string> paths_;  // not opened yet
  std::vector<BundlePtr> bundles_;
  std::vector<std::string> problems_;
};

}  // namespace epifuse::cache
