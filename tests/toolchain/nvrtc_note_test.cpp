// Notes of a search: believed while the library is the same, by two looks at it, and never when there is any doubt.
#include "compiler/toolchain/nvrtc_note.h"

#include <ctime>

#include "base/artifact_key.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

using namespace epifuse;
using namespace epifuse::toolchain;
using namespace epifuse::test;

namespace {

const NvrtcLocation location{
    "/cuda/lib64/libnvrtc.so.13", "/cuda/lib64/libnvrtc-builtins.so.13.0", {13, 0}, "CUDA_HOME", "aa", "bb"};

struct Machine {
  Machine() : counting(disk) {
    settings.cache_directory = "/cache";
    settings.cuda_home = "/cuda";
    disk.put(location.library, "library");
    disk.put(location.builtins, "builtins");
    REQUIRE(disk.make_directories("/cache"));
    disk.node("/cache").status.owner = settings.user;
  }

  void write(const NvrtcLocation& what = location) {
    write_nvrtc_note(disk, settings, what, [&] { return folders; });
  }
  std::optional<NvrtcLocation> read(int64_t later = 0) {
    return read_nvrtc_note(counting, settings, std::time(nullptr) + later, [&] { return folders; });
  }
  std::string path() {
    for (const auto& [path, node] : disk.nodes())
      if (path.starts_with("/cache/" + std::string(toolchain_note_prefix))) return path;
    return "";
  }

  MemoryFileSystem disk;
  FaultyFileSystem counting;
  Settings settings;
  std::vector<std::string> folders{"/opt/epifuse"};
};

}  // namespace

TEST_CASE("a note says what the search said, for one read and two looks") {
  Machine machine;
  CHECK(!machine.read());
  machine.write();
  const auto noted = machine.read();
  REQUIRE(noted);
  CHECK(noted->library == location.library);
  CHECK(noted->builtins == location.builtins);
  CHECK(noted->place == location.place);
  CHECK(noted->version == location.version);
  CHECK(noted->identity() == location.identity());
  CHECK(machine.counting.counts.reads == 2);
  CHECK(machine.counting.counts.target_statuses == 2);
  CHECK(machine.counting.counts.lists == 0);
}

TEST_CASE("a note is not believed once one of the files is another, or is gone") {
  for (const std::string& file : {location.library, location.builtins}) {
    Machine machine;
    machine.write();
    FileStatus& status = machine.disk.node(file).status;
    for (uint64_t* const field : {&status.device, &status.inode}) {
      ++*field;
      CHECK(!machine.read());
      --*field;
    }
    for (int64_t* const field : {&status.modified_ns, &status.changed_ns}) {
      ++*field;
      CHECK(!machine.read());
      --*field;
    }
    CHECK(machine.read());
    machine.disk.node(file).bytes += "x";
    CHECK(!machine.read());
    machine.disk.nodes().erase(file);
    CHECK(!machine.read());
  }
}

TEST_CASE("a note is for its settings, for ten minutes, and for its owner") {
  Machine machine;
  machine.write();
  CHECK(machine.read(500));
  CHECK(!machine.read(700));
  CHECK(!machine.read(-700));

  const Settings before = machine.settings;
  machine.settings.nvrtc = "/other";
  CHECK(!machine.read());
  machine.settings = before;
  machine.settings.library_directories = {"/ld"};
  CHECK(!machine.read());
  machine.settings = before;
  machine.settings.program_directories = {"/bin"};
  CHECK(!machine.read());
  machine.settings = before;
  CHECK(machine.read());

  FileStatus& status = machine.disk.node(machine.path()).status;
  status.mode = 0620;
  CHECK(!machine.read());
  status.mode = 0600;
  ++status.owner;
  CHECK(!machine.read());
  --status.owner;
  status.is_symlink = true;
  CHECK(!machine.read());
}

TEST_CASE("no byte of a note may be another one") {
  Machine machine;
  machine.write();
  std::string& bytes = machine.disk.node(machine.path()).bytes;
  const std::string good = bytes;
  for (size_t at = 0; at < good.size(); ++at) {
    bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    REQUIRE(!machine.read());
    bytes = good.substr(0, at);
    REQUIRE(!machine.read());
  }
  bytes = good + "x";
  CHECK(!machine.read());
  bytes = good;
  CHECK(machine.read());
}

TEST_CASE("a library beside the program is noted for that program alone") {
  Machine machine;
  NvrtcLocation beside = location;
  beside.place = "nvrtc/ beside this program";
  machine.write(beside);
  CHECK(machine.read());
  machine.folders = {"/home/u/epifuse"};
  CHECK(!machine.read());
}

TEST_CASE("there is no note without a directory of one's own, or under relative paths") {
  Machine machine;
  FileStatus& status = machine.disk.node("/cache").status;
  status.mode = 0777;
  machine.write();
  CHECK(machine.path().empty());
  status.mode = 0700;
  machine.settings.program_directories = {"bin"};
  machine.write();
  CHECK(machine.path().empty());
  machine.settings.program_directories.clear();
  machine.settings.cache_directory.clear();
  machine.write();
  CHECK(machine.path().empty());
  machine.settings.cache_directory = "/missing";
  machine.write();
  CHECK(!machine.disk.exists("/missing"));
}
