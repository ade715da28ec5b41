// Loads NVRTC and its builtins as a pair, and looks the entries up.
#include "compiler/toolchain/nvrtc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "compiler/toolchain/elf_build_id.h"

namespace epifuse::toolchain {
namespace {

std::string loader_error() {
  const char* text = ::dlerror();
  return text ? text : "unknown reason";
}

template <class Function>
bool look_up(void* library, const char* name, Function*& entry) {
  entry = reinterpret_cast<Function*>(::dlsym(library, name));
  return entry != nullptr;
}

// The path of the library that a bare name means in this process, or empty.
std::string loaded_under(const std::string& bare_name, void* expected) {
  void* const loaded = ::dlopen(bare_name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!loaded || loaded == expected) return "";
  const link_map* map = nullptr;
  return ::dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name ? map->l_name : "";
}

}  // namespace

Result<NvrtcApi> open_nvrtc(FileSystem& disk, const NvrtcLocation& location) {
  void* const builtins = ::dlopen(location.builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!builtins) return environment_error(fmt::format("cannot load NVRTC's builtins: {}", loader_error()));
  const std::string bare_name = location.builtins.substr(location.builtins.rfind('/') + 1);
  if (const std::string other = loaded_under(bare_name, builtins); !other.empty()) {
    const Result<std::string> ours = library_identity(disk, location.builtins), theirs = library_identity(disk, other);
    if (!ours || !theirs || *ours != *theirs) {
      return environment_error(fmt::format(
          "this process has already loaded another build of {} ({}), which NVRTC would use in place of {}. Set "
          "EPIFUSE_NVRTC to the directory of the first",
          bare_name, other, location.builtins));
    }
  }
  void* const library = ::dlopen(location.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return environment_error(fmt::format("cannot load NVRTC: {}", loader_error()));

  NvrtcApi api{};
  const char* missing = nullptr;
#define EPIFUSE_LOOK_UP(entry) \
  if (!look_up(library, #entry, api.entry)) missing = #entry
  EPIFUSE_LOOK_UP(nvrtcVersion);
  EPIFUSE_LOOK_UP(nvrtcGetErrorString);
  EPIFUSE_LOOK_UP(nvrtcCreateProgram);
  EPIFUSE_LOOK_UP(nvrtcCompileProgram);
  EPIFUSE_LOOK_UP(nvrtcGetProgramLogSize);
  EPIFUSE_LOOK_UP(nvrtcGetProgramLog);
  EPIFUSE_LOOK_UP(nvrtcGetCUBINSize);
  EPIFUSE_LOOK_UP(nvrtcGetCUBIN);
  EPIFUSE_LOOK_UP(nvrtcGetPTXSize);
  EPIFUSE_LOOK_UP(nvrtcGetPTX);
  EPIFUSE_LOOK_UP(nvrtcDestroyProgram);
#undef EPIFUSE_LOOK_UP
  if (missing) return environment_error(fmt::format("{} has no {}: it is no usable NVRTC", location.library, missing));

  NvrtcVersion version;
  if (api.nvrtcVersion(&version.major, &version.minor) != nvrtc_result::success || version != location.version) {
    return environment_error(
        fmt::format("{} says that it is version {}, but {} is version {}: they do not belong "
                    "together",
                    location.library, version.text(), location.builtins, location.version.text()));
  }
  return api;
}

}  // namespace epifuse::toolchain
