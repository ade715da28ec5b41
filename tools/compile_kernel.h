// From a command line to a compiled kernel, through the engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "jit/unfused.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace epifuse::tools {

CompilerOptions compiler_options(const CommandLine& line);

// For CompilerOptions::tuned, where kernels are planned and no engine asks: the plans of EPIFUSE_TUNING.
std::function<std::string(const std::string&)> tuned_plans(const Surroundings& world);

// `use_cache` false: nothing is taken from the disk or left there.
std::unique_ptr<jit::Engine> make_engine(const Surroundings& world, bool use_cache);

// What is to be said of a compiled kernel and is not on stderr already.
std::vector<std::string> unsaid_warnings(const jit::CompiledKernel& kernel, const Settings& settings);

// What --json says of a compiled kernel, as the text of a JSON object.
std::string kernel_json(const jit::CompiledKernel& kernel);

// … and of one with a kernel for each operation.
std::string unfused_json(const jit::CompiledUnfused& kernel);

}  // namespace epifuse::tools
