// Reads glibc's format of the loader's cache, with every offset checked.
#include "compiler/toolchain/loader_cache.h"

#include <cstdint>
#include <cstring>

namespace epifuse::toolchain {
namespace {

// glibc's format 1.1 (sysdeps/generic/dl-cache.h): 20 bytes of magic, the number of entries, 24 bytes of other fields;
// then entries of 24 bytes, in which the second and third word are offsets of name and path from the magic.
constexpr std::string_view magic = "glibc-ld.so.cache1.1";
constexpr size_t header_bytes = 48, entry_bytes = 24;

uint32_t word(std::string_view bytes, size_t offset) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string_view string_at(std::string_view bytes, size_t offset) {
  if (offset >= bytes.size()) return {};
  const size_t end = bytes.find('\0', offset);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(offset, end - offset);
}

}  // namespace

std::vector<std::string> libraries_in_loader_cache(std::string_view bytes, std::string_view prefix) {
  std::vector<std::string> paths;
  const size_t start = bytes.find(magic);  // an older format may stand before it
  if (start == std::string_view::npos) return paths;
  bytes.remove_prefix(start);
  if (bytes.size() < header_bytes) return paths;
  const size_t most = (bytes.size() - header_bytes) / entry_bytes;
  const size_t count = word(bytes, magic.size());
  for (size_t i = 0; i < count && i < most; ++i) {
    const size_t entry = header_bytes + i * entry_bytes;
    const std::string_view name = string_at(bytes, word(bytes, entry + 4)),
                           path = string_at(bytes, word(bytes, entry + 8));
    if (name.starts_with(prefix) && path.starts_with('/')) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace epifuse::toolchain
