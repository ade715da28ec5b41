// A driver handle that is destroyed with its owner, on its device, whatever context the thread has then.
#pragma once

#include <utility>

#include "runtime/device.h"

namespace epifuse::runtime {

template <class Handle, auto Destroy>  // Destroy: the member of DriverApi that ends such a handle
class Owned {
 public:
  Owned() = default;
  Owned(DevicePtr device, Handle handle) : device_(std::move(device)), handle_(handle) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    const CurrentContext scope(*device_);
    (void)(device_->driver().*Destroy)(handle_);
  }

  Handle get() const { return handle_; }
  const DevicePtr& device() const { return device_; }

 private:
  void swap(Owned& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
  }

  DevicePtr device_;
  Handle handle_{};
};

}  // namespace epifuse::runtime
