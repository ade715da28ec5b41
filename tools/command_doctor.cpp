// doctor: what this machine has and what that lets Epifuse do, in plain words. It reports problems and has none itself:
// its exit code is 0 whatever is missing. --version is its first lines.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/version.h"
#include "cache/bundle_reader.h"
#include "cache/cache_directory.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/toolchain/nvrtc_locator.h"
#include "jit/bundled_kernels.h"
#include "jit/tuning_file.h"
#include "runtime/device.h"
#include "tools/commands.h"
#include "tools/count_text.h"
#include "tools/disassemble.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Machine {
  std::string system, architecture;
  int cores = 0;
};

struct Gpus {
  std::string problem;  // why there are none
  int driver_version = 0;
  struct Gpu {
    runtime::DeviceInfo info;
    std::string target, problem;  // one of the two
  };
  std::vector<Gpu> list;

  bool usable() const {
    for (const Gpu& gpu : list)
      if (gpu.problem.empty()) return true;
    return false;
  }
};

struct CacheState {
  std::string directory, state;
  bool usable = false;
  size_t entries = 0;
  uint64_t bytes = 0;
};

Machine this_machine() {
  utsname names{};
  Machine machine;
  if (::uname(&names) == 0) {
    machine.system = fmt::format("{} {}", names.sysname, names.release);
    machine.architecture = names.machine;
  }
  machine.cores = interpreter::default_threads();
  return machine;
}

Gpus find_gpus() {
  Gpus gpus;
  const Result<runtime::Driver> driver = runtime::load_driver();
  if (!driver) return gpus.problem = driver.error().message, gpus;
  if (const Result<int> version = runtime::driver_version(**driver)) gpus.driver_version = *version;
  const Result<std::vector<runtime::DeviceInfo>> devices = runtime::list_devices(**driver);
  if (!devices) return gpus.problem = devices.error().message, gpus;
  for (const runtime::DeviceInfo& info : *devices) {
    const Result<Target> target = runtime::target_of(info);
    gpus.list.push_back({info, target ? target->name : "", target ? "" : target.error().message});
  }
  if (gpus.list.empty()) gpus.problem = "the driver sees no GPU";
  return gpus;
}

CacheState look_at_cache(const Surroundings& world) {
  CacheState cache;
  cache.directory = world.settings.cache_directory;
  if (cache.directory.empty()) {
    cache.state = world.settings.cache_wanted ? "no place for one: set EPIFUSE_CACHE_DIR or HOME"
                                              : "off: kernels are kept in memory only";
    return cache;
  }
  // Looking must not make the directory.
  if (!world.disk.status(cache.directory).exists) {
    cache.usable = true;
    cache.state = "not made yet";
    return cache;
  }
  cache::CacheDirectory directory(world.disk, cache.directory, cache::CacheDirectory::Use::writable);
  if (const Status opened = directory.open(); !opened)
    return cache.state = "not used: " + opened.error().message, cache;
  if (::access(cache.directory.c_str(), W_OK) != 0) return cache.state = "not used: it cannot be written", cache;
  cache.usable = true;
  cache.state = "good";
  if (const Result<std::vector<std::string>> names = directory.names()) {
    cache.entries = names->size();
    for (const std::string& name : *names) cache.bytes += world.disk.status(directory.path() + "/" + name).size;
  }
  return cache;
}

