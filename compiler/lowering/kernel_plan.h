// KernelPlan: every decision about one kernel on one target, in plain structs that print themselves (--emit=plan). The
// emitter spells it, the runtime launches its recipe; neither decides anything.
//
// The result tile of the GEMM is seen as `parts` tiles of equal width: one, or the two halves that `split` takes its
// columns apart into. Epilogue values are scalar expressions over accumulators and inputs at one row and one column of
// a part; sinks put blocks of values into outputs.
#pragma once

#include <string>
#include <vector>

#include "base/launch_recipe.h"
#include "base/target.h"
#include "compiler/ir/graph.h"

namespace epifuse::lowering {

// What the GEMM is, decided once by classify_gemm; later stages read this name, not the dimensions.
enum class GemmForm { dense, ragged_rows };

// How the columns of a doubled dimension belong to its two halves (language.md V4).
//   halves       first half, then second half
//   alternating  one by one
//   eights       eight by eight
//   blocks       32 by 32
//   pieces       in pieces at least as wide as a tile
enum class Deal { halves, alternating, eights, blocks, pieces };

struct Gemm {
  GemmForm form = GemmForm::dense;
  ir::InputId a = -1, b = -1;  // rows, weight
  ir::NodeId node = -1;
  Storage operand = Storage::bf16;
  ir::Extent rows;        // M, or a dense dimension
  ir::Extent depth;       // contracted
  ir::Extent columns;     // of the result, both halves together
  ir::DimId groups = -1;  // ragged_rows: the dimension that counts the groups
  int parts = 1;
  int64_t piece = 0;         // of the split; 0: halves
  int64_t part_columns = 0;  // columns / parts
};

// A place where rows lie in memory: place 0 is the rows dimension itself, the others are its aligned forms.
struct Place {
  ir::DimId dim = -1;
  int64_t alignment = 1;
};

enum class Broadcast {
  scalar,  // one value
  group,   // one for each group
  row,     // one for each row
  column,  // one for each column (and group, where the tensor has the group dimension)
  tile,    // one for each row and column
};

struct EpilogueInput {
  ir::InputId input = -1;
  Broadcast broadcast = Broadcast::scalar;
  bool per_group = false;  // column: the tensor has a leading group dimension
  bool doubled = false;    // over the columns of both halves
  int part = 0;            // doubled: which half
};

// A scalar expression node; arguments come before their users.
struct EpilogueNode {
  enum class Kind { accumulator, input, param, number, map } kind = Kind::number;
  ir::Op op = ir::Op::number;  // map
  Storage to = Storage::f32;   // cast
  double number = 0;
  int index = 0;  // accumulator: part; input: into Epilogue::inputs; param: ParamId
  std::vector<int> args;
};

enum class SinkKind { rows, transposed, mx_rows, mx_transposed };

// One output. `values` has one node, or one for each half when the output lies over the doubled dimension.
struct Sink {
  int output = -1;  // into Graph::outputs
  SinkKind kind = SinkKind::rows;
  std::vector<int> values;
  int place = 0;
  // mx kinds: scale bytes that are stored at once. Along rows 1, 2 or 4 blocks of a row; transposed 1, or the 4 blocks
  // of a column, which meet in shared memory at `scratch` (bytes from the epilogue's; one region for each value).
  int gathered_scales = 1;
  int scratch = 0;
};

struct Epilogue {
  std::vector<EpilogueNode> nodes;
  std::vector<EpilogueInput> inputs;
  std::vector<Sink> sinks;  // in the order in which they run
};

// The schedule of the sm_90a skeleton (templates/kernels/gemm_sm90.cuh).
struct Schedule {
  bool cooperative = false;  // false: pingpong
  int tile_columns = 128;    // of one consumer warpgroup, all parts
  int stages = 6;
  int tile_input_stages = 1;  // slots of the ring for full-tile inputs, for each consumer warpgroup
  bool rolled = true;         // the epilogue's loop over blocks is a loop
  int registers_producer = 24, registers_consumer = 240;
  int band = 8;  // column tiles that a wave covers before it goes down

  int slices() const { return cooperative ? 2 : 1; }
};

// A piece of the dynamic shared memory; `live` names the roles that use it, all of them for the whole kernel.
struct SharedBuffer {
  std::string name;
  int offset = 0;
  int bytes = 0;
  bool swizzled = false;  // the copy engine writes it in its 1024-byte pattern
};

struct KernelPlan {
  std::string kernel;
  Target target;
  Gemm gemm;
  std::vector<Place> places;
  Epilogue epilogue;
  Schedule schedule;
  Deal deal = Deal::halves;
  bool checked_pairs = false;   // the weight's rows per group are no multiple of 32
  bool ragged_columns = false;  // the columns of a part are no multiple of 32
  int slot_bytes = 0;           // full-tile inputs of one block
  int scratch_bytes = 0;        // of each consumer warpgroup's epilogue
  std::vector<SharedBuffer> shared;
  int shared_bytes = 0;
  double cost = 0;  // the cost model's, in cycles of one multiprocessor for one row of tiles; less is better
  LaunchRecipe recipe;

  int part_tile() const { return schedule.tile_columns / gemm.parts; }

  // Whether a transposed sink may store four rows at once. The gap behind a group of place 0 may be cut by the
  // capacity.
  bool stores_4_rows(const Sink& sink) const {
    return sink.place != 0 && places[static_cast<size_t>(sink.place)].alignment % 4 == 0;
  }
};

constexpr int tile_rows = 128;
constexpr int block_columns = 32;
constexpr int block_rows = 32;  // of a transposed MX output
constexpr int k_tile = 64;

// The text form of a plan: deterministic, versioned (base/version.h plan_text_version).
std::string print(const ir::Graph& graph, const KernelPlan& plan);

// "pingpong 128 x 192, 5 stages": the schedule in a few words, and the name of a plan in overrides and messages.
std::string schedule_name(const Schedule& schedule);

std::string_view deal_name(Deal deal);
std::string_view form_name(GemmForm form);
std::string_view sink_name(SinkKind kind);

// What must hold of any plan: buffers inside the target's shared memory and not overlapping, registers within the
// multiprocessor, tiles of whole blocks, fields of the parameter block aligned and apart. One line per fault.
std::vector<std::string> verify(const KernelPlan& plan);

}  // namespace epifuse::lowering
