// ArtifactKey: what a compiled kernel is found by. compiler/toolchain makes it, cache/ stores under it; neither knows
// the other.
//
// `request` is a record (base/artifact_record.h) of everything that decides the artifact except the compiler itself:
// CUDA text, the SHA-256 of each template that it includes, flags, launch recipe, format versions. `toolchain`
// identifies the compiler's build. An entry of the cache is named by the digests of the two; on a hit both are compared
// byte for byte, so a digest never decides equality.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace epifuse {

// Files of the cache's directory that begin so are no entries: the toolchain keeps notes in them, and makes them anew
// when they are gone (compiler/toolchain/nvrtc_note.h).
inline constexpr std::string_view toolchain_note_prefix = "toolchain.";

class ArtifactKey {
 public:
  // `subject` names the kernel in messages; it is no part of the key.
  ArtifactKey(std::string request, std::string toolchain, std::string subject = "");

  const std::string& request() const { return *request_; }
  const std::string& toolchain() const { return toolchain_; }  // empty: no toolchain is installed
  const std::string& subject() const { return subject_; }

  const std::string& first() const { return first_; }          // 32 hex digits: the digest of the request
  std::string name() const { return first_ + "." + second_; }  // 65 characters: the entry's file name

 private:
  std::shared_ptr<const std::string> request_;  // some ten kilobytes; copies of the key share it
  std::string toolchain_, subject_;
  std::string first_, second_;
};

}  // namespace epifuse