toolchain::NvrtcSearch find_nvrtc(const Surroundings& world) {
  return toolchain::locate_nvrtc(world.disk, world.settings, toolchain::folders_of_this_program);
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string gpu_text(const Gpus& gpus) {
  if (gpus.list.empty()) return fmt::format("GPUs        none: {}\n", gpus.problem);
  std::string text =
      fmt::format("driver      for CUDA {}.{}\n", gpus.driver_version / 1000, gpus.driver_version % 1000 / 10);
  for (const Gpus::Gpu& gpu : gpus.list)
    text += fmt::format("GPU {:<8}{}, {} multiprocessors, {:.1f} GiB: {}\n", gpu.info.ordinal, gpu.info.name,
                        gpu.info.sm_count, double(gpu.info.memory_bytes) / (uint64_t{1} << 30),
                        gpu.problem.empty() ? gpu.target : gpu.problem);
  return text;
}

std::string nvrtc_text(const toolchain::NvrtcSearch& search) {
  std::string text;
  if (search.found.empty()) {
    text = "NVRTC       none\n";
  } else {
    const toolchain::NvrtcLocation& nvrtc = search.found.front();
    text = fmt::format("NVRTC       {} at {} (from {})\n", nvrtc.version.text(), nvrtc.library, nvrtc.place);
  }
  if (!search.places.empty()) text += fmt::format("            looked in {}\n", join(search.places));
  for (const toolchain::RejectedNvrtc& library : search.rejected)
    text += fmt::format("            not used: {} ({}): {}\n", library.path, library.place, library.reason);
  return text;
}

// The tuning file that is set; empty texts: none is.
struct TuningState {
  std::string file, state;
  size_t plans = 0;
  std::vector<std::string> problems;  // the first says why the file is not used, where it is not
};

TuningState look_at_tuning(const Surroundings& world) {
  TuningState tuning;
  tuning.file = world.settings.tuning;
  if (tuning.file.empty()) return tuning;
  const Result<jit::TuningFile> file = jit::read_tuning_file(world.disk, tuning.file);
  if (!file) {
    tuning.state = "not used: " + file.error().message;
    tuning.problems = {file.error().message};
    return tuning;
  }
  tuning.plans = file->plans.size();
  tuning.state = count_text(tuning.plans, "plan", "plans");
  tuning.problems = file->unusable;
  tuning.problems.insert(tuning.problems.end(), file->replaced.begin(), file->replaced.end());
  for (const std::string& problem : tuning.problems) tuning.state += "\n            " + problem;
  return tuning;
}

// A bundle of EPIFUSE_BUNDLES.
struct BundleState {
  std::string file, state;
  size_t kernels = 0;   // 0 where it is not used
  std::string problem;  // empty: every byte of it is good
};

std::vector<BundleState> look_at_bundles(const Surroundings& world) {
  std::vector<BundleState> bundles;
  for (const std::string& file : world.settings.bundles) {
    BundleState& bundle = bundles.emplace_back();
    bundle.file = file;
    const Result<cache::BundlePtr> opened = cache::BundleReader::open(world.disk, file);
    if (!opened) {
      bundle.problem = opened.error().message;
      bundle.state = "not used: " + bundle.problem;
      continue;
    }
    bundle.kernels = (*opened)->size();
    bundle.state = kernels_text(bundle.kernels);
    if (const Status good = jit::verify_bundle(**opened); !good) {
      bundle.problem = good.error().message;
      bundle.state += ", but for what is damaged: " + bundle.problem;
    }
  }
  return bundles;
}

struct Ability {
  std::string_view key, what;
  bool can = false;
  std::string why_not;
};

std::vector<Ability> abilities(const Surroundings& world, const Gpus& gpus, const toolchain::NvrtcSearch& search,
                               const CacheState& cache) {
  const bool nvrtc = !search.found.empty(), jit = world.settings.jit;
  const Result<std::string> nvdisasm = find_nvdisasm(world.disk, world.settings);
  return {
      {"check", "check specs, print every stage to CUDA, and run kernels on the interpreter", true, ""},
      {"compile", "compile kernels for sm_90a", nvrtc && jit,
       !jit ? "EPIFUSE_JIT is off"
            : "no NVRTC: install the CUDA toolkit 12.8 or newer or the Python package nvidia-cuda-nvrtc, or set "
              "EPIFUSE_NVRTC"},
      {"cache", "keep compiled kernels for the next process", cache.usable, cache.state},
      {"run_gpu", "run and verify kernels on a GPU", gpus.usable(),
       gpus.list.empty() ? gpus.problem : gpus.list.front().problem},
      {"sass", "print SASS", bool(nvdisasm), nvdisasm ? "" : nvdisasm.error().message},
  };
}

}  // namespace

std::string version_text(Surroundings& world) {
  const toolchain::NvrtcSearch search = find_nvrtc(world);
  std::string nvrtc = "not found; epifuse doctor says where it was looked for";
  if (!search.found.empty())
    nvrtc = fmt::format("{} at {}", search.found.front().version.text(), search.found.front().library);
  return fmt::format("epifuse {}\ncommit {}\nNVRTC {}\n", version, commit(), nvrtc);
}

