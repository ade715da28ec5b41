// Writes and reads the bytes of an entry; the layout is in the header.
#include "cache/entry_format.h"

#include "base/digest.h"
#include "base/version.h"

namespace epifuse::cache {
namespace {

constexpr std::string_view magic("EPIFUSE\x1a", 8);
constexpr size_t header_bytes = 48, checksum_bytes = 16, section_count = 4;

template <class T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T get(std::string_view bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  return value;
}

DecodedEntry damaged(std::string reason) { return {EntryState::damaged, {}, std::move(reason)}; }

}  // namespace

std::string encode_entry(const Entry& entry) {
  const std::string* sections[section_count] = {&entry.request, &entry.toolchain, &entry.metadata, &entry.payload};
  std::string bytes(magic);
  put(bytes, static_cast<uint32_t>(cache_entry_version));
  put(bytes, static_cast<uint32_t>(entry.kind));
  for (const std::string* section : sections) put(bytes, uint64_t{section->size()});
  for (const std::string* section : sections) bytes += *section;
  const Digest checksum = digest(bytes);
  put(bytes, checksum.high);
  put(bytes, checksum.low);
  return bytes;
}

DecodedEntry decode_entry(std::string_view bytes) {
  if (bytes.size() < header_bytes + checksum_bytes) return damaged("it is cut short");
  const std::string_view covered = bytes.substr(0, bytes.size() - checksum_bytes);
  const Digest stored{get<uint64_t>(bytes, covered.size()), get<uint64_t>(bytes, covered.size() + 8)};
  if (digest(covered) != stored) return damaged("its checksum does not fit");
  if (covered.substr(0, magic.size()) != magic) return damaged("it is no cache entry");
  if (get<uint32_t>(covered, 8) != static_cast<uint32_t>(cache_entry_version))
    return {EntryState::other_version, {}, ""};

  DecodedEntry decoded;
  decoded.entry.kind = static_cast<EntryKind>(get<uint32_t>(covered, 12));
  if (decoded.entry.kind != EntryKind::artifact && decoded.entry.kind != EntryKind::redirect) {
    return damaged("its kind is unknown");
  }
  std::string_view* sections[section_count] = {&decoded.entry.request, &decoded.entry.toolchain,
                                               &decoded.entry.metadata, &decoded.entry.payload};
  std::string_view rest = covered.substr(header_bytes);
  for (size_t i = 0; i < section_count; ++i) {
    const uint64_t size = get<uint64_t>(covered, 16 + 8 * i);
    if (size > rest.size()) return damaged("its sections are longer than the file");
    *sections[i] = rest.substr(0, size);
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return damaged("bytes follow its last section");
  decoded.state = EntryState::good;
  return decoded;
}

}  // namespace epifuse::cache
