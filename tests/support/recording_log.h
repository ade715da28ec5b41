// A log sink that keeps its lines, for tests that count warnings.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace epifuse::test {

class RecordingLog {
 public:
  LogSink sink() {
    return [this](LogLevel level, std::string_view text) {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (level <= LogLevel::warn) warnings_.emplace_back(text);
    };
  }
  std::vector<std::string> warnings() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return warnings_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
};

}  // namespace epifuse::test