Report doctor(const CommandLine&, Surroundings& world) {
  const Machine machine = this_machine();
  const Gpus gpus = find_gpus();
  const toolchain::NvrtcSearch search = find_nvrtc(world);
  const CacheState cache = look_at_cache(world);
  const TuningState tuning = look_at_tuning(world);
  const std::vector<BundleState> bundles = look_at_bundles(world);

  Report report;
  std::string& text = report.text;
  text = fmt::format("epifuse     {} (commit {}), language {}\n", version, commit(), language_version);
  text += fmt::format("machine     {}, {}, {} cores\n", machine.system, machine.architecture, machine.cores);
  text += gpu_text(gpus) + nvrtc_text(search);
  text += fmt::format("cache       {}{}{}", cache.directory, cache.directory.empty() ? "" : ": ", cache.state);
  text += cache.entries ? fmt::format(", {}, {}\n", entries_text(cache.entries), bytes_text(cache.bytes)) : "\n";
  for (const BundleState& bundle : bundles) text += fmt::format("bundle      {}: {}\n", bundle.file, bundle.state);
  if (!tuning.file.empty()) text += fmt::format("tuning      {}: {}\n", tuning.file, tuning.state);
  if (!world.settings_problem.empty()) text += fmt::format("problem     {}\n", world.settings_problem);

  Json settings = Json::array();
  text += "\nSettings (environment variables)\n";
  for (const SettingRow& row : settings_table()) {
    text += fmt::format("  {:19} {}{}\n", row.variable, row.value.empty() ? "-" : row.value,
                        row.is_set || row.value.empty() ? "" : " (default)");
    settings.push_back({{"name", row.variable}, {"value", row.value}, {"set", row.is_set}, {"meaning", row.meaning}});
  }
  for (const std::string& variable : world.settings.toolchain_environment)
    text += fmt::format("  {}: NVRTC reads this by itself, and it may change the code\n", variable);

  Json can = Json::object();
  text += "\nThis machine can\n";
  for (const Ability& ability : abilities(world, gpus, search, cache)) {
    can[std::string(ability.key)] = ability.can;
    text += fmt::format("  {:3}  {}{}\n", ability.can ? "yes" : "no", ability.what,
                        ability.can ? "" : fmt::format(": {}", ability.why_not));
  }

  Json devices = Json::array(), rejected = Json::array(), of_bundles = Json::array();
  for (const BundleState& bundle : bundles)
    of_bundles.push_back({{"file", bundle.file},
                          {"count", bundle.kernels},
                          {"problem", bundle.problem.empty() ? Json() : Json(bundle.problem)}});
  for (const Gpus::Gpu& gpu : gpus.list)
    devices.push_back({{"ordinal", gpu.info.ordinal},
                       {"name", gpu.info.name},
                       {"compute_capability", fmt::format("{}.{}", gpu.info.major, gpu.info.minor)},
                       {"multiprocessors", gpu.info.sm_count},
                       {"memory_bytes", gpu.info.memory_bytes},
                       {"target", gpu.target.empty() ? Json() : Json(gpu.target)}});
  for (const toolchain::RejectedNvrtc& library : search.rejected)
    rejected.push_back({{"path", library.path}, {"place", library.place}, {"reason", library.reason}});
  Json nvrtc = {{"found", !search.found.empty()}};
  if (!search.found.empty()) {
    const toolchain::NvrtcLocation& found = search.found.front();
    nvrtc.update({{"version", found.version.text()}, {"library", found.library}, {"place", found.place}});
  }
  nvrtc["places"] = search.places;
  nvrtc["rejected"] = std::move(rejected);
  const Json fields = {
      {"version", version},
      {"commit", commit()},
      {"language", language_version},
      {"system", machine.system},
      {"architecture", machine.architecture},
      {"cores", machine.cores},
      {"driver", gpus.driver_version ? Json(gpus.driver_version) : Json()},
      {"gpus", std::move(devices)},
      {"gpu_problem", gpus.problem},
      {"nvrtc", std::move(nvrtc)},
      {"cache",
       {{"directory", cache.directory},
        {"state", cache.state},
        {"usable", cache.usable},
        {"entries", cache.entries},
        {"bytes", cache.bytes}}},
      {"bundles", std::move(of_bundles)},
      {"tuning", tuning.file.empty()
                     ? Json()
                     : Json{{"file", tuning.file}, {"count", tuning.plans}, {"problems", tuning.problems}}},
      {"settings", std::move(settings)},
      {"settings_problem", world.settings_problem},
      {"can", std::move(can)}};
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace epifuse::tools
