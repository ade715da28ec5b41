// cache prune, cache clear: making room.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/count_text.h"
#include "tools/look_into_cache.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

Report tidy(Surroundings& world, uint64_t most_bytes, bool everything) {
  cache::KernelCache cache(world.disk, looking_options(world));
  if (Status used = cache.own_directory(); !used) return failure(used.error());
  const Result<cache::Tidied> tidied = cache.prune(most_bytes, everything);
  if (!tidied) return failure(tidied.error());
  Report report;
  report.text = fmt::format(
      "removed {}, {} and {}: {}\n{}, {}, in {}\n", entries_text(tidied->removed_entries),
      count_text(tidied->removed_leftovers, "leftover of a killed process", "leftovers of killed processes"),
      count_text(tidied->removed_bad, "file that could not be used", "files that could not be used"),
      bytes_text(tidied->removed_bytes), entries_text(tidied->entries), bytes_text(tidied->bytes),
      own_place(world.settings));
  if (tidied->not_removed > 0) {
    report.code = ExitCode::machine;
    report.error =
        fmt::format("{} could not be removed: {}", count_text(tidied->not_removed, "file", "files"), tidied->problem);
  }
  const Json fields = {{"directory", world.settings.cache_directory},
                       {"kept_entries", tidied->entries},
                       {"kept_bytes", tidied->bytes},
                       {"removed_entries", tidied->removed_entries},
                       {"removed_leftovers", tidied->removed_leftovers},
                       {"removed_bad", tidied->removed_bad},
                       {"removed_bytes", tidied->removed_bytes},
                       {"not_removed", tidied->not_removed}};
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace

Report cache_prune(const CommandLine& line, Surroundings& world) {
  return tidy(world, line.cache_bytes.value_or(world.settings.cache_bytes), false);
}

Report cache_clear(const CommandLine&, Surroundings& world) { return tidy(world, 0, true); }

}  // namespace epifuse::tools
