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

TEST_CASE("a refusal says how to mend it") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/c"));
  FileStatus& status = disk.node("/c").status;
  status.mode = 0775;
  CHECK(refusal(disk, Use::writable).find("chmod go-w /c") != std::string::npos);
  CHECK(refusal(disk, Use::writable).find("EPIFUSE_CACHE_TRUST") == std::string::npos);  // it would not help
  CHECK(refusal(disk, Use::read_only).find("EPIFUSE_CACHE_TRUST=shared") != std::string::npos);
  // No advice to close a directory that others use, as /tmp.
  status.mode = 01777;
  CHECK(refusal(disk, Use::writable).find("chmod") == std::string::npos);
  CHECK(refusal(disk, Use::writable).find("a directory of one's own") != std::string::npos);
  status.mode = 0775;
  disk.put("/c/mail", "");
  CHECK(refusal(disk, Use::writable).find("chmod") == std::string::npos);
  status.mode = 0755;
  status.owner = 4711;
  CHECK(refusal(disk, Use::read_only).find("EPIFUSE_CACHE_TRUST=shared") != std::string::npos);
}

TEST_CASE("a shared directory may be anybody's, and a link or a file still not") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/c"));
  FileStatus& status = disk.node("/c").status;
  status.mode = 01777;
  status.owner = 4711;
  CHECK(refusal(disk, Use::shared) == "");
  status.is_symlink = true;
  CHECK(refusal(disk, Use::shared).find("symbolic link") != std::string::npos);
  CHECK(refusal(disk, Use::shared, "/missing") == "/missing does not exist");
}

TEST_CASE("an entry that others own or can write is not read, but where the directory is shared") {
  MemoryFileSystem disk;
  CacheDirectory own(disk, "/c", Use::writable);
  REQUIRE(own.open());
  const ArtifactKey key("request", "tool");
  REQUIRE(own.publish(key, {EntryKind::artifact, "request", "tool", "{}", "cubin"}));
  const CacheDirectory read_only(disk, "/c", Use::read_only), shared(disk, "/c", Use::shared);
  FileStatus& status = disk.node("/c/" + key.name()).status;
  const auto check = [&](bool by_owner, bool by_reader, bool by_sharer) {
    const std::pair<const CacheDirectory*, bool> uses[] = {
        {&own, by_owner}, {&read_only, by_reader}, {&shared, by_sharer}};
    for (const auto& [directory, expected] : uses) {
      const CacheDirectory::Lookup lookup = directory->find(key);
      CHECK(static_cast<bool>(lookup) == expected);
      if (!expected) CHECK(lookup.miss == CacheDirectory::Miss::untrusted);
    }
  };
  check(true, true, true);
  for (const uint32_t mode : {0620u, 0602u, 0777u}) {
    status.mode = mode;
    check(false, false, true);
  }
  status.mode = 0644;
  status.owner = 4711;
  check(false, false, true);
  status.owner = 0;  // root may put kernels where this user only reads
  check(::geteuid() == 0, true, true);
  status.is_symlink = true;
  check(false, false, false);
}

TEST_CASE("files of a directory are told apart by their names") {
  const std::string entry = std::string(32, 'a') + "." + std::string(32, '0');
  CHECK(file_kind(entry) == FileKind::entry);
  CHECK(file_kind(entry + ".lock") == FileKind::lock);
  CHECK(file_kind(entry + ".claim") == FileKind::claim);
  CHECK(file_kind(entry + ".bad") == FileKind::bad);
  CHECK(file_kind(entry + ".tmp-1-0") == FileKind::temporary);
  CHECK(file_kind("toolchain." + std::string(32, '0')) == FileKind::note);
  CHECK(file_kind("toolchain." + std::string(32, '0') + ".tmp-1-0") == FileKind::temporary);
  for (const std::string& name :
       {std::string("README"), entry + "x", entry + ".bak", "x" + entry, std::string("README.tmp-1-0"),
        std::string("toolchain.x"), std::string(32, 'A') + "." + std::string(32, '0'), std::string()}) {
    CHECK(file_kind(name) == FileKind::foreign);
  }
}

