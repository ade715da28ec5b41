// The directories in which a libnvrtc may lie, in the order of nvrtc_locator.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/settings.h"

namespace epifuse::toolchain {

// The last place: it alone depends on where the program is.
inline constexpr std::string_view beside_program = "nvrtc/ beside this program";

struct NvrtcPlace {
  std::string name;  // for messages
  // In parts, each listed when asked: a part that is not reached costs nothing, and a warm start has no time to give
  // away.
  std::vector<std::function<std::vector<std::string>()>> directories;
};

// The functions in it refer to the arguments.
std::vector<NvrtcPlace> nvrtc_places(FileSystem& disk, const Settings& settings,
                                     const std::function<std::vector<std::string>()>& program_folders);

}  // namespace epifuse::toolchain
