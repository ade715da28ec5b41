// The canonical request (design: Keys): what a caller asks of the compiler, as one text. Bundles and tuning files are
// searched by it, so it holds what decides the kernel that is wanted, and nothing that decides only how it is made.
//
//   request 1                       version of this text form
//   kernel fc1                      the graph as resolved (ir::print): every `dim` with its number, every `const` and
//     dim E = 8                     every function put in, types, options, group clauses; what is left out is not in
//     …                             it, or marked
//   target sm_90a
//   without bias                    one line for each name, sorted
//   schedule pingpong 128x192       the plan that the caller named; no line where the choice is left to us
//
// Positions, comments, the order of functions and the names of files are not in it, and neither is anything that only
// a launch knows: counts of tokens, `dyn`s, capacities, strides, numbers that `param`s are given. A tuning file's plan
// is not in it either: it answers the same request.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/target.h"
#include "compiler/ir/graph.h"

namespace epifuse {

// `graph` as resolve() makes it, with a number for each `dim`.
std::string canonical_request(const ir::Graph& graph, const Target& target, const std::set<std::string>& left_out,
                              std::string_view schedule);

}  // namespace epifuse
