// Tries libraries place by place, and pairs each with its builtins by file name.
#include "compiler/toolchain/nvrtc_locator.h"

#include <algorithm>
#include <charconv>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <system_error>

#include "compiler/toolchain/elf_build_id.h"
#include "compiler/toolchain/nvrtc_places.h"

namespace epifuse::toolchain {
namespace {

constexpr std::string_view hint =
    "Install the CUDA toolkit 12.8 or newer, or the Python package nvidia-cuda-nvrtc, or set EPIFUSE_NVRTC to a "
    "libnvrtc.so";

// The numbers behind `prefix` in a file name: "libnvrtc.so.13" is {13}; nothing when anything else follows.
std::optional<std::vector<int>> version_numbers(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::vector<int> numbers;
  while (!name.empty()) {
    int number = 0;
    if (name.front() != '.') return std::nullopt;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + 1, end, number);
    if (parsed.ec != std::errc()) return std::nullopt;
    numbers.push_back(number);
    name.remove_prefix(static_cast<size_t>(parsed.ptr - name.data()));
  }
  return numbers;
}

struct Builtins {
  std::string name;
  NvrtcVersion version;
};

class Locator {
 public:
  Locator(FileSystem& disk, NvrtcSearch& search) : disk_(disk), search_(search) {}

  // Tries the libraries of a directory, the newest first. True: found.
  bool try_directory(const std::string& directory, const std::string& place) {
    const Result<std::vector<std::string>> names = disk_.list(directory);
    if (!names) return false;
    std::vector<std::pair<std::vector<int>, std::string>> libraries;
    for (const std::string& name : *names) {
      if (const auto numbers = version_numbers(name, "libnvrtc.so")) libraries.emplace_back(*numbers, name);
    }
    std::sort(libraries.rbegin(), libraries.rend());
    // "libnvrtc.so", for developers, is a link to one of the others where there are others.
    if (libraries.size() > 1 && libraries.back().first.empty()) libraries.pop_back();
    for (const auto& [numbers, name] : libraries) {
      if (try_library(directory, name, *names, place)) return true;
    }
    return false;
  }

  bool try_file(const std::string& path, const std::string& place) {
    // The file behind a link is beside its builtins; the link may be elsewhere.
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(path, failed);
    const std::string file = failed ? path : real.string();
    if (!disk_.status(file).exists) return reject(path, place, fmt::format("there is no file or folder {}", file));
    const size_t slash = file.rfind('/');
    const std::string directory = file.substr(0, slash);
    const Result<std::vector<std::string>> names = disk_.list(directory.empty() ? "/" : directory);
    if (!names) return reject(path, place, names.error().message);
    return try_library(directory, file.substr(slash + 1), *names, place);
  }

  bool reject(const std::string& path, const std::string& place, std::string reason) {
    search_.rejected.push_back({path, place, std::move(reason)});
    return false;
  }

 private:
  bool try_library(const std::string& directory, const std::string& name, const std::vector<std::string>& names,
                   const std::string& place) {
    const std::string path = directory + "/" + name;
    const Result<ElfIdentity> elf = read_elf_identity(disk_, path);
    if (!elf) return reject(path, place, elf.error().message);
    if (elf->machine != host_machine()) return reject(path, place, "it is for another processor");

    Result<Builtins> builtins = builtins_of(path, name, names);
    if (!builtins) return reject(path, place, builtins.error().message);
    if (const auto refusal = refuse_version(builtins->version)) return reject(path, place, *refusal);

    NvrtcLocation location{path, directory + "/" + builtins->name, builtins->version, place, "", ""};
    const Result<std::string> ours = library_identity(disk_, location.library, *elf);
    const Result<std::string> theirs = library_identity(disk_, location.builtins);
    if (!ours) return reject(path, place, ours.error().message);
    if (!theirs) return reject(path, place, theirs.error().message);
    location.library_id = *ours;
    location.builtins_id = *theirs;
    search_.found.push_back(std::move(location));
    return true;
  }

