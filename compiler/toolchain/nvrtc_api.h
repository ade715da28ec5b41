// NVRTC's entries, declared here and looked up at run time: neither building nor starting Epifuse needs NVRTC.
#pragma once

#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "compiler/toolchain/nvrtc_locator.h"

namespace epifuse::toolchain {

using nvrtcProgram = struct _nvrtcProgram*;
using nvrtcResult = int;

namespace nvrtc_result {  // those that are told apart
inline constexpr nvrtcResult success = 0, invalid_option = 5, compilation = 6;
}

struct NvrtcApi {
  nvrtcResult (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(nvrtcResult);
  nvrtcResult (*nvrtcCreateProgram)(nvrtcProgram*, const char* source, const char* name, int headers,
                                    const char* const* texts, const char* const* names);
  nvrtcResult (*nvrtcCompileProgram)(nvrtcProgram, int options, const char* const* texts);
  nvrtcResult (*nvrtcGetProgramLogSize)(nvrtcProgram, size_t*);
  nvrtcResult (*nvrtcGetProgramLog)(nvrtcProgram, char*);
  nvrtcResult (*nvrtcGetCUBINSize)(nvrtcProgram, size_t*);
  nvrtcResult (*nvrtcGetCUBIN)(nvrtcProgram, char*);
  nvrtcResult (*nvrtcGetPTXSize)(nvrtcProgram, size_t*);
  nvrtcResult (*nvrtcGetPTX)(nvrtcProgram, char*);
  nvrtcResult (*nvrtcDestroyProgram)(nvrtcProgram*);
};

// Loads the builtins, then the library, both by absolute path, and never unloads them. NVRTC asks the loader for its
// builtins by bare name and takes whichever of that name was loaded first; a process in which that is another build is
// refused, because the artifact key would name the wrong compiler. So is a library of another version than its
// builtins.
Result<NvrtcApi> open_nvrtc(FileSystem& disk, const NvrtcLocation& location);

}  // namespace epifuse::toolchain
