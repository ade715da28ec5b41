// The compiler's front door: a program of specs and a Target to plans, CUDA text and a request to a toolchain. It needs
// no GPU, no cache and no NVRTC, asks no device, and gives equal bytes for equal input.
//
// A process that starts warm runs exactly this and nothing behind it, so it has to stay below a millisecond for a
// kernel.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "base/target.h"
#include "compiler/lowering/pipeline.h"
#include "compiler/lowering/unfuse.h"
#include "compiler/parser/program.h"
#include "compiler/toolchain/toolchain.h"

namespace epifuse {

struct CompilerOptions {
  std::map<std::string, int64_t> dims;  // win over the defaults in the spec
  std::set<std::string> left_out;       // optional inputs and outputs that the caller leaves out
  std::set<std::string> taps;           // values that get an f32 output of their own, `NAME_tap`
  Target target;
  std::string schedule;  // "pingpong 128x192": that plan and no other; empty: the planner's order

  // Where no schedule is given: from the canonical request to the schedule that goes before the planner's own, or "".
  std::function<std::string(const std::string& request)> tuned;
  bool all_plans = false;  // not a few to fall back on, but all that a tuner chooses from
};

// One kernel, planned.
struct PlannedKernel {
  ir::Graph graph;            // resolved, its gradients derived, and nothing else: what the interpreter runs
  lowering::Lowered lowered;  // the plans, best first, at least one

  std::string request;  // canonical (compiler/request.h)
  std::set<std::string> left_out;
  std::string asked_schedule;  // CompilerOptions::schedule
  std::string spec;            // name of the main file, for messages

  std::string tuned;  // what CompilerOptions::tuned said

  // Whether a plan is the one that it named.
  bool is_tuned(size_t plan) const { return lowered.has_preferred && plan == 0; }
};

// Nothing when there were mistakes, or when something is not lowered yet: the diagnostics say so. An empty kernel name
// means the only kernel of the file.
std::optional<PlannedKernel> plan_kernel(const Program& program, std::string_view kernel,
                                         const CompilerOptions& options, Diagnostics& diagnostics);

// A kernel as kernels of one operation each (lowering/unfuse.h), planned.
struct PlannedUnfused {
  ir::Graph graph;  // as PlannedKernel's
  lowering::Unfused unfused;
  std::vector<PlannedKernel> stages;  // as in `unfused`
};

// As plan_kernel; what is said of a stage names it. The stages take no schedule of the options.
std::optional<PlannedUnfused> plan_unfused(const Program& program, std::string_view kernel,
                                           const CompilerOptions& options, Diagnostics& diagnostics);

// CUDA text of a plan, with the templates it includes, for the toolchain.
toolchain::CompileRequest compile_request(const PlannedKernel& kernel, const lowering::KernelPlan& plan);

// The stages that have a text form here (--emit); ptx, cubin and sass are the toolchain's.
enum class Stage { tokens, ast, ir, plan, cuda };
std::optional<Stage> parse_stage(std::string_view name);

// plan or cuda, of one plan of a kernel.
std::string plan_stage(Stage stage, const PlannedKernel& kernel, size_t plan);

// The text of one stage of the first plan. tokens and ast are of the whole main file; ir has the graph as resolved and
// behind each pass that changed it.
std::optional<std::string> emit_stage(Stage stage, const Program& program, std::string_view kernel,
                                      const CompilerOptions& options, Diagnostics& diagnostics);

// The same (ir, plan or cuda) of every stage of the unfused form, one behind the other, each under a line with its
// name.
std::optional<std::string> emit_unfused(Stage stage, const Program& program, std::string_view kernel,
                                        const CompilerOptions& options, Diagnostics& diagnostics);

}  // namespace epifuse
