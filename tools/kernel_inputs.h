// What a command line says about the data of a kernel: files, sizes of groups, and the dimensions that follow from
// both.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/parser/program.h"
#include "jit/inputs.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace epifuse::tools {

struct KernelInputs {
  ir::Graph graph;                            // resolved, with every dimension that has a number
  std::map<std::string, int64_t> dims;        // for the compiler: of the command line and of the inputs' extents
  jit::InputOptions data;                     // what is given; the rest is made (jit/inputs.h)
  std::map<std::string, std::string> origin;  // buffer to where it came from: a file
};

// Reads the files that the command line names and decides the dimensions (language.md N2): the command line, else the
// first given buffer where the dimension stands alone or times a constant, else the spec's default. Errors (user) name
// the file or the option. Mistakes of the spec are in `diagnostics`, and the result is then empty.
Result<std::optional<KernelInputs>> gather_inputs(const Program& program, const CommandLine& line, Surroundings& world,
                                                  Diagnostics& diagnostics);

}  // namespace epifuse::tools
