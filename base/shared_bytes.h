// Bytes that do not change and that several may hold: a string of one's own, or a part of something larger that is kept
// alive with it (a file's mapping, memory of the program itself). Copies share the bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace epifuse {

class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::string bytes) {
    auto kept = std::make_shared<const std::string>(std::move(bytes));
    view_ = *kept;
    owner_ = std::move(kept);
  }
  SharedBytes(const char* text) : SharedBytes(std::string(text)) {}
  // `owner` keeps `view` alive; null: the caller does, for as long as any copy lives.
  SharedBytes(std::shared_ptr<const void> owner, std::string_view view) : owner_(std::move(owner)), view_(view) {}

  SharedBytes part(size_t offset, size_t size) const { return {owner_, view_.substr(offset, size)}; }

  std::string_view view() const { return view_; }
  operator std::string_view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }

  friend bool operator==(const SharedBytes& a, const SharedBytes& b) { return a.view_ == b.view_; }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view view_;
};

}  // namespace epifuse
