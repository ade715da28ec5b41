// Which directories are trusted, and why others are refused.
#include "cache/cache_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::cache;
using epifuse::test::MemoryFileSystem;
using Use = CacheDirectory::Use;

namespace {

std::string refusal(MemoryFileSystem& disk, Use use, const std::string& path = "/c") {
  const Status opened = CacheDirectory(disk, path, use).open();
  return opened ? "" : opened.error().message;
}

}  // namespace

TEST_CASE("a missing directory is made when it is to be written, and refused otherwise") {
  MemoryFileSystem disk;
  CHECK(refusal(disk, Use::read_only, "/r") == "/r does not exist");
  CHECK(refusal(disk, Use::writable, "/w/x") == "");
  CHECK(disk.status("/w/x").is_directory);
}

TEST_CASE("a directory that others can write to, or own, is refused") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/c"));
  FileStatus& status = disk.node("/c").status;
  CHECK(refusal(disk, Use::writable) == "");
  for (const uint32_t mode : {0770u, 0702u, 01777u}) {
    status.mode = mode;
    CHECK(refusal(disk, Use::writable).starts_with("others can write to /c"));
    CHECK(refusal(disk, Use::read_only).starts_with("others can write to /c"));
  }
  status.mode = 0755;
  status.owner = 4711;
  CHECK(refusal(disk, Use::writable).starts_with("/c belongs to user 4711"));
  CHECK(refusal(disk, Use::read_only).starts_with("/c belongs to user 4711"));
  status.owner = 0;
  CHECK(refusal(disk, Use::read_only) == "");
}

TEST_CASE("a link or a file in the directory's place is refused, also under a trailing slash") {
  const test::ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(disk.make_directories(scratch / "real"));
  REQUIRE(::symlink((scratch / "real").c_str(), (scratch / "link").c_str()) == 0);
  REQUIRE(disk.write_atomically(scratch / "file", "x"));
  for (const std::string name : {"link", "link/", "link//"}) {
    const Status opened = CacheDirectory(disk, scratch / name, Use::writable).open();
    REQUIRE(!opened);
    CHECK(opened.error().message.find("symbolic link") != std::string::npos);
  }
  CHECK(!CacheDirectory(disk, scratch / "file", Use::writable).open());
  CHECK(CacheDirectory(disk, scratch / "real/", Use::writable).open());
}

TEST_CASE("find compares the stored request and toolchain") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey key("request", "tool");
  REQUIRE(directory.publish(key, {EntryKind::artifact, "request", "tool", "{}", "cubin"}));
  CHECK(directory.find(key).entry->payload == "cubin");

  // The same bytes under another name: what a collision of digests would look like.
  const ArtifactKey other("another request", "tool"), other_tool("request", "another tool");
  for (const ArtifactKey& wrong : {other, other_tool}) {
    disk.put("/c/" + wrong.name(), *disk.read("/c/" + key.name()));
    const CacheDirectory::Lookup lookup = directory.find(wrong);
    CHECK(!lookup.entry);
    CHECK(lookup.problem == "it holds another request");
  }
}

TEST_CASE("find_any_toolchain takes the newest good entry of the same request") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey older("request", "13.0"), newer("request", "13.1"), nobody("request", ""), other("else", "13.0");
  CHECK(!directory.find_any_toolchain(nobody).entry);
  REQUIRE(directory.publish(newer, {EntryKind::artifact, "request", "13.1", "{}", "older file"}));
  REQUIRE(directory.publish(older, {EntryKind::artifact, "request", "13.0", "{}", "newer file"}));
  REQUIRE(directory.publish(other, {EntryKind::artifact, "else", "13.0", "{}", "other"}));
  CHECK(directory.find_any_toolchain(nobody).entry->payload == "newer file");
  disk.node("/c/" + older.name()).bytes[60] ^= 1;
  CHECK(directory.find_any_toolchain(nobody).entry->payload == "older file");
}
