// Writes the record of an artifact, field by field.
#include "compiler/toolchain/artifact_request.h"

#include <string>

#include "base/artifact_record.h"
#include "base/version.h"

namespace epifuse::toolchain {

ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity) {
  // With room for names and lengths, so that the text is written once.
  constexpr size_t most_of_header = 256;
  ArtifactRecord record(4096 + recipe.size() + request.source.size() + request.headers.size() * most_of_header);
  record.add("artifact", std::to_string(artifact_version));
  record.add("image", std::to_string(kernel_image_version));
  // An Epifuse of another version of the entry's format looks under another name, and neither replaces the other's.
  record.add("entry", std::to_string(cache_entry_version));
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

}  // namespace epifuse::toolchain
