// The kernel cache as commands look into it: nothing is made for it, and an own directory that is refused is an answer
// and no warning.
#pragma once

#include <string>

#include "cache/kernel_cache.h"
#include "jit/artifact_store.h"
#include "tools/commands.h"

namespace epifuse::tools {

inline cache::CacheOptions looking_options(const Surroundings& world) {
  cache::CacheOptions options = cache::cache_options(world.settings, world.log);
  options.create = false;
  options.check = jit::check_entry;
  return options;
}

// "no directory: …" for a cache that keeps kernels in memory only.
inline std::string own_place(const Settings& settings) {
  if (!settings.cache_directory.empty()) return settings.cache_directory;
  return settings.cache_wanted ? "no directory: set EPIFUSE_CACHE_DIR or HOME"
                               : "no directory: EPIFUSE_CACHE_DIR is off";
}

}  // namespace epifuse::tools
