// One run per name across the threads of a process: the first caller works, those that come meanwhile wait for it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace epifuse::cache {

class SingleFlight {
 public:
  // The right to work on a name, given up when it is destroyed, also by an exception.
  class Turn {
   public:
    Turn(SingleFlight* owner, std::string name) : owner_(owner), name_(std::move(name)) {}
    Turn(Turn&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), name_(std::move(other.name_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    SingleFlight* owner_;
    std::string name_;
  };

  // Returns when nobody else has the turn for `name`. The caller looks then whether the work is still to be done.
  Turn take(const std::string& name);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> busy_;  // the names that someone works on
};

}  // namespace epifuse::cache