TEST_CASE("publish leaves a good entry alone and replaces one that cannot be used") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey key("request", "tool");
  const auto publish = [&](const std::string& payload) {
    REQUIRE(directory.publish(key, {EntryKind::artifact, "request", "tool", "{}", payload}));
    return std::string(directory.find(key).entry.payload);
  };
  CHECK(publish("first") == "first");
  CHECK(publish("second") == "first");
  disk.node("/c/" + key.name()).bytes[50] ^= 1;
  CHECK(publish("third") == "third");
}

TEST_CASE("a use is stamped once an hour, and never in a directory that is only read") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey key("request", "tool");
  REQUIRE(directory.publish(key, {EntryKind::artifact, "request", "tool", "{}", "cubin"}));
  int64_t& modified = disk.node("/c/" + key.name()).status.modified;
  const int64_t written = modified;
  directory.mark_used(directory.find(key), written + 3600);
  CHECK(modified == written);
  CacheDirectory(disk, "/c", Use::read_only).mark_used(directory.find(key), written + 9999);
  CHECK(modified == written);
  directory.mark_used(directory.find(key), written + 3601);
  CHECK(modified > written);
}

TEST_CASE("a link or a file in the directory's place is refused, also under a trailing slash") {
  const test::ScratchDirectory scratch;
  FileSystem& disk = real_file_system();
  REQUIRE(disk.make_directories(scratch / "real"));
  REQUIRE(::symlink((scratch / "real").c_str(), (scratch / "link").c_str()) == 0);
  REQUIRE(disk.write_atomically(scratch / "file", "x"));
  for (const std::string name : {"link", "link/", "link//", "link/.", "link/./", "link/././/."}) {
    const Status opened = CacheDirectory(disk, scratch / name, Use::writable).open();
    REQUIRE(!opened);
    CHECK(opened.error().message.find("symbolic link") != std::string::npos);
  }
  CHECK(!CacheDirectory(disk, scratch / "file", Use::writable).open());
  CHECK(CacheDirectory(disk, scratch / "real/", Use::writable).open());
  CHECK(CacheDirectory(disk, scratch / "real/.", Use::writable).path() == scratch / "real");
}

TEST_CASE("find compares the stored request and toolchain") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey key("request", "tool");
  REQUIRE(directory.publish(key, {EntryKind::artifact, "request", "tool", "{}", "cubin"}));
  CHECK(directory.find(key).entry.payload == "cubin");

  // The same bytes under another name: what a collision of digests would look like.
  const ArtifactKey other("another request", "tool"), other_tool("request", "another tool");
  for (const ArtifactKey& wrong : {other, other_tool}) {
    disk.put("/c/" + wrong.name(), *disk.read("/c/" + key.name()));
    const CacheDirectory::Lookup lookup = directory.find(wrong);
    CHECK(!lookup);
    CHECK(lookup.problem == "it holds another request");
  }
}

TEST_CASE("find_any_toolchain takes the newest good entry of the same request") {
  MemoryFileSystem disk;
  CacheDirectory directory(disk, "/c", Use::writable);
  REQUIRE(directory.open());
  const ArtifactKey older("request", "13.0"), newer("request", "13.1"), nobody("request", ""), other("else", "13.0");
  CHECK(!directory.find_any_toolchain(nobody));
  REQUIRE(directory.publish(newer, {EntryKind::artifact, "request", "13.1", "{}", "older file"}));
  REQUIRE(directory.publish(older, {EntryKind::artifact, "request", "13.0", "{}", "newer file"}));
  REQUIRE(directory.publish(other, {EntryKind::artifact, "else", "13.0", "{}", "other"}));
  CHECK(directory.find_any_toolchain(nobody).entry.payload == "newer file");
  disk.node("/c/" + older.name()).bytes[60] ^= 1;
  CHECK(directory.find_any_toolchain(nobody).entry.payload == "older file");
}
