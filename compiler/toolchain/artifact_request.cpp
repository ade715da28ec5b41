// Writes the record of an artifact, field by field.
#include "compiler/toolchain/artifact_request.h"

#include <string>
#include <utility>

#include "base/version.h"

namespace epifuse::toolchain {
namespace {

// Those of the record itself, of the image that is stored under it, and of the entry's format: an Epifuse of another
// version of any looks under another name, and neither replaces the other's.
const std::pair<std::string_view, int> versions[] = {
    {"artifact", artifact_version}, {"image", kernel_image_version}, {"entry", cache_entry_version}};

}  // namespace

ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity) {
  // With room for names and lengths, so that the text is written once.
  constexpr size_t most_of_header = 256;
  ArtifactRecord record(4096 + recipe.size() + request.source.size() + request.headers.size() * most_of_header);
  for (const auto& [name, number] : versions) record.add(name, std::to_string(number));
  record.add("arch", request.arch);
  for (const std::string& flag : request.flags) record.add("flag", flag);
  record.add("recipe", recipe);
  for (const Header& header : request.headers) {
    record.add("path", header.path);
    // A hundred kilobytes of templates would be most of an entry, and most of what a warm start reads and compares.
    if (header.sha256.empty())
      record.add("header", header.text);
    else
      record.add("sha256", header.sha256);
  }
  record.add("source", request.source);
  return ArtifactKey(record.take(), std::string(identity), request.program_name);
}

bool is_of_other_version(const std::vector<RecordField>& record) {
  for (const RecordField& field : record)
    for (const auto& [name, number] : versions)
      if (field.name == name && field.value != std::to_string(number)) return true;
  return false;
}

}  // namespace epifuse::toolchain
