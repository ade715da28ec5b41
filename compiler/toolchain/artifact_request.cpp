// Writes the record of an artifact, field by field.
#include "compiler/toolchain/artifact_request.h"

#include <string>

#include "base/version.h"

namespace epifuse::toolchain {
namespace {

// "name length:bytes\n" each: no two lists of fields give the same record.
class Record {
 public:
  explicit Record(size_t bytes) { text_.reserve(bytes); }
  void add(std::string_view name, std::string_view value) {
    text_.append(name).append(" ").append(std::to_string(value.size())).append(":").append(value).append("\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity) {
  // With room for names and lengths, so that the text is written once.
  constexpr size_t most_of_header = 256;
  Record record(4096 + recipe.size() + request.source.size() + request.headers.size() * most_of_header);
  record.add("artifact", std::to_string(artifact_version));
  record.add("image", std::to_string(kernel_image_version));
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
  return ArtifactKey(record.take(), std::string(identity));
}

}  // namespace epifuse::toolchain
