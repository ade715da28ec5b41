// Kernels of a spec with sizes for everything, for commands that look at what kernels cost: sizes of groups that
// nothing says are what is expected.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "base/result.h"
#include "compiler/compiler.h"
#include "compiler/interpreter/problem.h"
#include "compiler/ir/work.h"
#include "compiler/parser/program.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/kernel_inputs.h"

namespace epifuse::tools {

// Rows of each group, and the size of each `dyn`, where the command line says neither.
inline constexpr int64_t usual_rows = 2048;

struct SizedKernel {
  std::string name;
  KernelInputs inputs;    // `inputs.data` has counts, and a size for each `dyn`
  ir::LaunchSizes sizes;  // the same, for ir::least_work
  std::set<std::string> left_out;
  interpreter::Params params;  // that were given

  // For the compiler: the numbers of `dim`s, and what is left out; the rest from the command line.
  CompilerOptions compiler_options(const CommandLine& line) const;
};

// The kernel that --kernel names, or all of the file, in its order. Of several kernels each takes from --dims and
// --counts what it has. The sizes are such that ir::least_work has no error. Errors and mistakes else as those of
// gather_inputs.
Result<std::optional<std::vector<SizedKernel>>> sized_kernels(const Program& program, const CommandLine& line,
                                                              Surroundings& world, Diagnostics& diagnostics);

}  // namespace epifuse::tools
