// Full-tile inputs through a ring of shared memory, in the PTX that NVRTC makes of kernels: no stage goes back to the
// copy engine before the loads from it are done. On the device a box that overtakes a load shows only now and then.
#include <cstdio>
#include <string>
#include <string_view>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Arrivals of consumers behind loads of a stage, by whether a fence lies between.
struct Arrivals {
  int fenced = 0, unfenced = 0;
};

Arrivals arrivals_behind_loads(std::string_view ptx) {
  Arrivals arrivals;
  bool loaded = false, fenced = false;
  for (size_t begin = 0; begin < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', begin), ptx.size());
    const std::string_view line = ptx.substr(begin, end - begin);
    const auto has = [&](std::string_view text) { return line.find(text) != std::string_view::npos; };
    if (has("ld.shared.v")) {  // the scratch of an epilogue is read word by word
      loaded = true, fenced = false;
    } else if (has("fence.proxy.async.shared::cta")) {
      fenced = true;
    } else if (loaded && has("mbarrier.arrive.shared::cta")) {
      ++(fenced ? arrivals.fenced : arrivals.unfenced);
      loaded = false;
    }
    begin = end + 1;
  }
  return arrivals;
}

}  // namespace

TEST_CASE("a stage of full-tile inputs is fenced before it is released") {
  static toolchain::NvrtcToolchain nvrtc(real_file_system(), *read_settings());
  if (const auto location = nvrtc.location(); !location) {
    std::printf("skipped: %s\n", location.error().message.c_str());
    return;
  }
  const std::string specs[] = {
      ragged_spec("in r : f32[M, N]\nout y : f32[M, N] = gemm(x, w) + r"),
      ragged_spec("in r : bf16[M, N]\nout y : bf16[M, N] = gemm(x, w) + r"),
      ragged_spec("in r : e4m3[M, N]\nout y : bf16[M, N] = gemm(x, w) + r"),
      // Both halves of a pre-activation, one by one.
      backward_spec(", 1"),
  };
  for (const std::string& spec : specs) {
    const LoweredText result = lower_text(spec);
    const std::string source = codegen::emit_kernel(result.lowered.graph, result.plan(""));
    REQUIRE(source.find("load_tile_inputs") != std::string::npos);
    const auto outcome = nvrtc.compile({"test", source, toolchain::headers_included_by(source), "sm_90a", {}});
    INFO(source << (outcome ? std::string() : outcome.error().message));
    REQUIRE(outcome);
    const Arrivals arrivals = arrivals_behind_loads(outcome->ptx);
    CHECK(arrivals.fenced >= 1);
    CHECK(arrivals.unfenced == 0);
  }
}
