// Turns by name, handed on with one condition variable: they last for a compile, so waking all is cheap.
#include "cache/single_flight.h"

namespace epifuse::cache {

SingleFlight::Turn SingleFlight::take(const std::string& name) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !busy_.contains(name); });
  busy_.insert(name);
  return Turn(this, name);
}

SingleFlight::Turn::~Turn() {
  if (!owner_) return;
  {
    const std::lock_guard<std::mutex> lock(owner_->mutex_);
    owner_->busy_.erase(name_);
  }
  owner_->changed_.notify_all();
}

}  // namespace epifuse::cache
