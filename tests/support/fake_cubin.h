// Bytes that pass for a cubin until a driver looks at the code: an ELF with a section for each function.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace epifuse::test {

// Where `content` begins in a fake cubin.
inline constexpr size_t fake_cubin_content = 64;

// `content` is whatever tells it from others.
inline std::string fake_cubin(const std::set<std::string>& functions, std::string_view content = "",
                              int capability = 90) {
  const auto put = [](std::string& bytes, size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  std::string names(1, '\0'), headers;
  const auto section = [&](const std::string& name, uint64_t type, uint64_t offset, uint64_t size) {
    std::string header(64, '\0');
    put(header, 0, names.size(), 4);
    put(header, 4, type, 4);
    put(header, 24, offset, 8);
    put(header, 32, size, 8);
    names += name + '\0';
    headers += header;
  };
  for (const std::string& function : functions) section(".text." + function, 1, fake_cubin_content, content.size());
  const size_t names_at = fake_cubin_content + content.size();
  section(".names", 3, names_at, 0);
  put(headers, headers.size() - 32, names.size(), 8);

  std::string bytes(fake_cubin_content, '\0');
  bytes.replace(0, 9, std::string("\177ELF\2\1\1\51\10", 9));  // 64 bits, little-endian, CUDA's ABI, version 8
  put(bytes, 18, 190, 2);
  put(bytes, 40, names_at + names.size(), 8);
  put(bytes, 48, static_cast<uint64_t>(capability) << 8, 4);
  put(bytes, 58, 64, 2);
  put(bytes, 60, functions.size() + 1, 2);
  put(bytes, 62, functions.size(), 2);
  return bytes + std::string(content) + names + headers;
}

}  // namespace epifuse::test
