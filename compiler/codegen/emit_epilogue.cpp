#include "compiler/codegen/emit_epilogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "compiler/codegen/emit_quantised.h"
#include "compiler/codegen/emit_reductions.h"
#include "compiler/codegen/expression.h"
#include "compiler/lowering/column_order.h"
#include "compiler/lowering/value_clusters.h"

namespace epifuse::codegen {
namespace {

using lowering::Broadcast;
using lowering::Deal;
using lowering::EpilogueInput;
using lowering::EpilogueNode;
using lowering::KernelPlan;
using lowering::Sink;
using lowering::SinkGroup;
using lowering::SinkKind;
using lowering::ValueCluster;

std::string_view truth(bool value) { return value ? "true" : "false"; }

class Emitter {
 public:
  Emitter(const ir::Graph& graph, const KernelPlan& plan)
      : graph_(graph), plan_(plan), clusters_(lowering::value_clusters(plan.epilogue)) {
    for (const ValueCluster& cluster : clusters_)
      for (const SinkGroup& group : cluster.groups)
        if (lowering::sums_products(plan, group)) products_.insert(group.values[0]);
  }

  std::string run() {
    line("struct Epilogue {{");
    if (!is_pass()) {
      line("  static constexpr u32 slot_bytes = {};", plan_.slot_bytes);
      line("  static constexpr int passes = {};\n", has_wide_blocks(plan_.epilogue) ? 2 : 1);
      count_blocks();
      load_tile_inputs();
    }
    value_functions();
    line("  template <class Accumulators, class Inputs>");
    line("  static EPIFUSE_DEVICE void run(const Parameters& p, const Tile<Plan::places>& tile, Accumulators& sums,");
    line("                                 int first_column, Inputs& inputs, u32 scratch) {{");
    line("    const auto lane = {}::now();", lane_type());
    std::set<int> places;
    // Partials of rows lie as the rows do.
    for (const Sink& sink : plan_.epilogue.sinks) places.insert(is_reduction(sink.kind) ? 0 : sink.place);
    for (const int place : places)
      line("    const OwnRowsOf rows_{}(lane, tile.rows[{}], tile.valid_rows);", place, place);
    tile_loads();
    open_sinks();
    if (has_wide_blocks(plan_.epilogue)) {
      measuring_ = true;
      loop_over_blocks();
      for (const Sink& sink : plan_.epilogue.sinks)
        if (is_wide(sink)) out_ += close_measuring(graph_, plan_, sink);
      measuring_ = false;
      straightened_ = true;
    }
    loop_over_blocks();
    finish_row_scales();
    flush_sinks();
    clear_gaps();
    line("  }}\n}};\n");
    return out_;
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  const ir::Tensor& input_tensor(const EpilogueInput& in) const {
    return graph_.inputs[static_cast<size_t>(in.input)].tensor;
  }
  const ir::Tensor& output_tensor(const Sink& sink) const {
    return graph_.outputs[static_cast<size_t>(sink.output)].tensor;
  }
  static std::string_view tag(const ir::Tensor& tensor) { return storage_name(tensor.type.storage()); }
  std::string_view lane_type() const { return plan_.natural_rows() ? "LaneOf<RowOrder::natural>" : "Lane"; }
  bool is_pass() const { return plan_.schedule.family == lowering::Family::pass; }
  int blocks() const { return plan_.part_tile() / lowering::block_columns; }

  // How many blocks of a tile the epilogue works on: where it takes long, those that lie in the output. Elsewhere the
  // bound is not worth its register.
  void count_blocks() {
    line("  static EPIFUSE_DEVICE int blocks(const Parameters& p, int first_column) {{");
    if (leaves_out_blocks())
      line("    return min({}, round_up((p.columns - first_column + block_columns - 1) / block_columns, {}));",
           blocks(), plan_.schedule.blocks_at_once);
    else
      line("    return {};", blocks());
    line("  }}\n");
  }

  bool leaves_out_blocks() const { return rolled() && plan_.schedule.leaves_out_blocks; }

  // A pass that only measures is unrolled, since it must leave the accumulators where they are. A loop over two blocks
  // at once moves the accumulators half as often.
  void loop_over_blocks() {
    const int at_once = rolled() ? plan_.schedule.blocks_at_once : 1;
    line("#pragma unroll{}", rolled() ? " 1" : "");
    const std::string end = leaves_out_blocks() ? "blocks(p, first_column)" : std::to_string(blocks());
    if (at_once == 1) {
      line("    for (int block = 0; block < {}; ++block) {{", end);
    } else {
      line("    for (int first = 0; first < {}; first += {})", end, at_once);
      line("#pragma unroll");
      line("    for (int own = 0; own < {}; ++own) {{", at_once);
      line("      const int block = first + own;");
    }
    if (!straightened_) straighten();
    line("      const {} columns(lane, first_column + block * block_columns, p.columns);", columns_type());
    if (reads_any_ahead())
      line("      next_columns = OwnColumns(lane, first_column + (block + 1) * block_columns, p.columns);");
    block_loads();
    for (const ValueCluster& cluster : clusters_) store(cluster);
    if (rolled() && !is_pass()) {
      const int places = plan_.interleaved_weight() ? 2 : at_once;
      line("      {}sums.{}();", at_once == 1 ? "" : fmt::format("if (own == {}) ", at_once - 1),
           places == 1 ? "shift" : fmt::format("template shift<{}>", places));
    }
    line("    }}");
  }
  bool rolled() const { return plan_.schedule.rolled && !measuring_; }

  static bool is_wide(const Sink& sink) { return sink.kind == SinkKind::quantised && sink.quantised.wide(); }

  void straighten() {
    if (plan_.natural_epilogue) return;
    if (plan_.interleaved_weight())
      line("      sums.straighten_halves<{}>({});", plan_.gemm.piece, rolled() ? "0" : "block");
    else if (plan_.natural_columns())
      for (int part = 0; part < plan_.gemm.parts; ++part) line("      sums.straighten({});", block_index(part));
  }

  // The block of a part among the accumulators, in the loop over blocks: a rolled loop moves them down.
  std::string block_index(int part) const {
    const int first = part * blocks();
    if (rolled() && plan_.schedule.blocks_at_once == 1) return std::to_string(first);
    if (rolled()) return first == 0 ? "own" : fmt::format("own + {}", first);
    return first == 0 ? "block" : fmt::format("block + {}", first);
  }

  std::string scales_name(const Sink& sink, size_t part) const {
    return fmt::format("scales_{}_{}", output_tensor(sink).name, part);
  }
  static bool stages_scales(const Sink& sink) {
    return sink.kind == SinkKind::mx_transposed && sink.gathered_scales > 1;
  }

  bool staged() const {
    for (const Sink& sink : plan_.epilogue.sinks)
      if (stages_scales(sink) || meets_in_scratch(sink) || sink.kind == SinkKind::quantised) return true;
    return false;
  }

  // What gathers scale bytes or partials over the blocks of the tile.
  void open_sinks() {
    open_old_values();
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (is_reduction(sink.kind)) out_ += open_reduction(graph_, plan_, sink);
      if (sink.kind == SinkKind::quantised) out_ += open_quantised(graph_, plan_, sink, maximum_of(sink));
      if (!is_mx(sink.kind) || alternates(sink)) continue;
      for (size_t part = 0; part < sink.values.size(); ++part) {
        const std::string name = scales_name(sink, part);
        if (stages_scales(sink))
          line("    const GatheredColumnScales {}{{scratch + {}}};", name,
               sink.scratch + static_cast<int>(part) * plan_.part_tile() * 4);
        else if (sink.kind == SinkKind::mx_transposed)
          line("    SingleColumnScales {};", name);
        else if (sink.gathered_scales > 1)
          line("    GatheredRowScales<{}> {};", sink.gathered_scales, name);
        else if (joins_scales(sink))
          line("    JoinedRowScales {};", name);
        else
          line("    SingleRowScales {};", name);
      }
    }
    if (staged()) line("    warpgroup_sync();  // the tile before has been read");
  }

