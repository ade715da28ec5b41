// From a command line to a compiled kernel, through the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "jit/unfused.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace epifuse::tools {

CompilerOptions compiler_options(const CommandLine& line);

// `use_cache` false: nothing is taken from the disk or left there.
std::unique_ptr<jit::Engine> make_engine(const Surroundings& world, bool use_cache);

// A kernel that the bundles or the cache have, with the plan that was taken; nothing is compiled or recorded for this,
// and nothing said. Null: they have none, or one whose plan this compiler does not make.
jit::CompiledKernelPtr find_compiled(const Program& program, const std::string& kernel, const CompilerOptions& options,
                                     const Surroundings& world);

// What may still become of a plan that nobody compiled yet; empty: it is the only one, or was asked for.
std::string may_be_left(const PlannedKernel& kernel);

// What is to be said of a compiled kernel and is not on stderr already.
std::vector<std::string> unsaid_warnings(const jit::CompiledKernel& kernel, const Settings& settings);

// What --json says of a compiled kernel, as the text of a JSON object.
std::string kernel_json(const jit::CompiledKernel& kernel);

// … and of one with a kernel for each operation.
std::string unfused_json(const jit::CompiledUnfused& kernel);

}  // namespace epifuse::tools
