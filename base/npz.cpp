// The zip around a .npz: just as much of the format as numpy.savez writes.
#include <array>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "base/npy.h"

namespace epifuse {
namespace {

constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr size_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr uint64_t in_zip64 = 0xFFFFFFFF;  // a 32-bit field whose value is in the zip64 extra field

uint32_t crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> result;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xEDB88320 : value >> 1;
      result[i] = value;
    }
    return result;
  }();
  uint32_t crc = ~0u;
  for (char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

// A little-endian number at a place, or nothing when the bytes end before.
std::optional<uint64_t> number(std::string_view bytes, size_t at, size_t width) {
  if (at > bytes.size() || bytes.size() - at < width) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

void append(std::string& to, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

struct Member {
  std::string name;
  uint64_t method = 0, crc = 0, compressed = 0, size = 0, local = 0;
  size_t next = 0;  // where the next entry of the directory starts
};

// An entry of the central directory; numpy writes zip64 fields for what is large.
std::optional<Member> read_member(std::string_view bytes, size_t at) {
  const auto field = [&](size_t offset, size_t width) { return number(bytes, at + offset, width); };
  if (field(0, 4) != central_signature || !field(42, 4)) return std::nullopt;
  Member member;
  member.method = *field(10, 2);
  member.crc = *field(16, 4);
  member.compressed = *field(20, 4);
  member.size = *field(24, 4);
  member.local = *field(42, 4);
  const size_t name = *field(28, 2), extra = *field(30, 2), comment = *field(32, 2);
  const size_t extra_at = at + central_bytes + name;
  member.next = extra_at + extra + comment;
  if (member.next > bytes.size()) return std::nullopt;
  member.name = bytes.substr(at + central_bytes, name);
  for (size_t place = extra_at; place + 4 <= extra_at + extra;) {
    const uint64_t id = *number(bytes, place, 2), length = *number(bytes, place + 2, 2);
    size_t value_at = place + 4;
    place = value_at + length;
    if (id != 1 || place > extra_at + extra) continue;
    for (uint64_t* value : {&member.size, &member.compressed, &member.local}) {
      if (*value != in_zip64) continue;
      if (value_at + 8 > place) return std::nullopt;
      *value = *number(bytes, value_at, 8);
      value_at += 8;
    }
  }
  return member;
}

// What a stored member holds; nothing when it does not lie inside the file.
std::optional<std::string_view> contents(std::string_view bytes, const Member& member) {
  if (member.local > bytes.size() || number(bytes, member.local, 4) != local_signature) return std::nullopt;
  const std::optional<uint64_t> name = number(bytes, member.local + 26, 2), extra = number(bytes, member.local + 28, 2);
  if (!name || !extra) return std::nullopt;
  const size_t data = member.local + local_bytes + *name + *extra;
  if (data > bytes.size() || bytes.size() - data < member.size) return std::nullopt;
  return bytes.substr(data, member.size);
}

// The end record is the last thing in the file but for a comment of at most 64 KiB.
std::optional<size_t> find_end(std::string_view bytes) {
  if (bytes.size() < end_bytes) return std::nullopt;
  const size_t last = bytes.size() - end_bytes, first = last > 0xFFFF ? last - 0xFFFF : 0;
  for (size_t at = last + 1; at-- > first;)
    if (number(bytes, at, 4) == end_signature) return at;
  return std::nullopt;
}

}  // namespace

Result<NpzArrays> read_npz(std::string_view bytes, std::string_view name) {
  const std::optional<size_t> end = find_end(bytes);
  if (!end) return user_error(fmt::format("'{}' is no .npz file", name));
  const uint64_t count = *number(bytes, *end + 10, 2);
  size_t at = *number(bytes, *end + 16, 4);
  if (count == 0xFFFF || at == in_zip64)
    return user_error(fmt::format("'{}' is a .npz file of more than 4 GiB; use one .npy file for each array", name));
  NpzArrays arrays;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<Member> member = read_member(bytes, at);
    if (!member) return user_error(fmt::format("'{}' has a damaged directory", name));
    at = member->next;
    const std::string label = fmt::format("{}:{}", name, member->name);
    if (member->method != 0 || member->compressed != member->size)
      return user_error(fmt::format("'{}' is compressed; save it with numpy.savez", label));
    const std::optional<std::string_view> data = contents(bytes, *member);
    if (!data) return user_error(fmt::format("'{}' does not lie inside the file", label));
    if (crc32(*data) != member->crc) return user_error(fmt::format("'{}' is damaged: its checksum is wrong", label));
    std::string key = member->name;
    if (key.size() > 4 && key.substr(key.size() - 4) == ".npy") key.resize(key.size() - 4);
    for (const auto& [other, array] : arrays)
      if (other == key) return user_error(fmt::format("'{}' stands twice", label));
    Result<NpyArray> array = read_npy(*data, label);
    if (!array) return array.error();
    arrays.emplace_back(std::move(key), *std::move(array));
  }
  return arrays;
}

Result<std::string> write_npz(const NpzArrays& arrays) {
  std::string result, directory;
  for (const auto& [key, array] : arrays) {
    const std::string name = key + ".npy", data = write_npy(array);
    if (result.size() + data.size() + directory.size() > std::numeric_limits<uint32_t>::max() - 0x10000)
      return user_error("the arrays are more than 4 GiB; use one .npy file for each");
    const uint32_t crc = crc32(data);
    const size_t offset = result.size();
    // Fields that both headers have: version 2.0, no flags, stored, no time (1980-01-01: equal input gives equal
    // bytes).
    std::string common;
    append(common, 20, 2), append(common, 0, 2), append(common, 0, 2), append(common, 0, 2), append(common, 0x21, 2);
    append(common, crc, 4), append(common, data.size(), 4), append(common, data.size(), 4);
    append(common, name.size(), 2), append(common, 0, 2);
    append(result, local_signature, 4);
    result += common + name + data;
    append(directory, central_signature, 4);
    append(directory, 20, 2);
    directory += common;
    append(directory, 0, 2), append(directory, 0, 2), append(directory, 0, 2), append(directory, 0, 4);
    append(directory, offset, 4);
    directory += name;
  }
  const size_t start = result.size();
  result += directory;
  append(result, end_signature, 4);
  append(result, 0, 2), append(result, 0, 2), append(result, arrays.size(), 2), append(result, arrays.size(), 2);
  append(result, directory.size(), 4), append(result, start, 4), append(result, 0, 2);
  return result;
}

}  // namespace epifuse
