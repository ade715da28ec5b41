// ArtifactKey: what a compiled kernel is found by. compiler/toolchain makes it, cache/ stores under it; neither knows
// the other.
//
// `request` holds everything that decides the artifact except the compiler itself: CUDA text, the SHA-256 of each
// template that it includes, flags, launch recipe, format version. `toolchain` identifies the compiler's build. An
// entry of the cache is named by the digests of the two; on a hit both are compared byte for byte, so a digest never
// decides equality.
#pragma once

#include <memory>
#include <string>

#include "base/digest.h"

namespace epifuse {

class ArtifactKey {
 public:
  ArtifactKey(std::string request, std::string toolchain);

  const std::string& request() const { return *request_; }
  const std::string& toolchain() const { return toolchain_; }  // empty: no toolchain is installed

  const std::string& first() const { return first_; }          // 32 hex digits: the digest of the request
  std::string name() const { return first_ + "." + second_; }  // 65 characters: the entry's file name

 private:
  std::shared_ptr<const std::string> request_;  // some ten kilobytes; copies of the key share it
  std::string toolchain_;
  std::string first_, second_;
};

}  // namespace epifuse
