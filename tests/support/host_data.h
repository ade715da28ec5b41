// Host tensors for tests: from numbers, from bits, from a seeded generator.
#pragma once

#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "compiler/interpreter/host_tensor.h"

namespace epifuse::test {

using interpreter::HostTensor;

inline HostTensor tensor_of(Storage storage, std::vector<int64_t> extents, const std::vector<double>& values) {
  HostTensor tensor = interpreter::make_tensor(storage, std::move(extents));
  for (size_t i = 0; i < values.size(); ++i) interpreter::store_one(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

inline HostTensor tensor_by(Storage storage, std::vector<int64_t> extents,
                            const std::function<double(int64_t)>& value) {
  HostTensor tensor = interpreter::make_tensor(storage, std::move(extents));
  for (int64_t i = 0; i < tensor.elements(); ++i) interpreter::store_one(tensor, i, value(i));
  return tensor;
}

inline HostTensor normal_tensor(Storage storage, std::vector<int64_t> extents, uint64_t seed, double scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  return tensor_by(storage, std::move(extents), [&](int64_t) { return normal(random); });
}

// Whole numbers from -limit to limit.
inline HostTensor integer_tensor(Storage storage, std::vector<int64_t> extents, uint64_t seed, int limit = 3) {
  std::mt19937_64 random(seed);
  return tensor_by(storage, std::move(extents), [&](int64_t) {
    return static_cast<double>(static_cast<int64_t>(random() % (2 * limit + 1)) - limit);
  });
}

inline std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  interpreter::load(tensor, 0, 1, tensor.elements(), values.data());
  return values;
}

// "3f800000" or "0x3F800000" as the f32 with these bits.
inline double f32_of_bits(const std::string& hex) {
  return decode(Storage::f32, static_cast<uint32_t>(std::stoul(hex, nullptr, 16)));
}

// "3f80 bbf1 …" as numbers.
inline std::vector<uint32_t> hex_words(const std::string& text) {
  std::vector<uint32_t> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  return words;
}

// "7EFA…" as bytes.
inline std::vector<uint32_t> hex_bytes(const std::string& text) {
  std::vector<uint32_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<uint32_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace epifuse::test
