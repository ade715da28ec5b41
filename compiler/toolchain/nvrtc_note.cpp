// Writes and believes notes.
#include "compiler/toolchain/nvrtc_note.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/artifact_key.h"
#include "base/artifact_record.h"
#include "base/digest.h"
#include "compiler/toolchain/nvrtc_places.h"

namespace epifuse::toolchain {
namespace {

using ProgramFolders = std::function<std::vector<std::string>()>;

constexpr std::string_view note_version = "1";
constexpr int64_t lifetime = 600;  // seconds
constexpr std::string_view check = "check 32:";

bool is_relative(const std::string& path) { return !path.starts_with('/'); }

// Empty: no note for these settings.
std::string note_path(const Settings& settings) {
  if (settings.cache_directory.empty()) return "";
  ArtifactRecord record;
  record.add("nvrtc", settings.nvrtc).add("cuda_home", settings.cuda_home).add("home", settings.home);
  for (const auto* list : {&settings.program_directories, &settings.library_directories}) {
    if (std::any_of(list->begin(), list->end(), is_relative)) return "";
    record.add("directories", fmt::format("{}", fmt::join(*list, ":")));
  }
  return fmt::format("{}/{}{}", settings.cache_directory, toolchain_note_prefix, digest(record.take()).hex());
}

// Empty: there is no such file.
std::string state_of(FileSystem& disk, const std::string& path) {
  const FileStatus status = disk.target_status(path);
  if (!status.exists) return "";
  return fmt::format("{} {} {} {} {}", status.device, status.inode, status.size, status.modified_ns, status.changed_ns);
}

std::string folders_for(const std::string& place, const ProgramFolders& program_folders) {
  return place == beside_program ? fmt::format("{}", fmt::join(program_folders(), ":")) : "";
}

bool is_ours(const FileStatus& status, const Settings& settings) {
  return !status.is_symlink && status.owner == settings.user && (status.mode & 022) == 0;
}

// The fields of an unharmed note, in the order in which they are written.
std::optional<std::vector<RecordField>> fields_of(std::string_view text) {
  const size_t end = text.rfind(check);
  if (end == std::string_view::npos) return std::nullopt;
  std::optional<std::vector<RecordField>> fields = parse_record(text);
  constexpr size_t count = 12;
  if (!fields || fields->size() != count || fields->back().value != digest(text.substr(0, end)).hex()) {
    return std::nullopt;
  }
  if (fields->front().value != note_version) return std::nullopt;
  return fields;
}

int number(std::string_view text) { return std::atoi(std::string(text).c_str()); }

}  // namespace

std::optional<NvrtcLocation> read_nvrtc_note(FileSystem& disk, const Settings& settings, int64_t now,
                                             const ProgramFolders& program_folders) {
  const std::string path = note_path(settings);
  if (path.empty()) return std::nullopt;
  const Result<FileSystem::Content> content = disk.read_content(path);
  if (!content || !content->status.exists || !is_ours(content->status, settings)) return std::nullopt;
  if (std::abs(now - content->status.modified) > lifetime) return std::nullopt;
  const auto fields = fields_of(content->bytes);
  if (!fields) return std::nullopt;
  const auto text = [&](size_t field) { return std::string((*fields)[field].value); };
  NvrtcLocation location;
  location.library = text(1);
  location.builtins = text(2);
  location.version = {number(text(3)), number(text(4))};
  location.place = text(5);
  location.library_id = text(6);
  location.builtins_id = text(7);
  if (state_of(disk, location.library) != text(8) || state_of(disk, location.builtins) != text(9)) return std::nullopt;
  if (folders_for(location.place, program_folders) != text(10)) return std::nullopt;
  return location;
}

void write_nvrtc_note(FileSystem& disk, const Settings& settings, const NvrtcLocation& location,
                      const ProgramFolders& program_folders) {
  const std::string path = note_path(settings);
  if (path.empty()) return;
  const FileStatus directory = disk.status(settings.cache_directory);
  if (!directory.is_directory || !is_ours(directory, settings)) return;
  const std::string states[] = {state_of(disk, location.library), state_of(disk, location.builtins)};
  if (states[0].empty() || states[1].empty()) return;
  ArtifactRecord record;
  record.add("note", note_version)
      .add("library", location.library)
      .add("builtins", location.builtins)
      .add("major", std::to_string(location.version.major))
      .add("minor", std::to_string(location.version.minor))
      .add("place", location.place)
      .add("library_id", location.library_id)
      .add("builtins_id", location.builtins_id)
      .add("library_state", states[0])
      .add("builtins_state", states[1])
      .add("program", folders_for(location.place, program_folders));
  std::string text = record.take();
  text += fmt::format("{}{}\n", check, digest(text).hex());
  (void)disk.write_atomically(path, text);
}

}  // namespace epifuse::toolchain
