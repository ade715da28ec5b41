// What a command reads, and so writes over with no output: the one list of it, by the command line and the settings.
// What is known only when one of those files has been read (the files that a spec uses, the specs of a manifest) is
// held to the same by whoever reads it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "compiler/parser/program.h"
#include "tools/command_line.h"

namespace epifuse::tools {

struct FileRead {
  std::string path;         // empty: nowhere
  std::string what;         // for the message: "the spec", "an input"
  std::string buffer = "";  // run: the input that it holds
};
std::vector<FileRead> files_read(const CommandLine& line, const Settings& settings);
std::vector<FileRead> files_read(const Program& program);

// Whether a file of -o is written: `prebuild --check` reads it.
bool writes_output(const CommandLine& line);

// An error (user) when `output` is one of the files, by whatever name. An empty `output` is nowhere.
Status check_not_replaced(const std::string& output, const std::vector<FileRead>& files);

}  // namespace epifuse::tools
