// The table of flags by version.
#include "compiler/toolchain/nvrtc_flags.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace epifuse::toolchain;

namespace {

bool has(const std::vector<std::string>& flags, const std::string& flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace

TEST_CASE("each version gets the flags that it knows") {
  const auto v12_8 = compile_flags({12, 8}, "sm_90a", "abc", {});
  const auto v12_9 = compile_flags({12, 9}, "sm_90a", "abc", {"--use_fast_math"});
  CHECK(has(v12_8, "--gpu-architecture=sm_90a"));
  CHECK(has(v12_8, "--ptxas-options=-v"));
  CHECK(!has(v12_8, "--no-cache"));
  CHECK(!has(v12_8, "--frandom-seed=abc"));
  CHECK(has(v12_9, "--no-cache"));
  CHECK(has(v12_9, "--frandom-seed=abc"));
  CHECK(v12_9.back() == "--use_fast_math");
  CHECK(common_flags({13, 0}) == common_flags({13, 5}));
}

TEST_CASE("versions outside 12.8 to 13.x are refused in words") {
  CHECK(refuse_version({12, 7}) == "version 12.7 is older than 12.8");
  CHECK(refuse_version({14, 0}) == "version 14.0 is newer than this Epifuse knows (up to 13.x)");
  for (const NvrtcVersion good :
       {NvrtcVersion{12, 8}, NvrtcVersion{12, 9}, NvrtcVersion{13, 0}, NvrtcVersion{13, 42}}) {
    CHECK(!refuse_version(good));
  }
}
