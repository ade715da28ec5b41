// A launch recipe with every name resolved: expressions as programs over one array of slots. Made once per loaded
// kernel; binding then works with indices only.
#pragma once

#include <string>
#include <vector>

#include "base/launch_recipe.h"
#include "runtime/integer_program.h"

namespace epifuse::runtime {

struct CompiledRecipe {
  explicit CompiledRecipe(LaunchRecipe from);

  struct Tensor {
    std::vector<IntProgram> extents;
    IntProgram group_slot;
    int first_stride_slot = 0;  // of `NAME.stride0`; the next axes follow, pointer axes too, whose slots stay empty
  };
  struct Map {
    int tensor = 0;
    IntProgram byte_offset;
    std::vector<IntProgram> extents, strides;
  };
  struct Field {
    int tensor = -1;  // address: index into the tensors; -1: the workspace, or no address
    IntProgram value;
  };
  struct Step {
    IntProgram grid, workspace_offset, bytes;
    std::vector<Field> fields;
  };

  LaunchRecipe recipe;  // valid (LaunchRecipe::validate)
  std::vector<Tensor> tensors;
  std::vector<Map> maps;
  std::vector<Step> steps;
  IntProgram workspace_bytes;

  // Slots: the recipe's symbols in their order, then the strides, then sm_count.
  std::vector<std::string> slot_names;
  int sm_count_slot = 0;

  int tensor_index(std::string_view name) const;  // -1: none
  std::optional<int> slot(std::string_view name) const;
};

}  // namespace epifuse::runtime
