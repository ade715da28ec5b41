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

unsigned byte_at(std::string_view bytes, size_t at) { return static_cast<unsigned char>(bytes[at]); }

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

}  // namespace epifuse
