// From a command line to a compiled kernel, through the engine.
#pragma once

#include <memory>

#include "base/diagnostics.h"
#include "base/result.h"
#include "compiler/compiler.h"
#include "jit/engine.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace epifuse::tools {

CompilerOptions compiler_options(const CommandLine& line);

struct KernelOutcome {
  jit::CompiledKernelPtr kernel;  // null: the diagnostics say why
  Diagnostics diagnostics;
  int toolchain_calls = 0;
};

Result<KernelOutcome> compile_kernel(const Program& program, const CommandLine& line, Surroundings& world,
                                     bool read_cache);

}  // namespace epifuse::tools
