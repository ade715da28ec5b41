// Finds the libnvrtc to use, and says why that one: for a compile, for the artifact key and for `epifuse doctor`.
//
// Places, in order: EPIFUSE_NVRTC (then nothing else), CUDA_HOME, the loader's path (LD_LIBRARY_PATH, ld.so.cache),
// /usr/local/cuda and /usr/local/cuda-*, the Python packages nvidia-cuda-nvrtc of the python3 on PATH, and a folder
// nvrtc/ beside this program or up to three folders above it, where tools/setup unpacks one. In each place the newest
// usable version wins. Files are only listed and read a little; nothing is loaded and no program is run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "base/settings.h"
#include "compiler/toolchain/nvrtc_flags.h"

namespace epifuse::toolchain {

struct NvrtcLocation {
  std::string library;   // absolute paths
  std::string builtins;  // the part that NVRTC would otherwise take from the loader's path, whichever version is there
  NvrtcVersion version;
  std::string place;                    // "CUDA_HOME", "the loader's path", …
  std::string library_id, builtins_id;  // build ids

  std::string identity() const;  // version, build ids of both files, common flags
};

struct RejectedNvrtc {
  std::string path, place, reason;
};

struct NvrtcSearch {
  std::vector<NvrtcLocation> found;  // one, the first usable, or none
  std::vector<RejectedNvrtc> rejected;
  std::vector<std::string> places;  // where one was looked for, in order, for messages

  // The location, or an error that lists the places and what was wrong with each library seen.
  Result<NvrtcLocation> result() const;
};

// `program_folders`: see folders_of_this_program(); asked only when the search comes that far.
NvrtcSearch locate_nvrtc(FileSystem& disk, const Settings& settings,
                         const std::function<std::vector<std::string>()>& program_folders);

// The folders of the running program and of the library that this code is in.
std::vector<std::string> folders_of_this_program();

}  // namespace epifuse::toolchain
