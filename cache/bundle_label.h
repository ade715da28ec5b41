// What a person calls a kernel of a bundle, and what a caller without a compiler finds it by: the name of the kernel,
// the target and the numbers of its `dim`s; and what else was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse::cache {

struct BundleLabel {
  std::string kernel, target;
  std::map<std::string, int64_t> dims;  // all of them
  std::set<std::string> left_out;
  std::string schedule;  // that the request names; empty: the compiler's choice

  bool operator==(const BundleLabel&) const = default;

  // One line for each field: "kernel fc1\ntarget sm_90a\ndims E=8,K=7168\nwithout bias\nschedule pingpong 128x192\n".
  // Equal labels give equal texts. `key_text` is its first three lines, which the index of names is searched by.
  std::string text() const;
  std::string key_text() const;
  static Result<BundleLabel> parse(std::string_view text);
};

std::string dims_text(const std::map<std::string, int64_t>& dims);  // "E=8,K=7168", the form that --dims takes

// For messages: "kernel 'fc1' for sm_90a with E=8,K=7168, without bias, as pingpong 128x192".
std::string describe(const BundleLabel& label);

}  // namespace epifuse::cache
