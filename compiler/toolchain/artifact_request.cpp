// Writes the record of an artifact, field by field.
#include "compiler/toolchain/artifact_request.h"

#include <string>

#include "base/version.h"

namespace epifuse::toolchain {
namespace {

// "name length:bytes\n" each: no two lists of fields give the same record.
class Record {
 public:
  void add(std::string_view name, std::string_view value) {
    text_.append(name).append(" ").append(std::to_string(value.size())).append(":").append(value).append("\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity) {
  Record record;
  record.add("artifact", std::to_string(artifact_version));
  record.add("image", std::to_string(kernel_image_version));
  record.add("arch", request.arch);
  for (const std::string& flag : request.flags) record.add("flag", flag);
  record.add("recipe", recipe);
  for (const Header& header : request.headers) {
    record.add("path", header.path);
    record.add("header", header.text);
  }
  record.add("source", request.source);
  return ArtifactKey(record.take(), std::string(identity));
}

}  // namespace epifuse::toolchain
