// The artifact key: the record of everything that decides a compiled kernel.
#pragma once

#include <string_view>
#include <vector>

#include "base/artifact_key.h"
#include "base/artifact_record.h"
#include "compiler/toolchain/toolchain.h"

namespace epifuse::toolchain {

// `recipe` is the launch recipe's canonical JSON, which is stored with the cubin and must fit it; `identity` is
// Toolchain::identity(), or empty where there is none. The program's name is left out: it decides nothing.
ArtifactKey artifact_key(const CompileRequest& request, std::string_view recipe, std::string_view identity);

// Whether the fields of a record, or of what is stored under it, are numbered otherwise than artifact_key does today.
bool is_of_other_version(const std::vector<RecordField>& record);

}  // namespace epifuse::toolchain
