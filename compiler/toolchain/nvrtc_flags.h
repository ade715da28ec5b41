// Which flags NVRTC gets, by its version: the one table. Flags that every compile gets are part of the toolchain's
// identity, so a change here makes new artifacts.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::toolchain {

struct NvrtcVersion {
  int major = 0, minor = 0;
  auto operator<=>(const NvrtcVersion&) const = default;
  std::string text() const { return std::to_string(major) + "." + std::to_string(minor); }
};

inline constexpr NvrtcVersion oldest_nvrtc{12, 8};
inline constexpr NvrtcVersion first_unknown_nvrtc{14, 0};

// Why this version cannot be used, or nullopt.
std::optional<std::string> refuse_version(NvrtcVersion version);

// The flags of every compile, in order.
std::vector<std::string> common_flags(NvrtcVersion version);

// All flags of one compile. The seed decides the random parts of names with internal linkage: with one that follows
// from the request, equal requests give equal bytes.
std::vector<std::string> compile_flags(NvrtcVersion version, std::string_view arch, std::string_view seed,
                                       const std::vector<std::string>& further);

}  // namespace epifuse::toolchain
