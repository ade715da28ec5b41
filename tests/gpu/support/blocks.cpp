#include "tests/gpu/support/blocks.h"

#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/gpu/support/kernels.h"

namespace epifuse::test {

using interpreter::HostTensor;
using interpreter::load_code;

nlohmann::json vectors(const std::string& name) { return nlohmann::json::parse(file_text("tests/vectors/" + name)); }

uint32_t hex_number(const std::string& text) { return static_cast<uint32_t>(std::stoul(text, nullptr, 16)); }

std::vector<uint32_t> nibbles_of(const std::vector<uint32_t>& bytes) {
  std::vector<uint32_t> codes;
  for (const uint32_t byte : bytes) {
    codes.push_back(byte & 15);
    codes.push_back(byte >> 4);
  }
  return codes;
}

namespace {

HostTensor filled(int64_t rows, int64_t columns, const std::function<uint32_t(int64_t, int64_t)>& bits) {
  HostTensor tensor = interpreter::make_tensor(Storage::f32, {rows, columns});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      interpreter::store_code(tensor, row * columns + column, bits(row, column));
  return tensor;
}

int64_t block_of(const std::vector<BlockCase>& cases) { return static_cast<int64_t>(cases.at(0).bits.size()); }

}  // namespace

HostTensor rows_of(const std::vector<BlockCase>& cases, int64_t columns) {
  const int64_t block = block_of(cases);
  return filled(static_cast<int64_t>(cases.size()), columns, [&](int64_t row, int64_t column) {
    return cases[static_cast<size_t>(row)].bits[static_cast<size_t>(column % block)];
  });
}

HostTensor columns_of(const std::vector<BlockCase>& cases, int64_t columns) {
  const int64_t block = block_of(cases);
  return filled(static_cast<int64_t>(cases.size()) * block, columns, [&](int64_t row, int64_t) {
    return cases[static_cast<size_t>(row / block)].bits[static_cast<size_t>(row % block)];
  });
}

void check_blocks(const interpreter::Buffers& outputs, const std::string& output, Placed placed,
                  const std::vector<BlockCase>& cases, const std::string& key) {
  const HostTensor &codes = outputs.at(output), &scales = outputs.at(output + ".scale");
  const int64_t block = block_of(cases), pitch = codes.extents[1], scale_pitch = scales.extents[1];
  const int64_t columns = placed == Placed::transposed ? codes.extents[0] : pitch;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto expected = cases[i].expected.find(key);
    if (expected == cases[i].expected.end()) continue;
    const auto row = static_cast<int64_t>(i);
    // The number of repetitions: columns, or blocks of them.
    const int64_t times = placed == Placed::rows ? columns / block : columns;
    for (int64_t n = 0; n < times; ++n) {
      const int64_t scale = placed == Placed::transposed ? n * scale_pitch + row : row * scale_pitch + n;
      const uint32_t stored = load_code(scales, scale), wanted = expected->second.scale;
      if (stored != wanted) {
        INFO(fmt::format("{}: {}, repetition {}: scale {:x}, wanted {:x}", output, cases[i].name, n, stored, wanted));
        CHECK(stored == wanted);
      }
      for (int64_t c = 0; c < static_cast<int64_t>(expected->second.codes.size()); ++c) {
        const int64_t at = placed == Placed::rows         ? row * pitch + n * block + c
                           : placed == Placed::transposed ? n * pitch + row * block + c
                                                          : (row * block + c) * pitch + n;
        const uint32_t code = load_code(codes, at), right = expected->second.codes[static_cast<size_t>(c)];
        if (code == right) continue;
        INFO(fmt::format("{}: {}, repetition {}: element {}, {:x}, is {:x}, wanted {:x}", output, cases[i].name, n, c,
                         cases[i].bits[static_cast<size_t>(c)], code, right));
        CHECK(code == right);
      }
    }
  }
}

}  // namespace epifuse::test
