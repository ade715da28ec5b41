// The GNU build id of a shared library, read from its ELF notes without loading it.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"
#include "base/result.h"

namespace epifuse::toolchain {

struct ElfIdentity {
  uint16_t machine = 0;  // e_machine
  std::string build_id;  // lower-case hex; empty: the file has none
};

// Reads a few thousand bytes. A file that is no 64-bit little-endian ELF file is an error; so is one that is shorter
// than its headers say, for loading that would end the process (SIGBUS).
Result<ElfIdentity> read_elf_identity(FileSystem& disk, const std::string& path);

// The build id, or "xxh3-" and a digest of the content where there is none.
Result<std::string> library_identity(FileSystem& disk, const std::string& path);
// … of a file whose headers were read already.
Result<std::string> library_identity(FileSystem& disk, const std::string& path, const ElfIdentity& elf);

// e_machine of the libraries that this process can load.
uint16_t host_machine();

}  // namespace epifuse::toolchain
