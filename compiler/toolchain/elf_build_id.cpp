// Walks an ELF file's program headers to its notes, with every offset checked: the file may be anything.
#include "compiler/toolchain/elf_build_id.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <limits>
#include <string_view>

#include "base/digest.h"

namespace epifuse::toolchain {
namespace {

// Far above what any library has; a damaged header must not make us read for long.
constexpr uint64_t most_segments = 256, most_note_bytes = 64 * 1024;

// Read at once: linkers put the program headers and the notes right behind the file's header.
constexpr uint64_t head_bytes = 2048;

// A structure at an offset of the bytes, or false when they end before it does.
template <class T>
bool copy_out(std::string_view bytes, uint64_t offset, T& into) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&into, bytes.data() + offset, sizeof(T));
  return true;
}

// Where a part of the file ends; a sum that overflows is beyond the end of every file.
uint64_t end_of(uint64_t offset, uint64_t size) {
  return size <= std::numeric_limits<uint64_t>::max() - offset ? offset + size : std::numeric_limits<uint64_t>::max();
}

Error too_short(const std::string& path) {
  return environment_error(fmt::format("{} is damaged: it is shorter than its own headers say", path));
}

uint64_t rounded_up(uint64_t value) { return (value + 3) / 4 * 4; }

// The build id in a note segment, or empty.
std::string find_build_id(std::string_view notes) {
  uint64_t at = 0;
  Elf64_Nhdr note;
  while (copy_out(notes, at, note)) {
    const uint64_t name = at + sizeof(note), data = name + rounded_up(note.n_namesz);
    if (data > notes.size() || note.n_descsz > notes.size() - data) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && notes.substr(name, 4) == std::string_view("GNU\0", 4)) {
      std::string hex;
      for (const unsigned char byte : notes.substr(data, note.n_descsz)) hex += fmt::format("{:02x}", byte);
      return hex;
    }
    at = data + rounded_up(note.n_descsz);
  }
  return "";
}

}  // namespace

uint16_t host_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#else
  return EM_AARCH64;
#endif
}

Result<ElfIdentity> read_elf_identity(FileSystem& disk, const std::string& path) {
  const Result<std::string> head = disk.read_part(path, 0, head_bytes);
  if (!head) return head.error();
  const auto part = [&](uint64_t offset, uint64_t size) -> Result<std::string> {
    if (end_of(offset, size) <= head->size()) return head->substr(offset, size);
    return disk.read_part(path, offset, size);
  };
  Elf64_Ehdr header;
  if (!copy_out(*head, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return environment_error(fmt::format("{} is not a shared library", path));
  }
  ElfIdentity identity;
  identity.machine = header.e_machine;
  const uint64_t count = std::min<uint64_t>(header.e_phnum, most_segments);
  const Result<std::string> table = part(header.e_phoff, count * sizeof(Elf64_Phdr));
  if (!table) return table.error();
  uint64_t end = header.e_shoff == 0 ? 0 : end_of(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize);
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Phdr segment;
    if (!copy_out(*table, i * sizeof(segment), segment)) return too_short(path);
    if (segment.p_type == PT_NULL) continue;  // the rest of it has no meaning
    end = std::max(end, end_of(segment.p_offset, segment.p_filesz));
    if (!identity.build_id.empty() || segment.p_type != PT_NOTE || segment.p_filesz > most_note_bytes) continue;
    const Result<std::string> notes = part(segment.p_offset, segment.p_filesz);
    if (!notes) return notes.error();
    identity.build_id = find_build_id(*notes);
  }
  if (end > 0) {
    // By its last byte and not by its status, which would be that of a link.
    const Result<std::string> last = disk.read_part(path, end - 1, 1);
    if (!last) return last.error();
    if (last->empty()) return too_short(path);
  }
  return identity;
}

Result<std::string> library_identity(FileSystem& disk, const std::string& path) {
  const Result<ElfIdentity> elf = read_elf_identity(disk, path);
  if (!elf) return elf.error();
  return library_identity(disk, path, *elf);
}

Result<std::string> library_identity(FileSystem& disk, const std::string& path, const ElfIdentity& elf) {
  if (!elf.build_id.empty()) return elf.build_id;
  const Result<std::string> content = disk.read(path);
  if (!content) return content.error();
  return "xxh3-" + digest(*content).hex();
}

}  // namespace epifuse::toolchain
