#include "compiler/codegen/emit_epilogue.h"

#include <algorithm>
#include <fmt/format.h>

#include "compiler/codegen/emit_quantised.h"
#include "compiler/codegen/emit_reductions.h"
#include "compiler/codegen/epilogue_emitter.h"
#include "compiler/codegen/expression.h"

namespace epifuse::codegen {

std::string EpilogueEmitter::run() {
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
  locate("    ");
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
  if (plan_.schedule.places_anew) {
    line("    {{");
    locate("    ");
  }
  finish_row_scales();
  flush_sinks();
  clear_gaps();
  if (plan_.schedule.places_anew) line("    }}");
  line("  }}\n}};\n");
  return out_;
}

void EpilogueEmitter::locate(std::string_view indent) {
  line("{}const auto lane = {}::now();", indent, lane_type());
  std::set<int> places;
  // Partials of rows lie as the rows do.
  for (const Sink& sink : plan_.epilogue.sinks) places.insert(is_reduction(sink.kind) ? 0 : sink.place);
  for (const int place : places)
    line("{}const OwnRowsOf rows_{}(lane, tile.rows[{}], tile.valid_rows);", indent, place, place);
}

const ir::Tensor& EpilogueEmitter::input_tensor(const EpilogueInput& in) const {
  return graph_.inputs[static_cast<size_t>(in.input)].tensor;
}

const ir::Tensor& EpilogueEmitter::output_tensor(const Sink& sink) const {
  return graph_.outputs[static_cast<size_t>(sink.output)].tensor;
}

void EpilogueEmitter::count_blocks() {
  line("  static EPIFUSE_DEVICE int blocks(const Parameters& p, int first_column) {{");
  if (leaves_out_blocks())
    line("    return min({}, round_up((p.columns - first_column + block_columns - 1) / block_columns, {}));", blocks(),
         plan_.schedule.blocks_at_once);
  else
    line("    return {};", blocks());
  line("  }}\n");
}

void EpilogueEmitter::loop_over_blocks() {
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
  if (plan_.schedule.places_anew && rolled()) {
    locate("      ");
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if (in.broadcast == Broadcast::row) load_rows(in, "      ");
  }
  line("      const {} columns(lane, first_column + block * block_columns, p.columns);", columns_type());
  if (reads_any_ahead())
    line("      next_columns = OwnColumns(lane, first_column + (block + 1) * block_columns, p.columns);");
  block_loads();
  for (const ValueCluster& cluster : clusters_) store(cluster);
  if (rolled() && !is_pass()) {
    const int places = plan_.interleaved_weight() ? 2 : at_once;
    if (plan_.schedule.takes_blocks)
      line("      sums.take(block + 1);");
    else
      line("      {}sums.{}();", at_once == 1 ? "" : fmt::format("if (own == {}) ", at_once - 1),
           places == 1 ? "shift" : fmt::format("template shift<{}>", places));
  }
  line("    }}");
}

void EpilogueEmitter::straighten() {
  if (plan_.natural_epilogue) return;
  if (plan_.interleaved_weight())
    line("      sums.straighten_halves<{}>({});", plan_.gemm.piece, rolled() ? "0" : "block");
  else if (plan_.natural_columns())
    for (int part = 0; part < plan_.gemm.parts; ++part) line("      sums.straighten({});", block_index(part));
}

std::string EpilogueEmitter::block_index(int part) const {
  const int first = part * blocks();
  if (rolled() && plan_.schedule.blocks_at_once == 1) return std::to_string(first);
  if (rolled()) return first == 0 ? "own" : fmt::format("own + {}", first);
  return first == 0 ? "block" : fmt::format("block + {}", first);
}

std::string_view EpilogueEmitter::columns_type() const {
  return plan_.natural_epilogue ? "OwnColumnsOf<ColumnOrder::natural>" : "OwnColumns";
}

std::string EpilogueEmitter::column_in(bool doubled, int part, const std::string& column) const {
  if (!doubled || (plan_.deal == Deal::halves && part == 0)) return column;
  if (plan_.deal == Deal::halves) return column + " + p.columns";
  return fmt::format("dealt_column<{}>({}, {})", plan_.gemm.piece, column, part);
}

void EpilogueEmitter::value_functions() {
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

std::string EpilogueEmitter::spell(const std::vector<int>& roots) const {
  return spell_values(graph_, plan_.epilogue, roots, function_name(roots), products_);
}

std::string EpilogueEmitter::function_name(const std::vector<int>& roots) {
  std::string name = "value";
  for (const int root : roots) name += fmt::format("_{}", root);
  return name;
}

bool EpilogueEmitter::at_once(const ValueCluster& cluster) const {
  return !plan_.schedule.separate && cluster.at_once(plan_.epilogue);
}

std::string EpilogueEmitter::buffer(const std::string& name, bool pointers) {
  return pointers ? fmt::format("static_cast<void**>(p.{})[tile.group]", name) : "p." + name;
}

void EpilogueEmitter::measure(const ValueCluster& cluster) {
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
  for (const int leaf : leaves_of(plan_.epilogue, roots)) arguments += (arguments.empty() ? "" : ", ") + argument(leaf);
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

std::vector<int> EpilogueEmitter::wide_roots(const ValueCluster& cluster) {
  std::vector<int> roots;
  for (const SinkGroup& group : cluster.groups)
    if (std::any_of(group.sinks.begin(), group.sinks.end(), [](const Sink* sink) { return is_wide(*sink); }))
      for (const int value : group.values)
        if (std::find(roots.begin(), roots.end(), value) == roots.end()) roots.push_back(value);
  return roots;
}

std::vector<SinkGroup> EpilogueEmitter::smallest_first(std::vector<SinkGroup> groups) {
  std::stable_partition(groups.begin(), groups.end(), [](const SinkGroup& group) {
    return !group.sinks.empty() && std::all_of(group.sinks.begin(), group.sinks.end(),
                                               [](const Sink* sink) { return is_reduction(sink->kind); });
  });
  return groups;
}

void EpilogueEmitter::store(const ValueCluster& cluster) {
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

void EpilogueEmitter::rotate(const SinkGroup& group, const std::string& block) {
  for (const int id : group.hadamards) {
    const EpilogueNode& node = plan_.epilogue.nodes[static_cast<size_t>(id)];
    const std::string name = leaf_name(graph_, plan_.epilogue, id);
    line("        {} = {};", name, block);
    line("        hadamard_{}<{:#x}>({}, lane);", node.along_rows ? "rows" : "columns", node.signs, name);
  }
}

bool EpilogueEmitter::rotates(const SinkGroup& group, bool along_rows) const {
  return std::any_of(group.hadamards.begin(), group.hadamards.end(),
                     [&](int id) { return plan_.epilogue.nodes[static_cast<size_t>(id)].along_rows == along_rows; });
}

void EpilogueEmitter::compute(const std::vector<int>& roots, const std::string& names) {
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

void EpilogueEmitter::clear(const std::string& name, bool rows, bool columns) {
  if (rows) line("        if (tile.valid_rows < tile_rows) clear_missing_rows({}, lane, tile.valid_rows);", name);
  if (columns) line("        clear_missing_columns({}, columns);", name);
}

void EpilogueEmitter::clear_empty(const std::string& name) {
  line("        if (tile.depth == 0) clear_missing_rows({}, lane, 0);", name);
}

std::string emit_epilogue(const ir::Graph& graph, const KernelPlan& plan) { return EpilogueEmitter(graph, plan).run(); }

}  // namespace epifuse::codegen
