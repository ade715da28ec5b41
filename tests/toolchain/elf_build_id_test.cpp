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

TEST_CASE("a file that is shorter than its headers say is damaged") {
  MemoryFileSystem disk;
  const auto reason = [&](const std::string& bytes) {
    disk.put("/l", bytes);
    const Result<ElfIdentity> elf = read_elf_identity(disk, "/l");
    if (elf) return std::string();
    CHECK(elf.error().kind == ErrorKind::environment);
    return elf.error().message;
  };
  const std::string damaged = "/l is damaged: it is shorter than its own headers say";

  // The loaded segment is the last part of the file; its notes, and so its build id, survive every cut of the content.
  std::string image = elf_image("\x65\xbe", EM_X86_64, std::string(64, 'c'));
  Elf64_Phdr load{};
  load.p_type = PT_LOAD;
  load.p_filesz = image.size();
  image.replace(sizeof(Elf64_Ehdr), sizeof(load), reinterpret_cast<const char*>(&load), sizeof(load));
  CHECK(reason(image) == "");
  CHECK(reason(image + "x") == "");
  for (size_t length = sizeof(Elf64_Ehdr); length < image.size(); ++length) {
    CHECK(reason(image.substr(0, length)) == damaged);
  }
  load.p_offset = ~uint64_t{0};  // with p_filesz it would come out small
  CHECK(reason(std::string(image).replace(sizeof(Elf64_Ehdr), sizeof(load), reinterpret_cast<const char*>(&load),
                                          sizeof(load))) == damaged);

  // A table of two sections behind all segments.
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof(header));
  header.e_shoff = image.size();
  header.e_shnum = 2;
  header.e_shentsize = sizeof(Elf64_Shdr);
  image.replace(0, sizeof(header), reinterpret_cast<const char*>(&header), sizeof(header));
  image.resize(image.size() + 2 * sizeof(Elf64_Shdr));
  CHECK(reason(image) == "");
  CHECK(reason(image.substr(0, image.size() - 1)) == damaged);
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
