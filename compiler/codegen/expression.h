// Spells scalar epilogue values as device functions.
#pragma once

#include <string>
#include <vector>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// An f32 literal that reads back as exactly this number.
std::string spell_number(double number);

// `node` over its arguments' spellings, as one expression.
std::string spell_map(const lowering::EpilogueNode& node, const std::vector<std::string>& arguments);

// Leaves (accumulators, inputs, params) that the value of `root` needs, in the order of their nodes.
std::vector<int> leaves_of(const lowering::Epilogue& epilogue, int root);

// A device function `name` that computes the value of `root` from its leaves, one float parameter for each, named by
// `leaf_name(node)`. Indented to stand in a struct.
std::string spell_value(const ir::Graph& graph, const lowering::Epilogue& epilogue, int root, const std::string& name);

// Parameter name of a leaf: "sum_0", "in_prob", "in1_bias", "param_limit".
std::string leaf_name(const ir::Graph& graph, const lowering::Epilogue& epilogue, int leaf);

}  // namespace epifuse::codegen
