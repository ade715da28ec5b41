// Internal to verify.cpp: the check of the nodes of a graph whose dimensions and tensors are sound.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace epifuse::ir {

// Appends one line per fault.
void verify_nodes(const Graph& graph, std::vector<std::string>& faults);

}  // namespace epifuse::ir