  // "libnvrtc.so.13" goes with "libnvrtc-builtins.so.13.N" beside it. N is told by that file's name alone, unless two
  // of them are there: then by the name that the library itself would open.
  Result<Builtins> builtins_of(const std::string& path, const std::string& name,
                               const std::vector<std::string>& names) {
    const size_t suffix = name.find(".so");  // "libnvrtc.alt.so.13" goes with "libnvrtc-builtins.alt.so.13.0"
    constexpr std::string_view stem = "libnvrtc";
    if (suffix == std::string::npos || !name.starts_with(stem)) {
      return environment_error("its name is not that of a libnvrtc");
    }
    const std::string prefix = fmt::format("libnvrtc-builtins{}.so", name.substr(stem.size(), suffix - stem.size()));
    const auto own = version_numbers(name, name.substr(0, suffix + 3));
    if (!own) return environment_error("its name is not that of a libnvrtc");
    std::vector<Builtins> fitting;
    for (const std::string& candidate : names) {
      const auto numbers = version_numbers(candidate, prefix);
      if (!numbers || numbers->size() != 2) continue;
      const bool fits = std::equal(own->begin(), own->begin() + std::min<size_t>(own->size(), 2), numbers->begin());
      if (fits) fitting.push_back({candidate, {(*numbers)[0], (*numbers)[1]}});
    }
    if (fitting.empty()) return environment_error(fmt::format("{}.* of its version is not beside it", prefix));
    if (fitting.size() == 1) return fitting.front();
    const Result<std::string> content = disk_.read(path);
    if (!content) return content.error();
    for (const Builtins& candidate : fitting) {
      // With its end: "…so.13.1" must not be found in "…so.13.10".
      const size_t at = content->find(candidate.name);
      if (at == std::string::npos) continue;
      const size_t end = at + candidate.name.size();
      if (end == content->size() || (*content)[end] < '0' || (*content)[end] > '9') return candidate;
    }
    return environment_error(fmt::format("several {}.* are beside it, and it names none of them", prefix));
  }

  FileSystem& disk_;
  NvrtcSearch& search_;
};

}  // namespace

std::string NvrtcLocation::identity() const {
  std::string text = fmt::format("nvrtc {} {} builtins {} flags", version.text(), library_id, builtins_id);
  for (const std::string& flag : common_flags(version)) text += " " + flag;
  return text;
}

NvrtcSearch locate_nvrtc(FileSystem& disk, const Settings& settings,
                         const std::function<std::vector<std::string>()>& program_folders) {
  NvrtcSearch search;
  Locator locator(disk, search);
  if (!settings.nvrtc.empty()) {
    const std::string place = "EPIFUSE_NVRTC";
    search.places.push_back(fmt::format("{} ({})", place, settings.nvrtc));
    if (disk.list(settings.nvrtc)) {
      if (!locator.try_directory(settings.nvrtc, place) && search.rejected.empty()) {
        locator.reject(settings.nvrtc, place, "there is no libnvrtc.so in it");
      }
    } else {
      locator.try_file(settings.nvrtc, place);
    }
    return search;
  }
  for (const NvrtcPlace& place : nvrtc_places(disk, settings, program_folders)) {
    search.places.push_back(place.name);
    std::set<std::string> tried;  // several ways lead to one directory
    for (const auto& part : place.directories) {
      for (const std::string& directory : part()) {
        if (tried.insert(directory).second && locator.try_directory(directory, place.name)) return search;
      }
    }
  }
  return search;
}

Result<NvrtcLocation> NvrtcSearch::result() const {
  if (!found.empty()) return found.front();
  std::string message = fmt::format("no usable NVRTC was found in {}.", fmt::join(places, ", "));
  for (const RejectedNvrtc& library : rejected) {
    message += fmt::format("\n  {} ({}): {}", library.path, library.place, library.reason);
  }
  return environment_error(fmt::format("{}\n{}", message, hint));
}

std::vector<std::string> folders_of_this_program() {
  std::vector<std::string> folders;
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) folders.push_back(program.parent_path().string());
  Dl_info here;
  if (::dladdr(reinterpret_cast<void*>(&folders_of_this_program), &here) != 0 && here.dli_fname) {
    const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, failed);
    if (!failed) folders.push_back(library.parent_path().string());
  }
  return folders;
}

}  // namespace epifuse::toolchain
