// The formatter: a spec in the style of the house, with its comments, its order and its meaning.
//
//   kernel k {
//     dim   E = 8, K = 7168               # keywords to one width; comments behind lines stand in one column
//     group M by E
//     in  x     : bf16[M, K]              # ':' of in and out and '=' of values stand in one column
//     h         = gemm(x, w)
//     out pre   : bf16[M, 2*I] = h        # '=' of outputs that follow each other, too
//     out y     : mxfp8[M, I]  = act
//   }
//
// Of blank lines one is kept. Line breaks inside brackets stay where they are, with what follows below the bracket. A
// line is never broken or joined, and no bracket is added or taken away.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/diagnostics.h"

namespace epifuse {

// Formatting the result again changes nothing. Nothing when the text has mistakes of syntax, which are then reported.
std::optional<std::string> format_spec(const std::shared_ptr<const SourceFile>& file, Diagnostics& diagnostics);

}  // namespace epifuse
