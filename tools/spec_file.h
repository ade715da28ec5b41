// Reading the spec that a command line names.
#pragma once

#include <string>

#include "base/diagnostics.h"
#include "base/file_system.h"
#include "base/result.h"
#include "compiler/parser/program.h"

namespace epifuse::tools {

// The program of a spec file. Errors (user): no such file, a directory, not a text, larger than any spec; `output`,
// which is to be written (empty: nothing is), is one of the program's files. Mistakes in the text are in `diagnostics`.
Result<Program> read_spec(const std::string& path, FileSystem& disk, Diagnostics& diagnostics,
                          const std::string& output = "");

// The text of that file alone, whatever it uses; the same errors.
Result<std::string> read_spec_text(const std::string& path, FileSystem& disk);

// An error (user) when `output` is a file that the spec uses. The spec itself it may be, and there may be mistakes.
Status check_no_used_file_replaced(const std::string& spec, FileSystem& disk, const std::string& output);

}  // namespace epifuse::tools
