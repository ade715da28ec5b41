// The table of flags, each with the version that knows it first (tried on 12.8, 12.9, 13.0 and 13.5).
#include "compiler/toolchain/nvrtc_flags.h"

#include <fmt/format.h>

namespace epifuse::toolchain {
namespace {

struct Flag {
  const char* text;
  NvrtcVersion since;
};

constexpr Flag table[] = {
    {"--std=c++20", {12, 8}},
    // Leaves out declarations of textures and of the device runtime, which no template uses: a sixth of the front end's
    // fixed cost, the same cubin.
    {"--minimal", {12, 8}},
    // Registers, spills and serialised wgmma are read from what the assembler says then.
    {"--ptxas-options=-v", {12, 8}},
    // From 12.9 on NVRTC asks the driver's own cache, and on a hit the log is empty.
    {"--no-cache", {12, 9}},
};

constexpr NvrtcVersion seed_since{12, 9};  // 12.8 refuses the flag

}  // namespace

std::optional<std::string> refuse_version(NvrtcVersion version) {
  if (version < oldest_nvrtc) {
    return fmt::format("version {} is older than {}", version.text(), oldest_nvrtc.text());
  }
  if (version >= first_unknown_nvrtc) {
    return fmt::format("version {} is newer than this Epifuse knows (up to {}.x)", version.text(),
                       first_unknown_nvrtc.major - 1);
  }
  return std::nullopt;
}

std::vector<std::string> common_flags(NvrtcVersion version) {
  std::vector<std::string> flags;
  for (const Flag& flag : table) {
    if (version >= flag.since) flags.emplace_back(flag.text);
  }
  return flags;
}

std::vector<std::string> compile_flags(NvrtcVersion version, std::string_view arch, std::string_view seed,
                                       const std::vector<std::string>& further) {
  std::vector<std::string> flags = common_flags(version);
  flags.push_back(fmt::format("--gpu-architecture={}", arch));
  if (version >= seed_since) flags.push_back(fmt::format("--frandom-seed={}", seed));
  flags.insert(flags.end(), further.begin(), further.end());
  return flags;
}

}  // namespace epifuse::toolchain
