// Spells scalar epilogue values as device functions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// An f32 literal that reads back as exactly this number.
std::string spell_number(double number);

// `node` over its arguments' spellings, as one expression.
std::string spell_map(const lowering::EpilogueNode& node, const std::vector<std::string>& arguments);

// Leaves (accumulators, inputs, params, hadamards) that the values of `roots` need, in the order of their nodes.
std::vector<int> leaves_of(const lowering::Epilogue& epilogue, const std::vector<int>& roots);

// A device function `name` that computes the value of one root from its leaves, one float parameter for each, named by
// `leaf_name(node)`; or those of several roots, which it puts into references in front of the leaves: `value_4`, or, of
// a product whose factors are wanted, `first_4` and `second_4`. Indented to stand in a struct.
std::string spell_values(const ir::Graph& graph, const lowering::Epilogue& epilogue, const std::vector<int>& roots,
                         const std::string& name, const std::set<int>& products = {});

// Parameter name of a leaf: "sum_0", "in_prob", "in1_bias", "param_limit", "hadamard_4".
std::string leaf_name(const ir::Graph& graph, const lowering::Epilogue& epilogue, int leaf);

}  // namespace epifuse::codegen
