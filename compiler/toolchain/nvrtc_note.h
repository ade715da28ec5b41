// A note in the cache's directory: which NVRTC was found under which settings, and the state of its two files then. A
// warm start believes it after two looks at those files, where a search takes dozens of system calls.
//
// A note is believed for ten minutes, so that a library that appears in a place looked at earlier is seen soon; that it
// takes so long does no harm, for the one in the note is there and is what compiles. It names a library that would be
// loaded, so it must be this user's own file, and unharmed. There is none where the settings have relative paths.
//
// The file is called toolchain.DIGEST (of the settings that a search depends on), and holds a record
// (base/artifact_record.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/settings.h"
#include "compiler/toolchain/nvrtc_locator.h"

namespace epifuse::toolchain {

// `program_folders`: see locate_nvrtc; asked only for a library that was found beside the program.
std::optional<NvrtcLocation> read_nvrtc_note(FileSystem& disk, const Settings& settings, int64_t now,
                                             const std::function<std::vector<std::string>()>& program_folders);

// Does nothing where the cache's directory is not there yet, or is not this user's alone. Failures do not matter.
void write_nvrtc_note(FileSystem& disk, const Settings& settings, const NvrtcLocation& location,
                      const std::function<std::vector<std::string>()>& program_folders);

}  // namespace epifuse::toolchain
