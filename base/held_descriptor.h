// File descriptors that close themselves, and those with a lock, which a forked child must not keep: the lock is the
// open file's, so it would outlive the process that took it for as long as any child lives.
#pragma once

#include <cerrno>
#include <cstdint>
#include <unistd.h>
#include <utility>

namespace epifuse {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // 0, or the errno of the failure: some file systems report a full disk only here.
  int close() { return ::close(release()) == 0 ? 0 : errno; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// A descriptor whose file may be locked. In a child of the process that made it, it is closed by the fork itself.
class HeldDescriptor {
 public:
  explicit HeldDescriptor(Descriptor descriptor);
  HeldDescriptor(HeldDescriptor&& other) noexcept
      : descriptor_(std::move(other.descriptor_)), made_in_(other.made_in_) {}
  HeldDescriptor& operator=(HeldDescriptor&&) = delete;
  ~HeldDescriptor();

  int get() const { return descriptor_.get(); }
  bool is_ours() const;  // false in a forked child

 private:
  Descriptor descriptor_;
  uint64_t made_in_;
};

}  // namespace epifuse
