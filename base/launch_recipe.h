// The launch recipe: everything the runtime must know to launch a compiled kernel, as versioned data. It is the only
// thing that the compiler and the runtime share; a process with a driver and a recipe needs nothing else.
//
// Integers are expressions over symbols (base/integer_expression.h). Symbols are
//   - the kernel's `dim`s (their numbers come with the request, not with the cubin, so that one cubin serves many
//   shapes),
//   - its `dyn`s and the capacities of its groups, each read at launch off the extent of a bound tensor,
//   - `NAME.strideI`, the distance in elements between neighbours along axis I of tensor NAME (every axis but the last
//   and those that select a buffer),
//   - `sm_count` (multiprocessors of the device less the launch's margin).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/integer_expression.h"
#include "base/result.h"
#include "base/storage.h"

namespace epifuse {

// The name of the workspace among the buffers, what its address must be a multiple of, and how large a kernel's
// parameter struct may be (the limit that every driver keeps). And how far apart the starts of aligned groups may be.
inline constexpr std::string_view workspace_name = "workspace";
inline constexpr int workspace_alignment = 256;
inline constexpr uint32_t max_parameter_bytes = 4096;
inline constexpr int64_t most_group_align = 1 << 20;

// The largest values of fields, and what a tensor map takes: elements of an axis, and bytes from one place to the next.
inline constexpr int64_t most_integer32 = std::numeric_limits<int32_t>::max();
inline constexpr int64_t most_integer64 = std::numeric_limits<int64_t>::max();
inline constexpr int64_t most_map_extent = int64_t{1} << 32;
inline constexpr int64_t most_map_stride = (int64_t{1} << 40) - 1;

enum class TensorRole { input, output, group_sizes };

// What a tensor map takes, in a parameter struct and in a workspace.
inline constexpr int tensor_map_bytes = 128;

// One buffer the caller binds, by the name it has everywhere (`y`, `y.scale`, `M.ends`); or, with pointer axes, many
// buffers: the caller binds a device array of 8-byte pointers, row-major over the pointer axes. What the fields say of
// memory (strided, alignment) then holds for each buffer that a pointer leads to.
struct RecipeTensor {
  std::string name;
  Storage storage = Storage::f32;
  TensorRole role = TensorRole::input;
  std::vector<IntExpr> extents;  // memory order; e2m1 counts elements, not bytes
  bool strided = false;          // axes but the last may have any stride; otherwise the buffer is contiguous
  int alignment = 16;            // bytes that the pointer, and each stride, must be a multiple of
  std::string pitch_note;        // empty, or why a padded pitch is needed, for messages
  int64_t group_align = 1;       // group_sizes: every group starts at a multiple of this many rows
  int pointer_axes = 0;          // leading axes that select a buffer; fewer than all
  IntExpr group_slot = 0;        // group_sizes: where this is not 0, group e starts at row e * group_slot
};

enum class SymbolKind { fixed, launch };

struct RecipeSymbol {
  std::string name;
  SymbolKind kind = SymbolKind::fixed;
  int64_t multiple = 1;  // the value must be a multiple of this ("K % 8 == 0"); checked before a launch
};

struct RecipeParam {  // `param` of the language: an f32 given at launch
  std::string name;
  std::optional<double> default_value;
};

enum class Swizzle { none, b32, b64, b128 };
enum class TensorMapType { u8, f16, bf16, f32 };

// A TMA descriptor over a bound tensor, encoded at bind time. Lists run from the fastest axis to the slowest. Extents
// need not be the tensor's: a map may reach far past it, where nothing is ever read. Over a tensor of pointers it is a
// template for a map of each buffer, and its base is an address that is never read.
struct TensorMapRecipe {
  std::string tensor;
  TensorMapType type = TensorMapType::bf16;
  IntExpr byte_offset;           // of the map's base from the tensor's pointer
  std::vector<IntExpr> extents;  // elements; rank 2 to 5. An extent below 1 is encoded as 1: the map is not used
  std::vector<IntExpr> strides;  // bytes, one for each axis but the fastest; multiples of 16
  std::vector<uint32_t> box;     // elements; see element_strides
  std::vector<uint32_t> element_strides;  // 1 to 8; a box of B with stride S brings ceil(B / S) elements
  Swizzle swizzle = Swizzle::b128;
};

enum class FieldKind { tensor_map, address, integer32, integer64, param };

// One field of the kernel's parameter struct. The device-side struct is generated from the same list.
struct ParameterField {
  std::string name;  // as the device code spells it
  FieldKind kind = FieldKind::address;
  uint32_t offset = 0;  // bytes from the start of the struct
  uint32_t size = 8;    // tensor_map_bytes for a tensor map, which stands at a multiple of 64
  std::string tensor;   // address: the buffer (or its array of pointers); "workspace"; empty: a null address
  IntExpr value;        // integer*: the value; address into the workspace: the byte offset
  int index = 0;        // tensor_map: into LaunchRecipe::maps; param: into LaunchRecipe::params
};

// A kernel launch, or a memset of the workspace, in stream order.
struct RecipeStep {
  enum class Kind { launch, memset } kind = Kind::launch;
  // launch
  std::string entry;
  uint32_t block = 0;         // threads
  uint32_t shared_bytes = 0;  // dynamic
  IntExpr grid;               // blocks; a value below 1 means that there is nothing to do
  // The entry itself waits for what was enqueued before (griddepcontrol.wait, in every thread, before it touches
  // memory), so that it may be started while that still runs.
  bool waits = false;
  std::vector<ParameterField> fields;
  uint32_t parameter_bytes = 0;
  // memset (to zero bytes)
  IntExpr workspace_offset, bytes;
};

struct LaunchRecipe {
  std::string kernel;  // name in the spec
  std::string target;  // "sm_90a"
  std::vector<RecipeTensor> tensors;
  std::vector<RecipeSymbol> symbols;
  std::vector<RecipeParam> params;
  std::vector<TensorMapRecipe> maps;
  std::vector<RecipeStep> steps;
  IntExpr workspace_bytes = 0;

  const RecipeTensor* find_tensor(std::string_view name) const;

  // What must hold of every recipe, whoever made it: names known and unique, indices in range, fields aligned, in
  // order of offset and apart from each other, numbers within the hardware's limits. The error says where.
  // Extents use declared symbols only; maps also strides; the rest also sm_count.
  Status validate() const;

  // Canonical JSON: equal recipes give equal bytes. It is hashed into the artifact key and stored with the cubin.
  std::string to_json() const;
  // Reads what to_json wrote and validates it; anything else is an error, never a crash.
  static Result<LaunchRecipe> from_json(std::string_view text);
  // Whether to_json of another version wrote it.
  static bool is_of_other_version(std::string_view text);
};

}  // namespace epifuse
