// The directories in which a libnvrtc may lie, in the order of nvrtc_locator.h.
#pragma once

#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/settings.h"

namespace epifuse::toolchain {

struct NvrtcPlace {
  std::string name;  // for messages
  std::vector<std::string> directories;
};

std::vector<NvrtcPlace> nvrtc_places(FileSystem& disk, const Settings& settings,
                                     const std::vector<std::string>& program_folders);

}  // namespace epifuse::toolchain
