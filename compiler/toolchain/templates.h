// The device templates, embedded in the binary, as headers for a compile. Paths are relative to templates/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/toolchain/toolchain.h"

namespace epifuse::toolchain {

const std::vector<Header>& embedded_templates();  // sorted by path

// Those of `available` that the source includes, directly or through others, sorted by path. The artifact key digests
// exactly these, so a change to a template makes new artifacts of the kernels that use it and of no others. Every
// `#include "…"` line counts, also one that the preprocessor would skip; a path that is not available is left to the
// compiler to complain about.
std::vector<Header> headers_included_by(std::string_view source,
                                        const std::vector<Header>& available = embedded_templates());

}  // namespace epifuse::toolchain
