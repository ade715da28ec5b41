#include "base/cubin.h"

#include <cstdint>

namespace epifuse {
namespace {

// Of a little-endian ELF64 header.
constexpr size_t header_bytes = 64, place_of_class = 4, place_of_abi_version = 8, place_of_machine = 18,
                 place_of_flags = 48;
constexpr unsigned machine_of_cuda = 190;
// The capability is in the lowest byte of the flags, and since this version of the ABI in the one above.
constexpr unsigned abi_with_second_byte = 8;

constexpr size_t place_of_sections = 40, place_of_section_bytes = 58, place_of_section_count = 60, place_of_names = 62;
// Of a section's header.
constexpr size_t section_bytes = 64, place_of_type = 4, place_of_offset = 24, place_of_size = 32;
constexpr uint64_t type_without_bytes = 8;

unsigned byte_at(std::string_view bytes, size_t at) { return static_cast<unsigned char>(bytes[at]); }

uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{byte_at(bytes, at + i)} << (8 * i);
  return value;
}

// `size` bytes from `offset` on; nothing where they are not there.
std::optional<std::string_view> piece(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

}  // namespace

std::optional<int> cubin_capability(std::string_view cubin) {
  constexpr std::string_view elf = "\177ELF";
  if (cubin.size() < header_bytes || !cubin.starts_with(elf) || byte_at(cubin, place_of_class) != 2)
    return std::nullopt;
  if ((byte_at(cubin, place_of_machine) | byte_at(cubin, place_of_machine + 1) << 8) != machine_of_cuda)
    return std::nullopt;
  const bool second = byte_at(cubin, place_of_abi_version) >= abi_with_second_byte;
  return static_cast<int>(byte_at(cubin, place_of_flags + (second ? 1 : 0)));
}

std::optional<std::set<std::string_view>> cubin_functions(std::string_view cubin) {
  if (!cubin_capability(cubin)) return std::nullopt;
  const uint64_t count = number_at(cubin, place_of_section_count, 2), of_names = number_at(cubin, place_of_names, 2);
  const auto table = piece(cubin, number_at(cubin, place_of_sections, 8), count * section_bytes);
  if (!table || number_at(cubin, place_of_section_bytes, 2) != section_bytes || of_names >= count) return std::nullopt;
  const auto content = [&](std::string_view header) -> std::optional<std::string_view> {
    if (number_at(header, place_of_type, 4) == type_without_bytes) return std::string_view();
    return piece(cubin, number_at(header, place_of_offset, 8), number_at(header, place_of_size, 8));
  };
  const auto names = content(table->substr(of_names * section_bytes, section_bytes));
  if (!names) return std::nullopt;
  std::set<std::string_view> functions;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view header = table->substr(i * section_bytes, section_bytes);
    const uint64_t at = number_at(header, 0, 4);
    if (!content(header) || at >= names->size()) return std::nullopt;
    std::string_view name = names->substr(at);
    name = name.substr(0, name.find('\0'));
    constexpr std::string_view code = ".text.";
    if (name.starts_with(code)) functions.insert(name.substr(code.size()));
  }
  return functions;
}

}  // namespace epifuse
