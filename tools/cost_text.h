// Sizes and costs in words, for explain and bench.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/work.h"

namespace epifuse::tools {

std::string bytes_text(double bytes);  // "1.23 GB"
std::string flop_text(double flop);    // "1.92 TFLOP"

// Numbers of `dim`s and `dyn`s, in the graph's order.
std::vector<std::pair<std::string, int64_t>> number_list(const ir::Graph& graph, const ir::LaunchSizes& sizes);

// "E=8 K=7168; M: 8 groups of 2048 rows"; of unequal groups the least and the most.
std::string numbers_text(const std::vector<std::pair<std::string, int64_t>>& dims, const ir::LaunchSizes& sizes);

// Keys "dims" (numbers by name) and "counts" (rows of each group, or null), as the text of a JSON object.
std::string sizes_json(const std::vector<std::pair<std::string, int64_t>>& dims, const ir::LaunchSizes& sizes);

// Keys "flop", "read_bytes", "written_bytes", "product_bytes", "pass_bytes", as the text of a JSON object.
std::string work_json(const ir::Work& work);

// Keys "clock_mhz", "tensor_ms", "memory_ms", "ms", "product_and_pass_ms", as the text of a JSON object.
std::string floor_json(const ir::Floor& floor, double clock_mhz);

}  // namespace epifuse::tools
