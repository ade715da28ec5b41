// An entry survives the way through bytes, and no damage to them ever yields another entry.
#include "cache/entry_format.h"

#include "base/digest.h"
#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::cache;

namespace {

Entry small_entry() {
  return {EntryKind::artifact, "request", "nvrtc 13.0", R"({"kernel":"k"})", std::string("\0\1\2", 3)};
}

// The checksum over changed bytes, so that a test reaches the checks behind it.
std::string with_checksum(std::string bytes) {
  bytes.resize(bytes.size() - 16);
  const Digest checksum = digest(bytes);
  for (const uint64_t half : {checksum.high, checksum.low})
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(half >> (8 * i)));
  return bytes;
}

}  // namespace

TEST_CASE("an entry survives the way through bytes") {
  for (const EntryKind kind : {EntryKind::artifact, EntryKind::redirect}) {
    Entry entry = small_entry();
    entry.kind = kind;
    const std::string bytes = encode_entry(entry);
    const DecodedEntry decoded = decode_entry(bytes);
    REQUIRE(decoded.state == EntryState::good);
    CHECK(decoded.entry.kind == kind);
    CHECK(decoded.entry.request == entry.request);
    CHECK(decoded.entry.toolchain == entry.toolchain);
    CHECK(decoded.entry.metadata == entry.metadata);
    CHECK(decoded.entry.payload == entry.payload);
  }
  CHECK(decode_entry(encode_entry(Entry{})).state == EntryState::good);  // all sections empty
}

TEST_CASE("the bytes are those of the documented layout") {
  const std::string bytes = encode_entry(small_entry());
  CHECK(bytes.substr(0, 8) == std::string("EPIFUSE\x1a", 8));
  CHECK(bytes.substr(16, 8) == std::string("\7\0\0\0\0\0\0\0", 8));
  CHECK(bytes.size() == 48 + 7 + 10 + 14 + 3 + 16);
}

TEST_CASE("every flipped bit and every cut is damage") {
  const std::string bytes = encode_entry(small_entry());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const DecodedEntry decoded = decode_entry(flipped);
      REQUIRE(decoded.state == EntryState::damaged);
      REQUIRE(!decoded.reason.empty());
    }
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE(decode_entry(bytes.substr(0, length)).state == EntryState::damaged);
  }
  CHECK(decode_entry(bytes + "x").state == EntryState::damaged);
}

TEST_CASE("sizes that do not fit are damage even under a right checksum") {
  const std::string bytes = encode_entry(small_entry());
  for (size_t section = 0; section < 4; ++section) {
    for (const int change : {1, -1}) {
      std::string wrong = bytes;
      wrong[16 + 8 * section] = static_cast<char>(wrong[16 + 8 * section] + change);
      CHECK(decode_entry(with_checksum(wrong)).state == EntryState::damaged);
    }
    std::string huge = bytes;
    for (size_t i = 0; i < 8; ++i) huge[16 + 8 * section + i] = '\xff';
    CHECK(decode_entry(with_checksum(huge)).state == EntryState::damaged);
  }
  std::string kind = bytes;
  kind[12] = 9;
  CHECK(decode_entry(with_checksum(kind)).state == EntryState::damaged);
  std::string foreign = bytes;
  foreign[0] = 'X';
  CHECK(decode_entry(with_checksum(foreign)).state == EntryState::damaged);
}

TEST_CASE("an entry of another version is neither used nor called damaged") {
  std::string bytes = encode_entry(small_entry());
  bytes[8] = 77;
  CHECK(decode_entry(with_checksum(bytes)).state == EntryState::other_version);
}
