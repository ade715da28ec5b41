// The plans of a tuning file, by canonical request, for whoever plans kernels.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "compiler/compiler.h"

namespace epifuse::jit {

// Thread-safe. A file that cannot be used costs one warning, and the speed it would have brought.
class TunedPlans {
 public:
  // `path` empty: there are none. `disk` must outlive this.
  TunedPlans(FileSystem& disk, std::string path, LogSink log);

  // plan_kernel, with the file's plan first where the options name none and say nothing of others. The log says of a
  // plan of the file that it is none for this kernel. The file is read at the first question.
  std::optional<PlannedKernel> plan(const Program& program, std::string_view kernel, const CompilerOptions& options,
                                    Diagnostics& diagnostics);

 private:
  // The schedule's name for a request (PlannedKernel::request), or "".
  std::string find(const std::string& request);
  void read();

  FileSystem& disk_;
  const std::string path_;
  const LogSink log_;
  std::once_flag once_;
  std::map<std::string, std::string> schedules_;  // by key; constant once it is read
};

}  // namespace epifuse::jit
