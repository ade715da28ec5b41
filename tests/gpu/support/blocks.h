// Published blocks and what they become under the types of a kernel's outputs, as rows, transposed, and down columns.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/interpreter/host_tensor.h"

namespace epifuse::test {

struct StoredBlock {
  uint32_t scale = 0;           // bits
  std::vector<uint32_t> codes;  // none: the vector says nothing of them
};

struct BlockCase {
  std::string name;
  std::vector<uint32_t> bits;                   // f32
  std::map<std::string, StoredBlock> expected;  // by what the outputs' names end in: "up", "te_f32"
};

nlohmann::json vectors(const std::string& name);  // tests/vectors/<name>; json.hpp is for who reads them

// "0x7F", "7f".
uint32_t hex_number(const std::string& text);
// "e7 45 23" as codes of four bits, the first in the low half of the first byte.
std::vector<uint32_t> nibbles_of(const std::vector<uint32_t>& bytes);

// A row for each case, its block over and over; or as many rows as a block has for each case, all columns alike.
interpreter::HostTensor rows_of(const std::vector<BlockCase>& cases, int64_t columns);
interpreter::HostTensor columns_of(const std::vector<BlockCase>& cases, int64_t columns);

// Where a block that is repeated like that is in an output.
enum class Placed {
  rows,        // [M, N]
  transposed,  // [N, P], blocks along P
  down,        // [P, N], blocks along P
};

// That each block of the output is that of its case. key: of `expected`; cases without it say nothing.
void check_blocks(const interpreter::Buffers& outputs, const std::string& output, Placed placed,
                  const std::vector<BlockCase>& cases, const std::string& key);

}  // namespace epifuse::test
