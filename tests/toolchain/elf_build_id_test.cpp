// The build id of a library, from its bytes.
#include "compiler/toolchain/elf_build_id.h"

#include "base/digest.h"
#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/toolchain/elf_image.h"

using namespace epifuse;
using namespace epifuse::toolchain;
using namespace epifuse::test;

TEST_CASE("the build id is found behind another note") {
  MemoryFileSystem disk;
  disk.put("/l", elf_image("\x65\xbe\x0d\xff", EM_AARCH64));
  const Result<ElfIdentity> elf = read_elf_identity(disk, "/l");
  REQUIRE(elf);
  CHECK(elf->build_id == "65be0dff");
  CHECK(elf->machine == EM_AARCH64);
  CHECK(*library_identity(disk, "/l") == "65be0dff");
}

TEST_CASE("without a build id the content decides") {
  MemoryFileSystem disk;
  const std::string image = elf_image("", EM_X86_64, "content");
  disk.put("/l", image);
  CHECK(*library_identity(disk, "/l") == "xxh3-" + digest(image).hex());
}

TEST_CASE("this very program has an identity") {
  CHECK(read_elf_identity(real_file_system(), "/proc/self/exe")->machine == host_machine());
}

TEST_CASE("no cut and no flipped byte of a library does harm") {
  MemoryFileSystem disk;
  const std::string image = elf_image("\x65\xbe\x0d", EM_X86_64);
  for (size_t length = 0; length < image.size(); ++length) {
    disk.put("/l", image.substr(0, length));
    const Result<ElfIdentity> elf = read_elf_identity(disk, "/l");
    CHECK((!elf || elf->build_id.empty() || elf->build_id == "65be0d"));
  }
  for (size_t at = 0; at < image.size(); ++at) {
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string changed = image;
      changed[at] = value;
      disk.put("/l", changed);
      (void)read_elf_identity(disk, "/l");
    }
  }
  CHECK(!read_elf_identity(disk, "/missing"));
  disk.put("/text", std::string(200, 'x'));
  CHECK(read_elf_identity(disk, "/text").error().message == "/text is not a shared library");
}
