// One walk over the directory, then removals from the least recently used on.
#include "cache/housekeeping.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace epifuse::cache {
namespace {

// In seconds. A file is written, and a claim honoured, in much less than an hour; a file that was set aside is for a
// person, who may be on holiday.
constexpr int64_t leftover_age = 3600, bad_age = 14 * 24 * 3600;

// By which the clocks of machines that share a disk may differ.
constexpr int64_t clock_slack = 3600;

struct Seen {
  bool is_bad = false;
  int64_t used = 0;
  std::string name;
  uint64_t bytes = 0;
};

class Walk {
 public:
  Walk(FileSystem& disk, const std::string& directory, const Housekeeping& wanted)
      : disk_(disk), directory_(directory), wanted_(wanted) {}

  void visit(const std::string& name) {
    const FileKind kind = file_kind(name);
    if (kind == FileKind::foreign) return;
    const FileStatus status = disk_.status(path(name));
    if (!status.exists) return;
    const int64_t used = status.modified > wanted_.now + clock_slack ? 0 : status.modified;
    const int64_t age = wanted_.now - used;
    switch (kind) {
      case FileKind::temporary:
      case FileKind::lock:
      case FileKind::claim:
        if (wanted_.all_leftovers || age > leftover_age) remove_leftover(name, kind, status, age);
        break;
      case FileKind::note:
        if (wanted_.all_entries) (void)remove(name);
        break;
      case FileKind::bad:
        if (wanted_.all_leftovers || wanted_.all_entries || age > bad_age) {
          if (!remove(Seen{true, 0, name, status.allocated})) tidied_.bytes += status.allocated;
          break;
        }
        [[fallthrough]];
      default: keep({kind == FileKind::bad, used, name, status.allocated}); break;
    }
  }

  Tidied finish() {
    // Not to the last byte, or the next entry would make it necessary again.
    const bool too_large = wanted_.most_bytes != 0 && tidied_.bytes > wanted_.most_bytes;
    const uint64_t goal = too_large ? wanted_.most_bytes / 10 * 9 : tidied_.bytes;
    std::sort(kept_.begin(), kept_.end(), [](const Seen& a, const Seen& b) {
      return std::tuple(!a.is_bad, a.used, a.name) < std::tuple(!b.is_bad, b.used, b.name);
    });
    for (const Seen& seen : kept_) {
      if (!wanted_.all_entries && tidied_.bytes <= goal) break;
      if (seen.name != wanted_.just_made && remove(seen)) forget(seen);
    }
    return tidied_;
  }

 private:
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  void keep(Seen seen) {
    tidied_.bytes += seen.bytes;
    if (!seen.is_bad) ++tidied_.entries;
    kept_.push_back(std::move(seen));
  }

  void forget(const Seen& seen) {
    tidied_.bytes -= seen.bytes;
    if (!seen.is_bad) --tidied_.entries;
  }

  bool remove(const std::string& name) {
    const Status removed = disk_.remove(path(name));
    if (removed || !disk_.status(path(name)).exists) return static_cast<bool>(removed);
    if (++tidied_.not_removed == 1) tidied_.problem = removed.error().message;
    return false;
  }

  bool remove(const Seen& seen) {
    if (!remove(seen.name)) return false;
    tidied_.removed_bytes += seen.bytes;
    ++(seen.is_bad ? tidied_.removed_bad : tidied_.removed_entries);
    return true;
  }

  void remove_leftover(const std::string& name, FileKind kind, const FileStatus& status, int64_t age) {
    // Nobody holds a claim, nor what is no file.
    bool held = kind != FileKind::claim && !status.is_directory && !status.is_symlink && !status.is_special;
    if (held) {
      const Result<bool> abandoned = disk_.remove_abandoned(path(name));
      if (abandoned && *abandoned) ++tidied_.removed_leftovers;
      held = abandoned || age <= leftover_age;
    }
    if (!held && remove(name)) ++tidied_.removed_leftovers;
  }

  FileSystem& disk_;
  const std::string& directory_;
  const Housekeeping& wanted_;
  Tidied tidied_;
  std::vector<Seen> kept_;
};

}  // namespace

Result<Tidied> tidy(FileSystem& disk, const std::string& directory, const Housekeeping& wanted) {
  const Result<std::vector<std::string>> names = disk.list(directory);
  if (!names) return names.error();
  Walk walk(disk, directory, wanted);
  for (const std::string& name : *names) walk.visit(name);
  return walk.finish();
}

}  // namespace epifuse::cache
