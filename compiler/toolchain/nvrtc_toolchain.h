// The toolchain that runs NVRTC in this process, hermetically: headers from memory only, an absolute name for the
// program (then NVRTC does not look into the working directory either), and a random seed that follows from the
// request, so that equal requests give equal bytes in every process.
//
// Environment variables that NVRTC itself reads are left alone, because changing the environment of a running process
// races with every getenv in it; a compile under one that can change the code carries a note.
#pragma once

#include <mutex>
#include <optional>

#include "base/file_system.h"
#include "base/settings.h"
#include "compiler/toolchain/nvrtc_api.h"
#include "compiler/toolchain/nvrtc_locator.h"
#include "compiler/toolchain/toolchain.h"

namespace epifuse::toolchain {

class NvrtcToolchain : public Toolchain {
 public:
  NvrtcToolchain(FileSystem& disk, Settings settings) : disk_(disk), settings_(std::move(settings)) {}

  Result<std::string> identity() override;
  Result<CompileOutcome> compile(const CompileRequest& request) override;

  // Which library is used, and why; looked for once, or taken from a note of an earlier search (nvrtc_note.h).
  Result<NvrtcLocation> location();

 private:
  Result<NvrtcLocation> locate();
  Result<NvrtcApi> api();  // loads NVRTC at the first call

  FileSystem& disk_;
  const Settings settings_;
  std::mutex mutex_;
  std::optional<Result<NvrtcLocation>> location_;
  std::optional<Result<NvrtcApi>> api_;
  bool is_noted_ = false;
};

}  // namespace epifuse::toolchain
