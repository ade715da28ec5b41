// One compile: create, compile, take out log, PTX and cubin; and the words for each way that fails.
#include "compiler/toolchain/nvrtc_toolchain.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/toolchain/artifact_request.h"
#include "compiler/toolchain/nvrtc_note.h"
#include "compiler/toolchain/ptxas_log.h"

namespace epifuse::toolchain {
namespace {

constexpr NvrtcVersion phases_since{13, 0};  // the table's form was tried from here on

// One program of NVRTC, destroyed with its owner.
class Program {
 public:
  explicit Program(const NvrtcApi& api) : api_(api) {}
  Program(const Program&) = delete;
  ~Program() {
    if (handle_) api_.nvrtcDestroyProgram(&handle_);
  }

  nvrtcResult create(const CompileRequest& request) {
    std::vector<const char*> texts, names;
    for (const Header& header : request.headers) {
      texts.push_back(header.text.data());
      names.push_back(header.path.data());
    }
    const std::string name = fmt::format("/epifuse/{}.cu", request.program_name);
    return api_.nvrtcCreateProgram(&handle_, request.source.c_str(), name.c_str(), static_cast<int>(texts.size()),
                                   texts.data(), names.data());
  }

  nvrtcResult compile(const std::vector<std::string>& flags) {
    std::vector<const char*> texts;
    for (const std::string& flag : flags) texts.push_back(flag.c_str());
    return api_.nvrtcCompileProgram(handle_, static_cast<int>(texts.size()), texts.data());
  }

  // Log and PTX are texts that end with a zero, which is cut off.
  std::string log() { return text(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog); }
  std::string ptx() { return text(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX); }
  std::string cubin() { return bytes(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN); }

 private:
  using GetSize = nvrtcResult (*)(nvrtcProgram, size_t*);
  using Get = nvrtcResult (*)(nvrtcProgram, char*);

  std::string bytes(GetSize get_size, Get get) {
    size_t size = 0;
    if (get_size(handle_, &size) != nvrtc_result::success) return "";
    std::string result(size, '\0');
    if (get(handle_, result.data()) != nvrtc_result::success) return "";
    return result;
  }
  std::string text(GetSize get_size, Get get) {
    std::string result = bytes(get_size, get);
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

  const NvrtcApi& api_;
  nvrtcProgram handle_ = nullptr;
};

// A file in memory for the compiler to write into, by a name of this process.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("epifuse", MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Empty where it has none: without /proc.
  std::string path() const {
    const std::string path = fmt::format("/proc/self/fd/{}", descriptor_);
    return descriptor_ >= 0 && ::access(path.c_str(), W_OK) == 0 ? path : "";
  }
  std::string content() const {
    char bytes[4096];
    const ssize_t count = descriptor_ < 0 ? 0 : ::pread(descriptor_, bytes, sizeof bytes, 0);
    return {bytes, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  int descriptor_;
};

Error compile_error(const NvrtcApi& api, const NvrtcLocation& location, const CompileRequest& request,
                    nvrtcResult result, const std::string& log) {
  const std::string compiler = fmt::format("NVRTC {} ({})", location.version.text(), location.library);
  // A text that it refuses has a log. Without one it is the compiler that does not work.
  if (result == nvrtc_result::compilation && log.find_first_not_of(" \t\r\n") == std::string::npos) {
    return environment_error(fmt::format("{} failed on '{}' without a log ({}); is its libnvrtc-builtins damaged ({})?",
                                         compiler, request.program_name, api.nvrtcGetErrorString(result),
                                         location.builtins));
  }
  if (result == nvrtc_result::compilation) {
    return user_error(
        fmt::format("{} refused the CUDA text of '{}' for {}:\n{}", compiler, request.program_name, request.arch, log));
  }
  if (result == nvrtc_result::invalid_option) {
    return environment_error(
        fmt::format("{} does not know an option that '{}' is compiled with: {}", compiler, request.program_name, log));
  }
  return environment_error(fmt::format("{} failed on '{}': {}{}{}", compiler, request.program_name,
                                       api.nvrtcGetErrorString(result), log.empty() ? "" : "\n", log));
}

}  // namespace

Result<NvrtcLocation> NvrtcToolchain::location() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!location_) location_ = locate();
  return *location_;
}

Result<NvrtcLocation> NvrtcToolchain::locate() {
  if (auto noted = read_nvrtc_note(disk_, settings_, std::time(nullptr), folders_of_this_program)) {
    is_noted_ = true;
    return *std::move(noted);
  }
  Result<NvrtcLocation> found = locate_nvrtc(disk_, settings_, folders_of_this_program).result();
  if (found) write_nvrtc_note(disk_, settings_, *found, folders_of_this_program);
  return found;
}

Result<std::string> NvrtcToolchain::identity() {
  const Result<NvrtcLocation> found = location();
  if (!found) return found.error();
  return found->identity();
}

Result<NvrtcApi> NvrtcToolchain::api() {
  const Result<NvrtcLocation> found = location();
  if (!found) return found.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!api_) {
    api_ = open_nvrtc(disk_, *found);
    // The search of a first start came before there was a directory for a note.
    if (*api_ && !is_noted_) write_nvrtc_note(disk_, settings_, *found, folders_of_this_program);
  }
  return *api_;
}

Result<CompileOutcome> NvrtcToolchain::compile(const CompileRequest& request) {
  const Result<NvrtcApi> loaded = api();
  if (!loaded) return loaded.error();
  const NvrtcLocation found = *location();

  const auto start = std::chrono::steady_clock::now();
  const std::string seed = artifact_key(request, "", "").first();
  const MemoryFile times;
  Program program(*loaded);
  nvrtcResult result = program.create(request);
  if (result == nvrtc_result::success) {
    std::vector<std::string> flags = compile_flags(found.version, request.arch, seed, request.flags);
    // It changes no byte of the cubin, so it is not among the flags that the identity names.
    const std::string table = found.version >= phases_since ? times.path() : "";
    if (!table.empty()) flags.push_back("--time=" + table);
    result = program.compile(flags);
  }
  CompileOutcome outcome;
  outcome.log = program.log();
  if (result != nvrtc_result::success) return compile_error(*loaded, found, request, result, outcome.log);
  outcome.cubin = program.cubin();
  outcome.ptx = program.ptx();
  if (outcome.cubin.empty()) {
    return environment_error(
        fmt::format("{} gave no cubin for '{}' on {}", found.library, request.program_name, request.arch));
  }
  read_ptxas_log(outcome);
  outcome.phases = parse_phase_times(times.content());
  for (const std::string& variable : settings_.toolchain_environment) {
    outcome.notes.push_back(
        fmt::format("{} is set, which NVRTC reads: the code may differ from what the cache key says", variable));
  }
  outcome.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace epifuse::toolchain