  // Scale bytes of rows that wait for the tile's last block, where accumulators leave a register for them. Where halves
  // are dealt out, a tile's blocks are no neighbours.
  bool joins_scales(const Sink& sink) const {
    return sink.kind == SinkKind::mx_rows && !alternates(sink) && sink.gathered_scales == 1 &&
           plan_.part_tile() * plan_.gemm.parts <= 128 && (sink.values.size() == 1 || plan_.deal == Deal::halves);
  }
  void finish_row_scales() {
    if (std::none_of(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                     [&](const Sink& sink) { return joins_scales(sink); }))
      return;
    line("    const int existing = min({}, (p.columns - first_column + block_columns - 1) / block_columns);", blocks());
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (!joins_scales(sink)) continue;
      const std::string& name = output_tensor(sink).name;
      for (size_t part = 0; part < sink.values.size(); ++part)
        line("    {}.finish(p.scales_{}, p.scale_pitch_{}, lane, rows_{}, ({}) / block_columns, {}, existing);",
             scales_name(sink, part), name, name, sink.place,
             column_in(sink.values.size() == 2, static_cast<int>(part), "first_column"),
             leaves_out_blocks() ? "blocks(p, first_column)" : std::to_string(blocks()));
    }
  }

  // The tensor's largest magnitude: an input, or the number that stands for one left out.
  std::string maximum_of(const Sink& sink) const {
    if (sink.quantised.amax < 0) return "";
    const EpilogueNode& node = plan_.epilogue.nodes[static_cast<size_t>(sink.quantised.amax)];
    return node.kind == EpilogueNode::Kind::number ? spell_number(node.number) : argument(sink.quantised.amax);
  }

