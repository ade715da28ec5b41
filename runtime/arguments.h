// What a caller gives to bind a kernel, and the sizes that follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compiled_recipe.h"
#include "runtime/cuda_types.h"

namespace epifuse::runtime {

// A buffer under its name in the recipe (`y`, `y.scale`, `M.ends`). Where the recipe's tensor has pointer axes: an
// array of 8-byte pointers in device memory, row-major over those axes, to one buffer each.
struct TensorArgument {
  std::string name;
  cuda::DevicePointer pointer = 0;  // of the buffer or of the array; may be null when there is nothing in it
  std::vector<int64_t> extents;     // memory order, elements; the pointer axes first: [E, N, K]
  std::vector<int64_t> strides;     // elements, one per extent (no matter which for a pointer axis); empty: contiguous
  std::optional<Storage> storage;   // when the caller knows it: compared with the recipe
};

struct NamedInteger {
  std::string name;
  int64_t value = 0;
};

struct NamedNumber {
  std::string name;
  double value = 0;
};

struct WorkspaceArgument {
  cuda::DevicePointer pointer = 0;  // a multiple of workspace_alignment
  int64_t bytes = 0;                // at least what workspace_bytes() says
};

struct Arguments {
  std::vector<TensorArgument> tensors;  // exactly those of the recipe, in any order
  std::vector<NamedInteger> dims;       // a value for each `dim` that the recipe keeps as a symbol
  std::vector<NamedNumber> params;      // those without a default must be given
  WorkspaceArgument workspace;
};

// Every symbol's value, and how each tensor of the recipe lies in memory.
struct ResolvedArguments {
  struct Tensor {
    const TensorArgument* argument = nullptr;
    int64_t elements = 0;
    int64_t bytes = 0;  // from the first byte to behind the last one, of the buffer or of the array of pointers
  };
  std::vector<std::optional<int64_t>> slots;  // of CompiledRecipe
  std::vector<Tensor> tensors;                // in the recipe's order
};

// Matches names, reads launch symbols off the extents, and checks every extent, stride and multiple. `sm_count` is the
// device's. Looks at no pointer. Errors (user) name the tensor or dimension, what was given and what is wanted.
// `arguments` must outlive the result.
Result<ResolvedArguments> resolve_arguments(const CompiledRecipe& recipe, const Arguments& arguments, int sm_count);

}  // namespace epifuse::runtime
