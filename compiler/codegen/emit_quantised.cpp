#include "compiler/codegen/emit_quantised.h"

#include <fmt/format.h>
#include <set>

#include "compiler/codegen/format_policy.h"
#include "compiler/lowering/plan_quantised.h"

namespace epifuse::codegen {
namespace {

using lowering::GemmForm;
using lowering::KernelPlan;
using lowering::Quantised;
using lowering::Sink;
using lowering::SinkKind;

std::string_view truth(bool value) { return value ? "true" : "false"; }

const ir::Tensor& tensor_of(const ir::Graph& graph, const Sink& sink) {
  return graph.outputs[static_cast<size_t>(sink.output)].tensor;
}

int tiles_of(const Sink& sink) { return sink.quantised.scale_tiles(sink.values.size()); }

// The tile of scales of a half.
int tile_of(const Sink& sink, int part) { return tiles_of(sink) == 1 ? 0 : part; }

bool is_seeded(const ir::Tensor& tensor) { return !tensor.type.seed_input.empty(); }

std::string scale_code(const ir::Tensor& tensor) {
  return storage_bits(ir::format_info(tensor.type.format).scale) == 8 ? "u8" : "float";
}

std::string tile_type(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  return fmt::format("ScaleTile<{}, {}, {}, {}>", scale_code(tensor_of(graph, sink)), sink.quantised.block_rows,
                     sink.quantised.block_columns, scale_columns(plan, sink));
}

std::string values_text(const KernelPlan& plan, const Sink& sink, int part) {
  return sink.quantised.joined ? fmt::format("JoinedValues<{}>{{value0, value1}}", plan.gemm.piece)
                               : fmt::format("OwnValues{{value{}}}", part);
}

std::string_view layout_text(ir::ScaleLayout layout) {
  switch (layout) {
    case ir::ScaleLayout::rows: return "rows";
    case ir::ScaleLayout::columns_tma: return "columns_tma";
    case ir::ScaleLayout::blocked_128x4: return "blocked_128x4";
  }
  return "";
}

}  // namespace

std::string quantised_includes(const ir::Graph& graph, const KernelPlan& plan) {
  std::set<std::string> headers;
  for (const Sink& sink : plan.epilogue.sinks)
    if (sink.kind == SinkKind::quantised) headers.insert(format_header(tensor_of(graph, sink).type));
  if (headers.empty()) return "";
  std::string out = "#include \"epilogue/quantise.cuh\"\n#include \"epilogue/scale_layout.cuh\"\n";
  for (const std::string& header : headers) out += fmt::format("#include \"{}\"\n", header);
  return out;
}

std::string quantised_formats(const ir::Graph& graph, const KernelPlan& plan) {
  std::string out;
  for (const Sink& sink : plan.epilogue.sinks)
    if (sink.kind == SinkKind::quantised)
      out += fmt::format("using Format_{} = {};\n", tensor_of(graph, sink).name,
                         format_policy(tensor_of(graph, sink).type));
  return out.empty() ? out : out + "\n";
}

std::string open_quantised(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink,
                           const std::string& maximum) {
  const ir::Tensor& tensor = tensor_of(graph, sink);
  const Quantised& blocks = sink.quantised;
  std::string out = fmt::format("    const Format_{}::Setup setup_{} = Format_{}::setup({});\n", tensor.name,
                                tensor.name, tensor.name, maximum);
  if (is_seeded(tensor))
    out += fmt::format("    const auto random_{} = formats::RandomSource::load(p.seed_{}, {});\n", tensor.name,
                       tensor.name, graph.ordinal(graph.outputs[static_cast<size_t>(sink.output)]));
  for (int value = 0; value < tiles_of(sink); ++value) {
    out += fmt::format("    const {} scales_{}_{}{{scratch + {}}};\n", tile_type(graph, plan, sink), tensor.name, value,
                       sink.scratch + value * scale_tile_bytes(graph, plan, sink));
    if (blocks.wide())
      out += fmt::format("    WideScales<Format_{}, {}, {}, {}> wide_{}_{}{{scratch + {}}};\n", tensor.name,
                         blocks.block_rows, truth(blocks.exchanged),
                         plan.natural_rows() ? "RowOrder::natural" : "RowOrder::consecutive", tensor.name, value,
                         blocks.meeting + value * meeting_region_bytes(plan, sink));
  }
  return out;
}

std::string measure_quantised(const ir::Graph& graph, const Sink& sink, int part, const std::string& value) {
  return fmt::format("          wide_{}_{}.add(i, {});\n", tensor_of(graph, sink).name, tile_of(sink, part), value);
}

std::string close_measuring(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink) {
  const std::string& name = tensor_of(graph, sink).name;
  std::string out;
  for (int value = 0; value < tiles_of(sink); ++value) {
    // The other warpgroup's scratch lies behind that of the first, or in front of that of the second.
    const std::string other = sink.quantised.exchanged ? fmt::format("(ptx::thread_index_now() < 256 ? {} : -{})",
                                                                     plan.scratch_bytes, plan.scratch_bytes)
                                                       : "0";
    out += fmt::format("    wide_{}_{}.scales(setup_{}, lane, scales_{}_{}, {});\n", name, value, name, name, value,
                       other);
  }
  return out;
}

std::string put_quantised(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink,
                          const QuantisedBlock& block) {
  const ir::Tensor& tensor = tensor_of(graph, sink);
  const Quantised& blocks = sink.quantised;
  const std::string& name = tensor.name;
  const std::string values = values_text(plan, sink, block.part);
  const int width = blocks.joined ? 16 : 8;
  std::string out = "        {\n";
  if (blocks.wide()) {
    out +=
        fmt::format("          const auto block_scales = wide_{}_{}.found(lane);\n", name, tile_of(sink, block.part));
  } else {
    const std::string meeting =
        blocks.meets(plan.natural_rows())
            ? fmt::format("scratch + {}", blocks.meeting + block.part * meeting_region_bytes(plan, sink))
            : "0";
    out += fmt::format(
        "          const {}Scales<Format_{}, {}, {}, {}> block_scales({}, setup_{}, lane, scales_{}_{}, block, {});\n",
        plan.natural_rows() && blocks.block_rows > 1 ? "Natural" : "Warp", name, blocks.block_rows,
        blocks.block_columns, width, values, name, name, block.part, meeting);
  }
  std::string rounding = "Nearest{}";
  if (is_seeded(tensor)) {
    rounding = "rounding";
    const int phase = block.step == 2 ? block.part : 0;
    const bool matrices = plan.gemm.grouped();
    out += fmt::format(
        "          const Stochastic<RowOrder::{}, {}, {}, {}, {}> rounding(random_{}, lane, tile.first_row, {}{}, "
        "{});\n",
        plan.natural_rows() ? "natural" : "consecutive", truth(blocks.transposed), width, block.step, phase, name,
        block.matrix_column, phase == 0 ? "" : fmt::format(" - {}", phase), matrices ? "tile.group" : "0");
  }
  const std::string function =
      blocks.transposed ? fmt::format("store_codes_transposed<Format_{}, {}, {}>", name, truth(block.whole), block.step)
                        : fmt::format("store_codes<Format_{}>", name);
  out += fmt::format("          {}({}, {}, {}, p.out_{}, p.pitch_{}, rows_{}, columns, {});\n", function, values,
                     "block_scales", rounding, name, name, sink.place, block.column);
  return out + "        }\n";
}

std::string flush_quantised(const ir::Graph& graph, const KernelPlan& plan, const Sink& sink,
                            const std::function<std::string(int, std::string_view)>& column_of) {
  const ir::Tensor& tensor = tensor_of(graph, sink);
  const Quantised& blocks = sink.quantised;
  const std::string& name = tensor.name;
  const bool doubled = sink.values.size() == 2, both = doubled && tiles_of(sink) == 1;
  std::string out;
  for (int value = 0; value < tiles_of(sink); ++value) {
    const bool last = !doubled || both || value == 1;
    const std::string twice = both ? "2 * " : "";
    out += fmt::format(
        "    store_scales<ScaleLayout::{}, {}, {}, {}>(\n"
        "        scales_{}_{},\n"
        "        {{p.scales_{}, p.scale_pitch_{}, {}, tile.rows[{}], tile.first_row, tile.valid_rows, {}first_column,\n"
        "         {}p.columns, ({}p.columns + {}) / {}, {}}},\n"
        "        [&](int column) {{ return {}; }});\n",
        layout_text(tensor.type.layout), truth(blocks.transposed), truth(blocks.along_rows), scale_code(tensor), name,
        value, name, name, has_leading_matrices(plan.gemm) ? fmt::format("tile.group * p.scale_matrix_{}", name) : "0",
        blocks.scale_place, twice, twice, doubled ? "2 * " : "", blocks.block_columns - 1, blocks.block_columns,
        truth(last), both ? "column" : column_of(value, "column"));
  }
  // Of two warpgroups that share a block, one stores its scale.
  return blocks.exchanged ? fmt::format("    if (first_column % {} == 0) {{\n{}    }}\n", 2 * plan.part_tile(), out)
                          : out;
}

}  // namespace epifuse::codegen
