// One block through a quantiser, as its scale and its codes.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/quantiser.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

namespace epifuse::test {

struct Block {
  interpreter::BlockScale scale;
  std::vector<uint32_t> codes;
};

inline Block quantise(const ir::TensorType& type, const std::vector<double>& values,
                      interpreter::GroupMaximum maximum = {}) {
  const auto quantiser = interpreter::make_quantiser(type);
  REQUIRE(quantiser);
  Block block;
  const double amax = (*quantiser)->amax(values.data(), static_cast<int64_t>(values.size()));
  block.scale = (*quantiser)->block_scale(amax, maximum);
  for (double value : values) block.codes.push_back((*quantiser)->element(value, block.scale));
  return block;
}

inline ir::TensorType scaled_type(const std::string& format, const std::string& rule = "up",
                                  const std::string& element = "") {
  ir::TensorType type = GraphBuilder::type(format);
  type.rule = ir::parse_rule(rule).value();
  if (!element.empty()) type.element = parse_storage(element).value();
  return type;
}

// Codes of 4 bits, two to a byte, the even element in the low nibble.
inline std::vector<uint32_t> packed(const std::vector<uint32_t>& codes) {
  std::vector<uint32_t> bytes;
  for (size_t i = 0; i + 1 < codes.size(); i += 2) bytes.push_back(codes[i] | codes[i + 1] << 4);
  return bytes;
}

}  // namespace epifuse::test
