// The resolver: from what was written to an ir::Graph, and everything a person may have got wrong on the way.
//
// Names, shapes, types, groups and stores are checked here, rule by rule of docs/language.md; functions are inlined and
// constants are numbers afterwards. Every mistake is reported with its place, and resolving goes on behind it without
// reporting what only follows from it. A mistake that is already in the list is not reported twice, so that the kernels
// of one file may be resolved one after the other into one Diagnostics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/parser/program.h"

namespace epifuse {

struct ResolveOptions {
  // Numbers of `dim`s, from --dims or from the extents of inputs; they win over the defaults in the spec. A name that
  // is no `dim` of the kernel is an error.
  std::map<std::string, int64_t> dims;
  // Inputs (with a default) and outputs that the caller leaves out.
  std::set<std::string> left_out;
  // Values of the kernel that get an output of their own, `NAME_tap`: f32, over the value's dimensions.
  std::set<std::string> taps;
  // Whether a `dim` without a number is an error. `check` leaves it out; whoever compiles or runs needs the numbers.
  bool require_bound = false;
};

// The kernels of the main file, in its order.
std::vector<std::string> kernel_names(const Program& program);

// The graph of one kernel; an empty name means the only one. Nothing when `diagnostics` holds an error afterwards, be
// it from here or from the parser; a graph that comes back passes ir::verify.
std::optional<ir::Graph> resolve(const Program& program, std::string_view kernel_name, const ResolveOptions& options,
                                 Diagnostics& diagnostics);

// The options for one kernel of several that are looked at together: without the numbers of `dim`s that only others of
// the file have. A name that none has stays.
ResolveOptions options_for(const Program& program, std::string_view kernel_name, const ResolveOptions& options);

// Resolves every kernel of the main file, for the mistakes alone.
void check(const Program& program, const ResolveOptions& options, Diagnostics& diagnostics);

}  // namespace epifuse
