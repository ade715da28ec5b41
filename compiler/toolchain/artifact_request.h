// The artifact key: the record of everything that decides a compiled kernel.
#pragma once

#include <string_view>

#include "base/artifact_key.h"
#include "compiler/toolchain/toolchain.h"

namespace epifuse::toolchain {

// `recipe` is the launch recipe's canonical JSON, which is stored with the cubin and must fit it; `identity` is
// Toolchain::identity(), or empty where there is none. The program's name is left out: it decides nothing.
ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity);

}  // namespace epifuse::toolchain
