// The smallest ELF file with a build id, for tests of what reads one.
#pragma once

#include <cstring>
#include <elf.h>
#include <string>

namespace epifuse::test {

// An empty build id gives a file without the note. The note stands behind another one, as in real files.
inline std::string elf_image(std::string build_id, uint16_t machine, const std::string& content = "") {
  std::string notes;
  const auto add_note = [&](uint32_t type, const std::string& data) {
    const Elf64_Nhdr note{4, static_cast<Elf64_Word>(data.size()), type};
    notes.append(reinterpret_cast<const char*>(&note), sizeof(note)).append("GNU", 4).append(data);
    notes.resize((notes.size() + 3) / 4 * 4);
  };
  add_note(NT_GNU_ABI_TAG, std::string(15, '\1'));
  if (!build_id.empty()) add_note(NT_GNU_BUILD_ID, build_id);

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = machine;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  Elf64_Phdr segments[2]{};
  segments[0].p_type = PT_LOAD;
  segments[1].p_type = PT_NOTE;
  segments[1].p_offset = sizeof(header) + sizeof(segments);
  segments[1].p_filesz = notes.size();
  std::string image(reinterpret_cast<const char*>(&header), sizeof(header));
  image.append(reinterpret_cast<const char*>(segments), sizeof(segments));
  return image + notes + content;
}

}  // namespace epifuse::test
