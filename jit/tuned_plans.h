// The plans of a tuning file, by canonical request, for whoever plans kernels (CompilerOptions::tuned).
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/log.h"

namespace epifuse::jit {

// Thread-safe. A file that cannot be used costs one warning, and the speed it would have brought.
class TunedPlans {
 public:
  // `path` empty: there are none. `disk` must outlive this.
  TunedPlans(FileSystem& disk, std::string path, LogSink log);

  // The schedule's name for a request (PlannedKernel::request), or "". The file is read at the first question.
  std::string find(const std::string& request);
  // Says in the log that a schedule of the file is none for this kernel.
  void warn_of(const std::string& kernel, const std::string& schedule) const;

  bool any() const { return !path_.empty(); }

 private:
  void read();

  FileSystem& disk_;
  const std::string path_;
  const LogSink log_;
  std::once_flag once_;
  std::map<std::string, std::string> schedules_;  // by key; constant once it is read
};

}  // namespace epifuse::jit
