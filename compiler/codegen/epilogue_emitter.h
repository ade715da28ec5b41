// The emitter of an epilogue (emit_epilogue.h), whose parts stand in files of their own: the loop over blocks and its
// values in emit_epilogue.cpp, what comes in in epilogue_inputs.cpp, what is stored in epilogue_sinks.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/lowering/column_order.h"
#include "compiler/lowering/kernel_plan.h"
#include "compiler/lowering/value_clusters.h"

namespace epifuse::codegen {

using lowering::Broadcast;
using lowering::Deal;
using lowering::EpilogueInput;
using lowering::EpilogueNode;
using lowering::KernelPlan;
using lowering::Sink;
using lowering::SinkGroup;
using lowering::SinkKind;
using lowering::ValueCluster;

inline std::string_view truth(bool value) { return value ? "true" : "false"; }

class EpilogueEmitter {
 public:
  EpilogueEmitter(const ir::Graph& graph, const KernelPlan& plan)
      : graph_(graph), plan_(plan), clusters_(lowering::value_clusters(plan.epilogue)) {
    for (const ValueCluster& cluster : clusters_)
      for (const SinkGroup& group : cluster.groups)
        if (lowering::sums_products(plan, group)) products_.insert(group.values[0]);
  }

  std::string run();

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  const ir::Tensor& input_tensor(const EpilogueInput& in) const;
  const ir::Tensor& output_tensor(const Sink& sink) const;
  static std::string_view tag(const ir::Tensor& tensor) { return storage_name(tensor.type.storage()); }
  std::string_view lane_type() const { return plan_.natural_rows() ? "LaneOf<RowOrder::natural>" : "Lane"; }
  bool is_pass() const { return plan_.schedule.family == lowering::Family::pass; }
  int blocks() const { return plan_.part_tile() / lowering::block_columns; }

  // Where the thread stands: its lane, and its rows in every place.
  void locate(std::string_view indent);
  void load_rows(const EpilogueInput& in, std::string_view indent);

  // How many blocks of a tile the epilogue works on: where it takes long, those that lie in the output. Elsewhere the
  // bound is not worth its register.
  void count_blocks();

  bool leaves_out_blocks() const { return rolled() && plan_.schedule.leaves_out_blocks; }

  // A pass that only measures is unrolled, since it must leave the accumulators where they are. A loop over two blocks
  // at once moves the accumulators half as often.
  void loop_over_blocks();
  bool rolled() const { return plan_.schedule.rolled && !measuring_; }

  static bool is_wide(const Sink& sink) { return sink.kind == SinkKind::quantised && sink.quantised.wide(); }

  void straighten();

  // The block of a part among the accumulators, in the loop over blocks: a rolled loop moves them down.
  std::string block_index(int part) const;

  std::string scales_name(const Sink& sink, size_t part) const;
  static bool stages_scales(const Sink& sink);

  bool staged() const;

  // What gathers scale bytes or partials over the blocks of the tile.
  void open_sinks();

  // Scale bytes of rows that wait for the tile's last block, where accumulators leave a register for them. Where halves
  // are dealt out, a tile's blocks are no neighbours.
  bool joins_scales(const Sink& sink) const;
  void finish_row_scales();

  // The tensor's largest magnitude: an input, or the number that stands for one left out.
  std::string maximum_of(const Sink& sink) const;

  void flush_sinks();

  // Behind the loop over blocks and not in it: what is seldom wanted would cut its chains apart.
  void clear_gaps();

  std::string_view columns_type() const;
  // Old values that are read ahead of the sums that they go into: a block of them, or half a block where the
  // accumulators, or others, take more registers. A weight gradient's epilogue has registers for them in wide tiles
  // too.
  bool reads_ahead(const Sink& sink) const;
  bool reads_any_ahead() const { return count_read_ahead() != 0; }
  int64_t count_read_ahead() const;
  void open_old_values();
  void add_to_old_values(const Sink& sink);

  // How far a thread's columns lie apart in a transposed output.
  int apart(const Sink& sink) const { return sink.values.size() == 2 && plan_.deal == Deal::alternating ? 2 : 1; }

  void load_tile_inputs();

  int tile_bytes(const EpilogueInput& in) const;

  // Where column `column` (a multiple of 8) of a half lies in a buffer over both.
  std::string column_in(bool doubled, int part, const std::string& column) const;

  void value_functions();
  std::string spell(const std::vector<int>& roots) const;
  static std::string function_name(const std::vector<int>& roots);
  bool at_once(const ValueCluster& cluster) const;

  std::string local(const EpilogueInput& in) const;
  // A parameter that is a buffer, or an array of one buffer for each group.
  static std::string buffer(const std::string& name, bool pointers);

  // What is the same for every block of the tile.
  void tile_loads();

  void block_loads();

  // Of a loader: its storage type, and the order of columns where it is not the usual one.
  std::string in_order(std::string_view storage) const;

  // A full-tile input of a pass: from global memory, at rows of place 0.
  void read_directly(const EpilogueInput& in);

  std::string argument(int leaf) const;

  bool alternates(const Sink& sink) const { return lowering::alternates(plan_, sink); }

  // The pass that only measures wants the values of wide blocks one element behind the other: whole blocks of them
  // would take registers beside all accumulators. Rotated blocks are made for them as ever.
  void measure(const ValueCluster& cluster);

  static std::vector<int> wide_roots(const ValueCluster& cluster);

  // What only goes into sums is done with first: its block holds registers until then.
  static std::vector<SinkGroup> smallest_first(std::vector<SinkGroup> groups);

  void store(const ValueCluster& cluster);

  // The blocks that later values see, out of the one that its sinks have seen.
  void rotate(const SinkGroup& group, const std::string& block);
  bool rotates(const SinkGroup& group, bool along_rows) const;

  // Blocks of one or several values; of a product that is summed, what its rows sum up to.
  void compute(const std::vector<int>& roots, const std::string& names);

  void clear(const std::string& name, bool rows, bool columns);

  // The result of an empty group is zero, whatever the epilogue would make of no terms.
  void clear_empty(const std::string& name);

  void spell_sinks(const SinkGroup& group, int part);
  void spell_alternating(const SinkGroup& group);

  // Rows behind the group reach memory as zeros where the place has gaps, and must not reach a block's scale, a sum, or
  // what a row is rotated with.
  bool needs_cleared_rows(const SinkGroup& group) const;
  bool needs_cleared_columns(const SinkGroup& group) const;

  // What adds to the result of an empty group must not even add 0.
  bool guards_empty(const Sink& sink) const { return sink.accumulate && lowering::contracts_groups(plan_, sink); }
  std::string out_buffer(const Sink& sink) const { return buffer("out_" + output_tensor(sink).name, sink.pointers); }

  // Where the columns of a half lie in the output. In a transposed one each group has as many rows as there are
  // columns.
  std::string output_column(const Sink& sink, int part, const std::string& first = "columns.first") const;

  // What stands in front of the first column of both halves together, in a transposed output of batches.
  std::string joined_offset(const Sink& sink) const;

  void spell_sink(const Sink& sink, int part);

  static std::string transposed_options(const Sink& sink, int step);

  void spell_mx(const Sink& sink, int part, const std::string& function, const std::string& rows,
                const std::string& column);

  void spell_alternating(const Sink& sink);

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  const std::vector<ValueCluster> clusters_;
  std::set<int> products_;     // roots of which only sums of rows are wanted, and whose factors go into them
  bool measuring_ = false;     // the pass over blocks that only measures
  bool straightened_ = false;  // an earlier pass has put the columns in order
  std::string out_;
};

}  // namespace epifuse::codegen
