// A bundle as a source that is linked into a program, for epifuse_engine_add_bundle_memory.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse::tools {

// Defines the aligned bytes `symbol` and the 64-bit number `symbol`_size, with C names. `output` decides the form:
// NAME.S has the assembler read the file `path` (.incbin), so any size costs nothing; NAME.c holds the bytes itself,
// for where there is no assembler or no such file later. Errors (user): another ending, a symbol that is no name of C,
// a path that an assembler cannot spell.
Result<std::string> embedding_source(const std::string& path, std::string_view bytes, const std::string& symbol,
                                     const std::string& output);

}  // namespace epifuse::tools
