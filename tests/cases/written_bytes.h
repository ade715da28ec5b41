// Which bytes of its outputs a kernel writes, and with what, found from two runs over outputs that held different bytes
// before. Other runs of the same problem (with other rubbish in the rows that nobody owns, on another stream, replayed)
// are compared with that.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "base/numbers.h"
#include "compiler/interpreter/host_tensor.h"

namespace epifuse::test {

class WrittenBytes {
 public:
  // `run` returns the outputs of one run whose outputs held `poison` in every byte before.
  explicit WrittenBytes(const std::function<interpreter::Buffers(uint8_t poison)>& run)
      : first_(run(0xFF)), second_(run(0xAA)) {}

  // Nothing, or the first output whose written bytes are not the same in all three runs, or whose other bytes are not
  // those of `before`, with how many there are.
  std::string difference(const interpreter::Buffers& got, const interpreter::Buffers& before) const {
    return compare(got, [&](const std::string& name, size_t i) { return before.at(name).bytes[i]; });
  }
  // The same where every byte was `poison`.
  std::string difference(const interpreter::Buffers& got, uint8_t poison) const {
    return compare(got, [&](const std::string&, size_t) { return poison; });
  }

  // The first written element that is no finite number (an all-ones code, an infinity, the NaN scale), or nothing.
  std::string not_finite() const {
    for (const auto& [name, tensor] : first_) {
      const size_t bytes = static_cast<size_t>(storage_bits(tensor.storage)) / 8;
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        if (is_written(name, static_cast<size_t>(i) * bytes) && !std::isfinite(interpreter::load_one(tensor, i)))
          return name + "[" + std::to_string(i) + "]";
      }
    }
    return "";
  }

  int64_t count(const std::string& name) const {
    int64_t written = 0;
    for (size_t i = 0; i < first_.at(name).bytes.size(); ++i) written += is_written(name, i);
    return written;
  }

  const interpreter::Buffers& outputs() const { return first_; }

 private:
  template <class Held>
  std::string compare(const interpreter::Buffers& got, const Held& held) const {
    for (const auto& [name, tensor] : first_) {
      const interpreter::HostTensor& other = got.at(name);
      if (other.bytes.size() != tensor.bytes.size()) return name + " has another size";
      int64_t wrong = 0, touched = 0;
      for (size_t i = 0; i < tensor.bytes.size(); ++i) {
        if (is_written(name, i))
          wrong += other.bytes[i] != tensor.bytes[i] || second_.at(name).bytes[i] != tensor.bytes[i];
        else
          touched += other.bytes[i] != held(name, i);
      }
      if (wrong + touched != 0)
        return name + ": " + std::to_string(wrong) + " bytes differ, " + std::to_string(touched) + " are nobody's";
    }
    return "";
  }

  bool is_written(const std::string& name, size_t i) const {
    return !(first_.at(name).bytes[i] == 0xFF && second_.at(name).bytes[i] == 0xAA);
  }

  interpreter::Buffers first_, second_;
};

// Fills the rows [first, end) of a tensor whose rows are the first axis.
inline void set_rows(interpreter::HostTensor& tensor, int64_t first, int64_t end, double value) {
  const int64_t width = tensor.extents[0] == 0 ? 0 : tensor.elements() / tensor.extents[0];
  for (int64_t i = first * width; i < end * width; ++i) interpreter::store_one(tensor, i, value);
}

}  // namespace epifuse::test