  void flush_sinks() {
    if (!staged()) return;
    line("    warpgroup_sync();");
    const auto column_of_part = [&](int part, std::string_view column) {
      return column_in(true, part, std::string(column));
    };
    for (const Sink& sink : plan_.epilogue.sinks)
      if (sink.kind == SinkKind::quantised)
        out_ += flush_quantised(graph_, plan_, sink, [&](int part, std::string_view column) {
          return sink.values.size() == 2 ? column_of_part(part, column) : std::string(column);
        });
    if (std::none_of(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                     [](const Sink& sink) { return stages_scales(sink) || meets_in_scratch(sink); }))
      return;
    line("    for (int index = ptx::thread_index_now() & 127; index < {}; index += 128) {{", plan_.part_tile());
    line("      const int column = first_column + index;");
    for (const Sink& sink : plan_.epilogue.sinks) {
      const auto column_of = [&](int part, std::string_view column) {
        return column_in(sink.values.size() == 2, part, std::string(column));
      };
      if (meets_in_scratch(sink)) out_ += flush_reduction(graph_, plan_, sink, column_of);
      if (!stages_scales(sink)) continue;
      const std::string& name = output_tensor(sink).name;
      for (size_t part = 0; part < sink.values.size(); ++part)
        line("      {}.flush(p.scales_{}, p.scale_pitch_{}, tile.rows[{}], column < p.columns, {}, index);",
             scales_name(sink, part), name, name, sink.place, column_of(static_cast<int>(part), "column"));
    }
    line("    }}");
  }

  // Behind the loop over blocks and not in it: what is seldom wanted would cut its chains apart.
  void clear_gaps() {
    std::string text;
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (sink.kind != SinkKind::mx_transposed || plan_.places[static_cast<size_t>(sink.place)].alignment == 1)
        continue;
      const std::string& name = output_tensor(sink).name;
      for (size_t part = 0; part < sink.values.size(); ++part)
        text += fmt::format("        clear_codes_of_gap<{}{}>(p.out_{}, p.pitch_{}, rows_{}, columns, {});\n",
                            truth(plan_.stores_4_rows(sink)), apart(sink) == 1 ? "" : ", 2", name, name, sink.place,
                            output_column(sink, static_cast<int>(part)));
    }
    if (text.empty()) return;
    line("    if (tile.valid_rows < tile_rows) {{");
    line("#pragma unroll 1");
    line("      for (int block = 0; block < {}; ++block) {{", blocks());
    line("        const OwnColumns columns(lane, first_column + block * block_columns, p.columns);");
    out_ += text;
    line("      }}\n    }}");
  }

