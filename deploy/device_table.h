// The GPUs that a program works on, each opened when it is asked for the first time: what every C interface of Epifuse
// keeps behind its first pointer.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "runtime/device.h"

namespace epifuse::deploy {

inline constexpr int no_device = -1;       // on no GPU: what a bundle has is known without one
inline constexpr int current_device = -2;  // that of the thread's current CUDA context, else GPU 0

// Thread-safe.
class DeviceTable {
 public:
  using LoadDriver = std::function<Result<runtime::Driver>()>;
  // The driver is opened when a GPU is needed for the first time.
  explicit DeviceTable(LoadDriver load_driver) : load_driver_(std::move(load_driver)) {}

  // An ordinal, no_device (gives null) or current_device. Errors: the driver's; after seal() a GPU that is not open yet
  // (environment).
  Result<runtime::DevicePtr> open(int ordinal);
  void seal();

 private:
  const LoadDriver load_driver_;
  std::mutex mutex_;  // guards what follows
  bool sealed_ = false;
  runtime::Driver driver_;
  std::map<int, runtime::DevicePtr> devices_;
};

}  // namespace epifuse::deploy
