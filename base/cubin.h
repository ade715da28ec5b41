// What a cubin says of itself, without a driver.
#pragma once

#include <optional>
#include <set>
#include <string_view>

namespace epifuse {

// The compute capability that a cubin is for, 90 for sm_90a: a driver of another GPU refuses it, with fewer words.
// Nothing when these bytes are no cubin.
std::optional<int> cubin_capability(std::string_view cubin);

// The functions that have code in it, in the cubin's own bytes. Nothing when these bytes are no cubin, or not all of
// one.
std::optional<std::set<std::string_view>> cubin_functions(std::string_view cubin);

}  // namespace epifuse