  std::string_view columns_type() const {
    return plan_.natural_epilogue ? "OwnColumnsOf<ColumnOrder::natural>" : "OwnColumns";
  }
  // Old values that are read ahead of the sums that they go into: a block of them, or half a block where the
  // accumulators, or others, take more registers. A weight gradient's epilogue has registers for them in wide tiles
  // too.
  bool reads_ahead(const Sink& sink) const {
    return sink.kind == SinkKind::rows && sink.accumulate && sink.values.size() == 1 && !is_pass() &&
           (plan_.natural_rows() || plan_.part_tile() * plan_.gemm.parts <= 128);
  }
  void open_old_values() {
    const auto count = std::count_if(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                                     [&](const Sink& sink) { return reads_ahead(sink); });
    if (count == 0) return;
    line("    OwnColumns next_columns(lane, first_column, p.columns);");
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (!reads_ahead(sink)) continue;
      const std::string& name = output_tensor(sink).name;
      line("    OldValues<{}, {}> old_{};", tag(output_tensor(sink)),
           count == 1 && plan_.part_tile() * plan_.gemm.parts <= 128 ? 4 : 2, name);
      line("    old_{}.load({}, {}, p.pitch_{}, rows_{}, next_columns, {});", name,
           guards_empty(sink) ? "tile.depth != 0" : "true", out_buffer(sink), name, sink.place,
           output_column(sink, 0, "next_columns.first"));
    }
  }
  bool reads_any_ahead() const {
    return std::any_of(plan_.epilogue.sinks.begin(), plan_.epilogue.sinks.end(),
                       [&](const Sink& sink) { return reads_ahead(sink); });
  }
  void add_to_old_values(const Sink& sink) {
    const std::string& name = output_tensor(sink).name;
    line("        old_{}.add({}, value0, {}, p.pitch_{}, rows_{}, columns, {}, block + 1 < {}, next_columns, {});",
         name, guards_empty(sink) ? "tile.depth != 0" : "true", out_buffer(sink), name, sink.place,
         output_column(sink, 0), leaves_out_blocks() ? "blocks(p, first_column)" : std::to_string(blocks()),
         output_column(sink, 0, "next_columns.first"));
  }

  // How far a thread's columns lie apart in a transposed output.
  int apart(const Sink& sink) const { return sink.values.size() == 2 && plan_.deal == Deal::alternating ? 2 : 1; }

  void load_tile_inputs() {
    line(
        "  static EPIFUSE_DEVICE void load_tile_inputs(const Parameters& p, u32 slot, u32 full, int row, int column) "
        "{{");
    int index = 0, offset = 0;
    for (const EpilogueInput& in : plan_.epilogue.inputs) {
      if (in.broadcast != Broadcast::tile || !plan_.brings_box(in)) continue;
      line("    load_tile_input<RowOrder::{}>(slot + {}, p.tile_input[{}], full, {}, row, {});",
           plan_.natural_rows() ? "natural" : "consecutive", offset, index++,
           plan_.alternates(in) ? "2 * column" : column_in(in.doubled, in.part, "column"),
           tile_bytes(in) / lowering::tile_rows);
      offset += tile_bytes(in);
    }
    line("  }}\n");
  }

  int tile_bytes(const EpilogueInput& in) const {
    return lowering::tile_rows * plan_.box_columns(in) * storage_bits(input_tensor(in).type.storage()) / 8;
  }

  // Where column `column` (a multiple of 8) of a half lies in a buffer over both.
  std::string column_in(bool doubled, int part, const std::string& column) const {
    if (!doubled || (plan_.deal == Deal::halves && part == 0)) return column;
    if (plan_.deal == Deal::halves) return column + " + p.columns";
    return fmt::format("dealt_column<{}>({}, {})", plan_.gemm.piece, column, part);
  }

  void value_functions() {
    std::set<std::vector<int>> said;
    for (const ValueCluster& cluster : clusters_) {
      // Values without shared operations are computed one by one, each where it is stored.
      if (at_once(cluster)) {
        said.insert(cluster.roots);
        out_ += spell(cluster.roots) + "\n";
        continue;
      }
      for (const int root : cluster.roots)
        if (said.insert({root}).second) out_ += spell({root}) + "\n";
    }
    if (!has_wide_blocks(plan_.epilogue)) return;
    // The pass that measures computes what is rotated by itself, and the values of wide blocks together.
    const auto say = [&](const std::vector<int>& roots) {
      if (!roots.empty() && said.insert(roots).second) out_ += spell(roots) + "\n";
    };
    for (const ValueCluster& cluster : clusters_) {
      say(wide_roots(cluster));
      for (const SinkGroup& group : cluster.groups)
        if (!group.hadamards.empty()) say(group.values);
    }
  }
  std::string spell(const std::vector<int>& roots) const {
    return spell_values(graph_, plan_.epilogue, roots, function_name(roots), products_);
  }
  static std::string function_name(const std::vector<int>& roots) {
    std::string name = "value";
    for (const int root : roots) name += fmt::format("_{}", root);
    return name;
  }
  bool at_once(const ValueCluster& cluster) const {
    return !plan_.schedule.separate && cluster.at_once(plan_.epilogue);
  }

  std::string local(const EpilogueInput& in) const {
    const std::string& name = input_tensor(in).name;
    return in.doubled ? fmt::format("in{}_{}", in.part, name) : "in_" + name;
  }
  // A parameter that is a buffer, or an array of one buffer for each group.
  static std::string buffer(const std::string& name, bool pointers) {
    return pointers ? fmt::format("static_cast<void**>(p.{})[tile.group]", name) : "p." + name;
  }

  // What is the same for every block of the tile.
  void tile_loads() {
    for (const EpilogueInput& in : plan_.epilogue.inputs) {
      const ir::Tensor& tensor = input_tensor(in);
      switch (in.broadcast) {
        case Broadcast::scalar:
          line("    const float {} = load_1_value<{}>(p.in_{}, 0);", local(in), tag(tensor), tensor.name);
          break;
        case Broadcast::group:
          line("    const float {} = load_1_value<{}>(p.in_{}, tile.group);", local(in), tag(tensor), tensor.name);
          break;
        case Broadcast::row:
          line("    float {}[own_rows];", local(in));
          line("    load_rows<{}>({}, p.in_{}, lane, tile.rows[0], p.all_rows);", tag(tensor), local(in), tensor.name);
          break;
        default: break;
      }
    }
  }

  void block_loads() {
    int offset = 0;
    bool waited = false;
    for (const EpilogueInput& in : plan_.epilogue.inputs) {
      const ir::Tensor& tensor = input_tensor(in);
      if (in.broadcast == Broadcast::column) {
        const std::string row = in.per_group && !in.pointers ? "tile.group" : "0";
        const std::string base = buffer("in_" + tensor.name, in.pointers);
        const std::string pitch = in.doubled ? "2 * p.columns" : "p.columns";
        line("      float {}[own_columns];", local(in));
        if (in.doubled && plan_.deal == Deal::alternating)
          line("      load_columns_alternating<{}>({}, {}, {}, {}, columns.first, {}, columns.exist);", tag(tensor),
               local(in), base, row, pitch, in.part);
        else
          line("      load_columns<{}>({}, {}, {}, {}, {}, columns.exist);", in_order(tag(tensor)), local(in), base,
               row, pitch, column_in(in.doubled, in.part, "columns.first"));
      } else if (in.broadcast == Broadcast::tile) {
        if (is_pass()) {
          read_directly(in);
          continue;
        }
        if (!waited) line("      const u32 slot = inputs.wait();");
        waited = true;
        if (!plan_.brings_box(in)) continue;  // read with the other half
        if (plan_.alternates(in))
          line("      const TileInputHalves<{}, {}> in_{}(slot + {}, lane);", tag(tensor), plan_.gemm.piece,
               tensor.name, offset);
        else
          line("      const TileInput<{}> {}(slot + {}, lane);", tag(tensor), local(in), offset);
        offset += tile_bytes(in);
      }
    }
    if (waited) line("      inputs.release();");
  }

  // Of a loader: its storage type, and the order of columns where it is not the usual one.
  std::string in_order(std::string_view storage) const {
    return fmt::format("{}{}", storage, plan_.natural_epilogue ? ", ColumnOrder::natural" : "");
  }

  // A full-tile input of a pass: from global memory, at rows of place 0.
  void read_directly(const EpilogueInput& in) {
    const ir::Tensor& tensor = input_tensor(in);
    const std::string where =
        fmt::format("p.in_{}, p.pitch_in_{}, lane, tile.rows[0], p.all_rows", tensor.name, tensor.name);
    if (plan_.alternates(in)) {
      if (plan_.brings_box(in))
        line("      const TileInputHalves<{}, {}> in_{}({}, 2 * columns.first, columns.exist);", tag(tensor),
             plan_.gemm.piece, tensor.name, where);
    } else {
      line("      const TileInput<{}> {}({}, {}, columns.exist);", tag(tensor), local(in), where,
           column_in(in.doubled, in.part, "columns.first"));
    }
  }

  std::string argument(int leaf) const {
    const EpilogueNode& node = plan_.epilogue.nodes[static_cast<size_t>(leaf)];
    if (node.kind == EpilogueNode::Kind::accumulator && plan_.interleaved_weight())
      return fmt::format("sums.half_at<{}>({}, {}, i, c)", plan_.gemm.piece, rolled() ? "0" : "block", node.index);
    if (node.kind == EpilogueNode::Kind::accumulator) return fmt::format("sums.at({}, i, c)", block_index(node.index));
    if (node.kind == EpilogueNode::Kind::param) return "p.param_" + graph_.params[static_cast<size_t>(node.index)].name;
    if (node.kind == EpilogueNode::Kind::hadamard) return leaf_name(graph_, plan_.epilogue, leaf) + ".v[i][c]";
    const EpilogueInput& in = plan_.epilogue.inputs[static_cast<size_t>(node.index)];
    switch (in.broadcast) {
      case Broadcast::row: return local(in) + "[i]";
      case Broadcast::column: return local(in) + "[c]";
      case Broadcast::tile:
        if (plan_.alternates(in)) return fmt::format("in_{}.at({}, i, c)", input_tensor(in).name, in.part);
        return local(in) + ".at(i, c)";
      default: return local(in);
    }
  }

  bool alternates(const Sink& sink) const { return lowering::alternates(plan_, sink); }

  // The pass that only measures wants the values of wide blocks one element behind the other: whole blocks of them
  // would take registers beside all accumulators. Rotated blocks are made for them as ever.
  void measure(const ValueCluster& cluster) {
    for (const SinkGroup& group : cluster.groups) {
      if (group.hadamards.empty()) continue;
      for (const int node : group.hadamards) line("      Block {};", leaf_name(graph_, plan_.epilogue, node));
      line("      {{");
      compute({group.values[0]}, "value0");
      clear("value0", needs_cleared_rows(group), needs_cleared_columns(group));
      rotate(group, "value0");
      line("      }}");
    }
    const std::vector<int> roots = wide_roots(cluster);
    if (roots.empty()) return;
    std::string declared, arguments;
    for (const int root : roots) {
      declared += fmt::format("{}v{}", declared.empty() ? "" : ", ", root);
      if (roots.size() > 1) arguments += fmt::format("{}v{}", arguments.empty() ? "" : ", ", root);
    }
    for (const int leaf : leaves_of(plan_.epilogue, roots))
      arguments += (arguments.empty() ? "" : ", ") + argument(leaf);
    line("#pragma unroll");
    line("      for (int i = 0; i < own_rows; ++i) {{");
    const bool zero_when_empty = std::any_of(cluster.groups.begin(), cluster.groups.end(), [&](const SinkGroup& group) {
      return lowering::zero_when_empty(plan_, group);
    });
    line("        const bool exists = lane.first_row() + lane.step(i) < tile.valid_rows{}{};",
         plan_.gemm.part_columns % lowering::tile_rows == 0 ? "" : " && columns.exist",
         zero_when_empty ? " && tile.depth != 0" : "");
    line("#pragma unroll");
    line("        for (int c = 0; c < own_columns; ++c) {{");
    if (roots.size() == 1)
      line("          const float {} = {}({});", declared, function_name(roots), arguments);
    else
      line("          float {};\n          {}({});", declared, function_name(roots), arguments);
    for (const SinkGroup& group : cluster.groups)
      for (const Sink* sink : group.sinks)
        if (is_wide(*sink))
          for (size_t part = 0; part < group.values.size(); ++part)
            out_ += measure_quantised(graph_, *sink, static_cast<int>(part),
                                      fmt::format("exists ? v{} : 0.f", group.values[part]));
    line("        }}\n      }}");
  }

  static std::vector<int> wide_roots(const ValueCluster& cluster) {
    std::vector<int> roots;
    for (const SinkGroup& group : cluster.groups)
      if (std::any_of(group.sinks.begin(), group.sinks.end(), [](const Sink* sink) { return is_wide(*sink); }))
        for (const int value : group.values)
          if (std::find(roots.begin(), roots.end(), value) == roots.end()) roots.push_back(value);
    return roots;
  }

  // What only goes into sums is done with first: its block holds registers until then.
  static std::vector<SinkGroup> smallest_first(std::vector<SinkGroup> groups) {
    std::stable_partition(groups.begin(), groups.end(), [](const SinkGroup& group) {
      return !group.sinks.empty() && std::all_of(group.sinks.begin(), group.sinks.end(),
                                                 [](const Sink* sink) { return is_reduction(sink->kind); });
    });
    return groups;
  }

  void store(const ValueCluster& cluster) {
    if (measuring_) return measure(cluster);
    for (const SinkGroup& group : cluster.groups)
      for (const int node : group.hadamards) line("      Block {};", leaf_name(graph_, plan_.epilogue, node));
    if (!at_once(cluster)) {
      for (const SinkGroup& group : cluster.groups) {
        line("      {{");
        for (size_t part = 0; part < group.values.size(); ++part) {
          const std::string name = fmt::format("value{}", part);
          compute({group.values[part]}, name);
          clear(name, needs_cleared_rows(group), needs_cleared_columns(group));
          if (lowering::zero_when_empty(plan_, group)) clear_empty(name);
          spell_sinks(group, static_cast<int>(part));
        }
        spell_alternating(group);
        rotate(group, "value0");
        line("      }}");
      }
      return;
    }
    line("      {{");
    compute(cluster.roots, "");
    for (const int root : cluster.roots) {
      if (products_.count(root) != 0) continue;
      bool rows = false, columns = false, empty = false;
      for (const SinkGroup& group : cluster.groups) {
        if (std::find(group.values.begin(), group.values.end(), root) == group.values.end()) continue;
        empty = empty || lowering::zero_when_empty(plan_, group);
        rows = rows || needs_cleared_rows(group);
        columns = columns || needs_cleared_columns(group);
      }
      clear(fmt::format("block_{}", root), rows, columns);
      if (empty) clear_empty(fmt::format("block_{}", root));
    }
    for (const SinkGroup& group : smallest_first(cluster.groups)) {
      line("        {{");
      for (size_t part = 0; part < group.values.size(); ++part)
        line("        const {}& value{} = block_{};", products_.count(group.values[part]) ? "SumsOfProducts" : "Block",
             part, group.values[part]);
      for (size_t part = 0; part < group.values.size(); ++part) spell_sinks(group, static_cast<int>(part));
      spell_alternating(group);
      line("        }}");
    }
    for (const SinkGroup& group : cluster.groups) rotate(group, fmt::format("block_{}", group.values[0]));
    line("      }}");
  }

  // The blocks that later values see, out of the one that its sinks have seen.
  void rotate(const SinkGroup& group, const std::string& block) {
    for (const int id : group.hadamards) {
      const EpilogueNode& node = plan_.epilogue.nodes[static_cast<size_t>(id)];
      const std::string name = leaf_name(graph_, plan_.epilogue, id);
      line("        {} = {};", name, block);
      line("        hadamard_{}<{:#x}>({}, lane);", node.along_rows ? "rows" : "columns", node.signs, name);
    }
  }
  bool rotates(const SinkGroup& group, bool along_rows) const {
    return std::any_of(group.hadamards.begin(), group.hadamards.end(),
                       [&](int id) { return plan_.epilogue.nodes[static_cast<size_t>(id)].along_rows == along_rows; });
  }

  // Blocks of one or several values; of a product that is summed, what its rows sum up to.
  void compute(const std::vector<int>& roots, const std::string& names) {
    std::string arguments, sums;
    auto add = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
    std::vector<int> nodes;
    for (size_t i = 0; i < roots.size(); ++i) {
      const int root = roots[i];
      const std::string name = roots.size() > 1 ? fmt::format("block_{}", root) : names;
      if (products_.count(root) == 0) {
        line("        Block {};", name);
        if (roots.size() > 1) add(name + ".v[i][c]");
        nodes.push_back(root);
        continue;
      }
      line("        SumsOfProducts {};", name);
      line("        float first_{}, second_{};", root, root);
      add(fmt::format("first_{}, second_{}", root, root));
      sums += fmt::format("            {}.add(i, c, first_{}, second_{});\n", name, root, root);
      for (const int factor : plan_.epilogue.nodes[static_cast<size_t>(root)].args) nodes.push_back(factor);
    }
    // What is computed separately must not be kept from one value to the next: the compiler is not to see that they
    // share operations.
    for (const int leaf : leaves_of(plan_.epilogue, nodes))
      add(plan_.schedule.separate ? fmt::format("ptx::opaque({})", argument(leaf)) : argument(leaf));
    line("#pragma unroll");
    line("        for (int i = 0; i < own_rows; ++i)");
    line("#pragma unroll");
    const bool returned = roots.size() == 1 && sums.empty();
    line("          for (int c = 0; c < own_columns; ++c) {}{}{}({});", sums.empty() ? "" : "{\n            ",
         returned ? fmt::format("{}.v[i][c] = ", names) : "", function_name(roots), arguments);
    if (!sums.empty()) line("{}          }}", sums);
  }

  void clear(const std::string& name, bool rows, bool columns) {
    if (rows) line("        if (tile.valid_rows < tile_rows) clear_missing_rows({}, lane, tile.valid_rows);", name);
    if (columns) line("        clear_missing_columns({}, columns);", name);
  }

  // The result of an empty group is zero, whatever the epilogue would make of no terms.
  void clear_empty(const std::string& name) {
    line("        if (tile.depth == 0) clear_missing_rows({}, lane, 0);", name);
  }

  void spell_sinks(const SinkGroup& group, int part) {
    for (const Sink* sink : group.sinks)
      if (!alternates(*sink)) spell_sink(*sink, part);
  }
  void spell_alternating(const SinkGroup& group) {
    for (const Sink* sink : group.sinks)
      if (alternates(*sink)) spell_alternating(*sink);
  }

  // Rows behind the group reach memory as zeros where the place has gaps, and must not reach a block's scale, a sum, or
  // what a row is rotated with.
  bool needs_cleared_rows(const SinkGroup& group) const {
    for (const Sink* sink : group.sinks)
      if (plan_.places[static_cast<size_t>(sink->place)].alignment > 1 || sink->kind == SinkKind::mx_transposed ||
          needs_rows_cleared(sink->kind) || (sink->kind == SinkKind::quantised && sink->quantised.block_rows > 1))
        return true;
    return rotates(group, true);
  }
  bool needs_cleared_columns(const SinkGroup& group) const {
    for (const Sink* sink : group.sinks)
      if (plan_.ragged_columns &&
          (sink->kind == SinkKind::mx_rows || (sink->kind == SinkKind::quantised && sink->quantised.block_columns > 1)))
        return true;
    return plan_.ragged_columns && rotates(group, false);
  }

  // What adds to the result of an empty group must not even add 0.
  bool guards_empty(const Sink& sink) const { return sink.accumulate && lowering::contracts_groups(plan_, sink); }
  std::string out_buffer(const Sink& sink) const { return buffer("out_" + output_tensor(sink).name, sink.pointers); }

  // Where the columns of a half lie in the output. In a transposed one each group has as many rows as there are
  // columns.
  std::string output_column(const Sink& sink, int part, const std::string& first = "columns.first") const {
    const std::string column = column_in(sink.values.size() == 2, part, first);
    if (!plan_.places[static_cast<size_t>(sink.place)].local || sink.pointers) return column;
    return fmt::format("tile.group * {} + {}", sink.values.size() == 2 ? "(2 * p.columns)" : "p.columns", column);
  }

  // What stands in front of the first column of both halves together, in a transposed output of batches.
  std::string joined_offset(const Sink& sink) const {
    const bool local = plan_.places[static_cast<size_t>(sink.place)].local;
    return local ? "tile.group * (2 * p.columns) + " : "";
  }

  void spell_sink(const Sink& sink, int part) {
    if (is_reduction(sink.kind)) {
      out_ += put_reduction(graph_, plan_, sink, part);
      return;
    }
    const ir::Tensor& tensor = output_tensor(sink);
    const std::string& name = tensor.name;
    const std::string rows = fmt::format("rows_{}", sink.place), element(storage_name(tensor.type.element));
    const std::string column = output_column(sink, part);
    const int step = apart(sink);
    const std::string guard = guards_empty(sink) ? "if (tile.depth != 0) " : "";
    switch (sink.kind) {
      case SinkKind::rows:
        if (reads_ahead(sink)) {
          add_to_old_values(sink);
          break;
        }
        line("        {}store_rows<{}{}>(value{}, {}, p.pitch_{}, {}, columns, {});", guard, tag(tensor),
             sink.accumulate ? ", true" : "", part, out_buffer(sink), name, rows, column);
        break;
      case SinkKind::transposed:
        line("        {}store_transposed<{}, {}{}>(value{}, {}, p.pitch_{}, {}, columns, {});", guard, tag(tensor),
             truth(plan_.stores_4_rows(sink)), transposed_options(sink, step), part, out_buffer(sink), name, rows,
             column);
        break;
      case SinkKind::mx_rows: spell_mx(sink, part, fmt::format("store_rows_mx<{}>", element), rows, column); break;
      case SinkKind::mx_transposed:
        spell_mx(sink, part,
                 fmt::format("store_transposed_mx<{}, {}{}>", element, truth(plan_.stores_4_rows(sink)),
                             step == 1 ? "" : ", 2"),
                 rows, column);
        break;
      case SinkKind::quantised:
        out_ += put_quantised(
            graph_, plan_, sink,
            {part, column, column_in(sink.values.size() == 2, part, "columns.first"), step, plan_.stores_4_rows(sink)});
        break;
      default: break;
    }
  }

  static std::string transposed_options(const Sink& sink, int step) {
    if (step == 1) return sink.accumulate ? ", true" : "";
    return fmt::format(", {}, {}", truth(sink.accumulate), step);
  }

  void spell_mx(const Sink& sink, int part, const std::string& function, const std::string& rows,
                const std::string& column) {
    const std::string& name = output_tensor(sink).name;
    line("        {}(value{}, p.out_{}, p.pitch_{}, p.scales_{}, p.scale_pitch_{}, {}, lane, {}, columns, {}, block);",
         function, part, name, name, name, name, scales_name(sink, static_cast<size_t>(part)), rows, column);
  }

  void spell_alternating(const Sink& sink) {
    if (sink.kind == SinkKind::quantised) {
      const std::string column = "2 * columns.first", offset = joined_offset(sink);
      out_ += put_quantised(graph_, plan_, sink, {0, offset + column, column, 1, plan_.stores_4_rows(sink)});
      return;
    }
    const ir::Tensor& tensor = output_tensor(sink);
    const std::string& name = tensor.name;
    if (sink.kind == SinkKind::rows)
      line("        {}store_rows_alternating<{}{}>(value0, value1, {}, p.pitch_{}, rows_{}, columns);",
           guards_empty(sink) ? "if (tile.depth != 0) " : "", tag(tensor), sink.accumulate ? ", true" : "",
           out_buffer(sink), name, sink.place);
    else
      line(
          "        store_rows_mx_alternating<{}, {}>(value0, value1, p.out_{}, p.pitch_{}, p.scales_{}, "
          "p.scale_pitch_{}, lane, rows_{}, columns);",
          storage_name(tensor.type.element), plan_.gemm.piece, name, name, name, name, sink.place);
  }

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  const std::vector<ValueCluster> clusters_;
  std::set<int> products_;     // roots of which only sums of rows are wanted, and whose factors go into them
  bool measuring_ = false;     // the pass over blocks that only measures
  bool straightened_ = false;  // an earlier pass has put the columns in order
  std::string out_;
};

}  // namespace

std::string emit_epilogue(const ir::Graph& graph, const KernelPlan& plan) { return Emitter(graph, plan).run(); }

}  // namespace epifuse::codegen
