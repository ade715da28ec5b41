// cache prune, cache clear: making room.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/kernel_cache.h"
#include "tools/commands.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

Report tidy(Surroundings& world, uint64_t most_bytes, bool everything) {
  cache::KernelCache cache(world.disk, cache::cache_options(world.settings, world.log));
  const Result<cache::Tidied> tidied = cache.prune(most_bytes, everything);
  if (!tidied) return failure(tidied.error());
  const std::string& directory = world.settings.cache_directory;
  Report report;
  report.text = fmt::format(
      "removed {} entries, {} leftovers of killed processes and {} files that were set aside: {} bytes\n"
      "{} entries, {} bytes, in {}\n",
      tidied->removed_entries, tidied->removed_leftovers, tidied->removed_bad, tidied->removed_bytes, tidied->entries,
      tidied->bytes, directory.empty() ? "no directory: kernels are kept in memory only" : directory);
  const Json fields = {{"directory", directory},
                       {"kept_entries", tidied->entries},
                       {"kept_bytes", tidied->bytes},
                       {"removed_entries", tidied->removed_entries},
                       {"removed_leftovers", tidied->removed_leftovers},
                       {"removed_bad", tidied->removed_bad},
                       {"removed_bytes", tidied->removed_bytes}};
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace

Report cache_prune(const CommandLine& line, Surroundings& world) {
  return tidy(world, line.cache_bytes.value_or(world.settings.cache_bytes), false);
}

Report cache_clear(const CommandLine&, Surroundings& world) { return tidy(world, 0, true); }

}  // namespace epifuse::tools
