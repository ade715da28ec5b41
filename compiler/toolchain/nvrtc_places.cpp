// Lists directories from settings, the loader's cache, and the layouts of toolkits and Python packages.
#include "compiler/toolchain/nvrtc_places.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "compiler/toolchain/loader_cache.h"
#include "compiler/toolchain/nvrtc_flags.h"

namespace epifuse::toolchain {
namespace {

using Paths = std::vector<std::string>;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

// The names in a directory that start with `prefix`; none where it cannot be listed.
Paths names_in(FileSystem& disk, const std::string& directory, std::string_view prefix = "") {
  Result<Paths> names = disk.list(directory);
  if (!names) return {};
  std::erase_if(*names, [&](const std::string& name) { return !name.starts_with(prefix); });
  return *std::move(names);
}

Paths toolkit_directories(const std::string& toolkit) { return {toolkit + "/lib64", toolkit + "/lib"}; }

Paths toolkit_target_directories(FileSystem& disk, const std::string& toolkit) {
  Paths directories;
  for (const std::string& target : names_in(disk, toolkit + "/targets")) {
    directories.push_back(toolkit + "/targets/" + target + "/lib");
  }
  return directories;
}

Paths loader_cache_directories(FileSystem& disk) {
  Paths directories;
  if (const Result<std::string> cache = disk.read("/etc/ld.so.cache")) {
    for (const std::string& path : libraries_in_loader_cache(*cache, "libnvrtc.so")) {
      directories.push_back(parent_of(path));
    }
  }
  return directories;
}

// From the newest to the oldest.
Paths versioned_toolkit_directories(FileSystem& disk) {
  constexpr std::string_view prefix = "cuda-";
  std::vector<std::pair<NvrtcVersion, std::string>> versions;
  for (const std::string& name : names_in(disk, "/usr/local", prefix)) {
    NvrtcVersion version;
    const char* const end = name.data() + name.size();
    const auto major = std::from_chars(name.data() + prefix.size(), end, version.major);
    if (major.ptr != end) std::from_chars(major.ptr + 1, end, version.minor);
    versions.emplace_back(version, "/usr/local/" + name);
  }
  std::sort(versions.rbegin(), versions.rend());
  Paths directories;
  for (const auto& [version, toolkit] : versions) {
    for (const Paths& of_one : {toolkit_directories(toolkit), toolkit_target_directories(disk, toolkit)}) {
      directories.insert(directories.end(), of_one.begin(), of_one.end());
    }
  }
  return directories;
}

// lib folders of the NVIDIA packages in a folder of Python packages: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib.
Paths package_directories(FileSystem& disk, const std::string& packages) {
  Paths directories;
  for (const std::string& name : names_in(disk, packages + "/nvidia")) {
    directories.push_back(packages + "/nvidia/" + name + "/lib");
  }
  return directories;
}

void add_python_packages(FileSystem& disk, const std::string& prefix, Paths& directories) {
  for (const std::string& library : {prefix + "/lib", prefix + "/local/lib"}) {
    for (const std::string& python : names_in(disk, library, "python3")) {
      for (const char* packages : {"/site-packages", "/dist-packages"}) {
        const Paths found = package_directories(disk, library + "/" + python + packages);
        directories.insert(directories.end(), found.begin(), found.end());
      }
    }
  }
}

// What the python3 on PATH could import, told from its place alone: an environment's own packages, those of the Python
// that it is a link to, the user's, and, where python3 is a shim of pyenv, those of all its versions.
Paths python_directories(FileSystem& disk, const Settings& settings) {
  Paths directories;
  for (const std::string& folder : settings.program_directories) {
    const std::string python = folder + "/python3";
    if (!disk.status(python).exists) continue;
    add_python_packages(disk, parent_of(folder), directories);
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(python, failed);
    if (!failed) add_python_packages(disk, parent_of(parent_of(real.string())), directories);
    if (folder.ends_with("/shims")) {
      const std::string versions = parent_of(folder) + "/versions";
      for (const std::string& version : names_in(disk, versions)) {
        add_python_packages(disk, versions + "/" + version, directories);
      }
    }
    break;
  }
  if (!settings.home.empty()) add_python_packages(disk, settings.home + "/.local", directories);
  return directories;
}

Paths unpacked_directories(FileSystem& disk, const std::vector<std::string>& program_folders) {
  Paths directories;
  for (const std::string& program_folder : program_folders) {
    std::string folder = program_folder;
    for (int above = 0; above <= 3; ++above) {
      const std::string unpacked = folder + "/nvrtc";
      if (disk.status(unpacked).exists) {
        directories.push_back(unpacked);
        directories.push_back(unpacked + "/lib");
        const Paths packages = package_directories(disk, unpacked);
        directories.insert(directories.end(), packages.begin(), packages.end());
      }
      folder = parent_of(folder);
    }
  }
  return directories;
}

}  // namespace

std::vector<NvrtcPlace> nvrtc_places(FileSystem& disk, const Settings& settings,
                                     const std::function<std::vector<std::string>()>& program_folders) {
  std::vector<NvrtcPlace> places;
  if (!settings.cuda_home.empty()) {
    places.push_back({"CUDA_HOME",
                      {[&] { return toolkit_directories(settings.cuda_home); },
                       [&] { return toolkit_target_directories(disk, settings.cuda_home); }}});
  }
  places.push_back({"the loader's path",
                    {[&] { return settings.library_directories; }, [&] { return loader_cache_directories(disk); }}});
  // The first of them is the administrator's choice.
  const std::string local = "/usr/local/cuda";
  places.push_back(
      {"/usr/local/cuda*",
       {[=] { return toolkit_directories(local); }, [=, &disk] { return toolkit_target_directories(disk, local); },
        [&] { return versioned_toolkit_directories(disk); }}});
  places.push_back({"the Python package nvidia-cuda-nvrtc", {[&] { return python_directories(disk, settings); }}});
  places.push_back({std::string(beside_program), {[&] { return unpacked_directories(disk, program_folders()); }}});
  return places;
}

}  // namespace epifuse::toolchain
