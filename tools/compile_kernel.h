// From a command line to a compiled kernel, through the engine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "jit/engine.h"
#include "jit/unfused.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace epifuse::tools {

CompilerOptions compiler_options(const CommandLine& line);

// `use_cache` false: nothing is taken from the disk or left there.
std::unique_ptr<jit::Engine> make_engine(const Surroundings& world, bool use_cache);

// The plan that a compile would take now, as it is shown: of bundles, cache, tuning file and cost model, in the
// engine's order. Nothing is compiled for this, and nothing recorded.
struct TakenPlan {
  PlannedKernel planned;
  jit::CompiledKernelPtr compiled;  // null: it has not been compiled, or with a plan that this Epifuse does not make
  std::string why;                  // what decided for it: "asked for", "from the bundle a.epb"
  std::string may_be_left;          // what may be taken instead, and when; empty: nothing

  const PlannedKernel& kernel() const { return compiled ? compiled->planned : planned; }
  size_t index() const { return compiled ? compiled->plan : 0; }  // in the kernel's list
  const lowering::KernelPlan& plan() const { return kernel().lowered.plans[index()]; }
};
std::optional<TakenPlan> taken_plan(jit::Engine& engine, const Program& program, const std::string& kernel,
                                    const CompilerOptions& options, Diagnostics& diagnostics);

// For taken_plan, one for all kernels of a command: it warns of bundles, cache and tuning file as a compile does, once,
// and says nothing else.
std::unique_ptr<jit::Engine> make_looking_engine(const Surroundings& world);

// What is to be said of a compiled kernel and is not on stderr already.
std::vector<std::string> unsaid_warnings(const jit::CompiledKernel& kernel, const Settings& settings);

// What --json says of a compiled kernel, as the text of a JSON object.
std::string kernel_json(const jit::CompiledKernel& kernel);

// … and of one with a kernel for each operation.
std::string unfused_json(const jit::CompiledUnfused& kernel);

}  // namespace epifuse::tools
