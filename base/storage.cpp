#include "base/storage.h"

#include <array>
#include <fmt/format.h>

namespace epifuse {
namespace {

struct Row {
  std::string_view name;
  int bits;
};

constexpr std::array<Row, 9> table = {{{"f32", 32},
                                       {"bf16", 16},
                                       {"f16", 16},
                                       {"e4m3", 8},
                                       {"e5m2", 8},
                                       {"e8m0", 8},
                                       {"e2m1", 4},
                                       {"i32", 32},
                                       {"i64", 64}}};

}  // namespace

std::string_view storage_name(Storage storage) { return table[static_cast<size_t>(storage)].name; }

std::optional<Storage> parse_storage(std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<Storage>(i);
  return std::nullopt;
}

int storage_bits(Storage storage) { return table[static_cast<size_t>(storage)].bits; }

int64_t storage_bytes(Storage storage, int64_t count) { return (count * storage_bits(storage) + 7) / 8; }

std::string odd_row_fault(std::string_view name, Storage storage, std::string_view extent, int64_t size) {
  if (storage_bits(storage) >= 8 || size % 2 == 0) return "";
  return fmt::format("'{}' has two {} codes in a byte, and its last dimension, {} = {}, is odd", name,
                     storage_name(storage), extent, size);
}

}  // namespace epifuse
