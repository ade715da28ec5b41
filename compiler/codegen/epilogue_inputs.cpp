// What comes into an epilogue: boxes of full-tile inputs, and what is loaded for a tile or a block.
#include <algorithm>
#include <fmt/format.h>

#include "compiler/codegen/epilogue_emitter.h"
#include "compiler/codegen/expression.h"

namespace epifuse::codegen {

void EpilogueEmitter::load_tile_inputs() {
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

int EpilogueEmitter::tile_bytes(const EpilogueInput& in) const {
  return lowering::tile_rows * plan_.box_columns(in) * storage_bits(input_tensor(in).type.storage()) / 8;
}

std::string EpilogueEmitter::local(const EpilogueInput& in) const {
  const std::string& name = input_tensor(in).name;
  return in.doubled ? fmt::format("in{}_{}", in.part, name) : "in_" + name;
}

void EpilogueEmitter::tile_loads() {
  for (const EpilogueInput& in : plan_.epilogue.inputs) {
    const ir::Tensor& tensor = input_tensor(in);
    switch (in.broadcast) {
      case Broadcast::scalar:
        line("    const float {} = load_1_value<{}>(p.in_{}, 0);", local(in), tag(tensor), tensor.name);
        break;
      case Broadcast::group:
        line("    const float {} = load_1_value<{}>(p.in_{}, tile.group);", local(in), tag(tensor), tensor.name);
        break;
      case Broadcast::row: load_rows(in, "    "); break;
      default: break;
    }
  }
}

void EpilogueEmitter::load_rows(const EpilogueInput& in, std::string_view indent) {
  const ir::Tensor& tensor = input_tensor(in);
  line("{}float {}[own_rows];", indent, local(in));
  line("{}load_rows<{}>({}, p.in_{}, lane, tile.rows[0], p.all_rows);", indent, tag(tensor), local(in), tensor.name);
}

void EpilogueEmitter::block_loads() {
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
        line("      load_columns<{}>({}, {}, {}, {}, {}, columns.exist);", in_order(tag(tensor)), local(in), base, row,
             pitch, column_in(in.doubled, in.part, "columns.first"));
    } else if (in.broadcast == Broadcast::tile) {
      if (is_pass()) {
        read_directly(in);
        continue;
      }
      if (!waited) line("      const u32 slot = inputs.wait();");
      waited = true;
      if (!plan_.brings_box(in)) continue;  // read with the other half
      if (plan_.alternates(in))
        line("      const TileInputHalves<{}, {}> in_{}(slot + {}, lane);", tag(tensor), plan_.gemm.piece, tensor.name,
             offset);
      else
        line("      const TileInput<{}> {}(slot + {}, lane);", tag(tensor), local(in), offset);
      offset += tile_bytes(in);
    }
  }
  if (waited) line("      inputs.release();");
}

std::string EpilogueEmitter::in_order(std::string_view storage) const {
  return fmt::format("{}{}", storage, plan_.natural_epilogue ? ", ColumnOrder::natural" : "");
}

void EpilogueEmitter::read_directly(const EpilogueInput& in) {
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

std::string EpilogueEmitter::argument(int leaf) const {
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

}  // namespace epifuse::codegen
