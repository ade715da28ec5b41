// The two halves of an artifact's name.
#include "base/artifact_key.h"

#include <utility>

namespace epifuse {

ArtifactKey::ArtifactKey(std::string request, std::string toolchain, std::string subject)
    : request_(std::make_shared<const std::string>(std::move(request))),
      toolchain_(std::move(toolchain)),
      subject_(std::move(subject)),
      first_(digest(*request_).hex()),
      second_(digest(toolchain_).hex()) {}

}  // namespace epifuse
