#include "base/target.h"

#include <fmt/format.h>

namespace epifuse {

Result<Target> parse_target(std::string_view name) {
  if (name == "sm_90a") return Target{};
  return user_error(fmt::format("target '{}' is not supported; supported targets: sm_90a", name));
}

const TargetFigures& figures_of(const Target&) {
  static const TargetFigures h200;
  return h200;
}

Result<Target> target_for_capability(int major, int minor) {
  if (major == 9 && minor == 0) return Target{};
  return environment_error(
      fmt::format("this GPU has compute capability {}.{}; Epifuse has kernels for 9.0 (sm_90a: H100, H200, H800, H20)",
                  major, minor));
}

}  // namespace epifuse
