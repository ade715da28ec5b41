#include "compiler/lowering/build_recipe.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

#include "base/recipe_limits.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/operand_maps.h"
#include "compiler/lowering/plan_groups.h"
#include "compiler/lowering/plan_quantised.h"
#include "compiler/lowering/plan_reductions.h"
#include "compiler/lowering/pointer_maps.h"
#include "compiler/lowering/recipe_fields.h"
#include "compiler/lowering/tile_counter.h"

namespace epifuse::lowering {
namespace {

// As templates/kernels/gemm_sm90.cuh and pass_sm90.cuh have them.
constexpr uint32_t gemm_threads = 384, pass_threads = 128;

class Writer {
 public:
  Writer(const ir::Graph& graph, const KernelPlan& plan) : graph_(graph), plan_(plan), gemm_(plan.gemm) {}

  LaunchRecipe run() {
    recipe_.kernel = graph_.name;
    recipe_.target = plan_.target.name;
    for (const ir::Param& param : graph_.params) recipe_.params.push_back({param.name, param.default_value});
    add_buffers();
    step_.kind = RecipeStep::Kind::launch;
    step_.entry = "kernel_" + graph_.name;  // a spec may call its kernel like a word of the templates
    step_.block = is_pass() ? pass_threads : gemm_threads;
    step_.shared_bytes = static_cast<uint32_t>(plan_.shared_bytes);
    if (!is_pass()) {
      add_operand_maps();
      add_tile_input_maps();
    }
    add_addresses();
    add_numbers();
    close_fields(step_);
    step_.grid = grid();
    step_.waits = true;
    if (std::optional<RecipeStep> clear = clearing_step(plan_, step_)) recipe_.steps.push_back(*std::move(clear));
    recipe_.steps.push_back(step_);
    for (RecipeStep& step : finishing_steps(graph_, plan_)) recipe_.steps.push_back(std::move(step));
    for (RecipeStep& step : group_ends_steps(graph_)) recipe_.steps.push_back(std::move(step));
    if (!plan_.workspace.empty())
      recipe_.workspace_bytes = plan_.workspace.back().offset + plan_.workspace.back().bytes;
    add_pointer_maps(recipe_, pointer_maps_);
    add_symbols(graph_, recipe_);
    // Rows of 4-bit codes that are as long as the launch says begin with a whole byte.
    for (const Sink& sink : plan_.epilogue.sinks)
      if (sink.kind == SinkKind::quantised && sink.quantised.transposed &&
          storage_bits(output(sink).type.storage()) == 4)
        for (RecipeSymbol& symbol : recipe_.symbols)
          if (symbol.kind == SymbolKind::launch && symbol.name == graph_.extent_text(output(sink).shape.back()))
            symbol.multiple = std::lcm(symbol.multiple, int64_t{2});
    return recipe_;
  }

 private:
  bool is_pass() const { return plan_.schedule.family == Family::pass; }
  const ir::Tensor& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)].tensor; }
  const ir::Tensor& output(const Sink& sink) const { return graph_.outputs[static_cast<size_t>(sink.output)].tensor; }
  IntExpr number_of(const ir::Extent& extent) const { return ir::extent_expression(graph_, extent); }
  IntExpr groups() const { return gemm_.grouped() ? number_of(gemm_.groups) : IntExpr(1); }

  // The distance between neighbours along the last axis but one: from a row to the next.
  static IntExpr pitch(const ir::Tensor& tensor) {
    return IntExpr::symbol(fmt::format("{}.stride{}", tensor.name, tensor.shape.size() - 2));
  }

  // Which buffers may have a pitch of their own: operands and full-tile inputs of rows that no group or batch leads,
  // and outputs alike (N4).
  bool is_strided(const ir::Buffer& buffer) const {
    for (const std::vector<GemmOperand>* operands : {&gemm_.a, &gemm_.b})
      for (const GemmOperand& operand : *operands)
        if (input(operand.input).name == buffer.name && is_strided_operand(graph_, operand)) return true;
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if (in.broadcast == Broadcast::tile && input(in.input).name == buffer.name)
        return input(in.input).shape.size() == 2;
    for (const Sink& sink : plan_.epilogue.sinks)
      if (output(sink).name == buffer.name) return !is_reduction(sink.kind) && output(sink).shape.size() == 2;
    return false;
  }

  // Bytes that stores and copies of this buffer need its pointer and pitch to be a multiple of.
  int alignment_of(const ir::Buffer& buffer) const {
    const bool is_integer = buffer.storage == Storage::i32 || buffer.storage == Storage::i64;  // sizes, and ends
    if (is_integer && buffer.role != TensorRole::input) return storage_bits(buffer.storage) / 8;
    const int bytes = storage_bits(buffer.storage) / 8;
    if (buffer.role == TensorRole::input) {
      const bool scalar_reads =
          std::any_of(plan_.epilogue.inputs.begin(), plan_.epilogue.inputs.end(), [&](const EpilogueInput& in) {
            return input(in.input).name == buffer.name && in.broadcast != Broadcast::column &&
                   in.broadcast != Broadcast::tile;
          });
      return scalar_reads ? bytes : 16;
    }
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (output(sink).name != buffer.tensor) continue;
      if (sink.kind == SinkKind::quantised)
        return buffer.is_scale ? bytes : codes_alignment(sink, storage_bits(buffer.storage));
      if (buffer.is_scale) return sink.gathered_scales;
      if (is_reduction(sink.kind)) return bytes;
      if (sink.kind == SinkKind::rows || sink.kind == SinkKind::mx_rows) return std::min(16, 8 * bytes);
      return plan_.stores_4_rows(sink) ? 4 * bytes : bytes;
    }
    return 16;
  }

  // Codes of a row are stored eight (or sixteen) at once, of a column four, or one byte at a time.
  int codes_alignment(const Sink& sink, int bits) const {
    if (!sink.quantised.transposed) return (sink.quantised.joined ? 16 : 8) * bits / 8;
    return plan_.stores_4_rows(sink) ? 4 * bits / 8 : 1;
  }

  void add_buffers() {
    for (const ir::Buffer& buffer : ir::buffers(graph_)) {
      RecipeTensor tensor;
      tensor.name = buffer.name;
      tensor.storage = buffer.storage;
      tensor.role = buffer.role;
      tensor.extents = buffer.extents;
      tensor.pointer_axes = buffer.pointer_axes;
      tensor.strided = is_strided(buffer);
      tensor.alignment = alignment_of(buffer);
      if (buffer.role == TensorRole::group_sizes) describe_groups(graph_, buffer.tensor, tensor);
      recipe_.tensors.push_back(std::move(tensor));
    }
  }

  void map(const std::string& name, TensorMapRecipe recipe) {
    recipe_.maps.push_back(std::move(recipe));
    add_field(step_, name, FieldKind::tensor_map, "", 0, static_cast<int>(recipe_.maps.size()) - 1);
  }
  void number(const std::string& name, const IntExpr& value) { add_integer(step_, name, value); }

  static TensorMapType map_type(Storage storage) {
    switch (storage) {
      case Storage::f32: return TensorMapType::f32;
      case Storage::bf16: return TensorMapType::bf16;
      case Storage::f16: return TensorMapType::f16;
      default: return TensorMapType::u8;
    }
  }

  void add_operand_maps() {
    OperandMaps maps = operand_maps(graph_, plan_);
    for (size_t i = 0; i < maps.a.size(); ++i) map(fmt::format("a.{}", i), std::move(maps.a[i]));
    for (size_t i = 0; i < maps.a_checked.size(); ++i)
      map(fmt::format("a_checked.{}", i), std::move(maps.a_checked[i]));
    if (!plan_.pointer_weights(graph_)) {
      for (size_t i = 0; i < maps.b.size(); ++i) map(fmt::format("b.{}", i), std::move(maps.b[i]));
      return;
    }
    const IntExpr at = plan_.region("weight maps").offset;
    for (size_t i = 0; i < maps.b.size(); ++i)
      pointer_maps_.push_back(
          {std::move(maps.b[i]), groups(), at + groups() * (static_cast<int64_t>(i) * tensor_map_bytes)});
    add_address(step_, "b_maps", std::string(workspace_name), at);
  }

  // Columns that are dealt out one by one or eight by eight are brought for both halves at once. Where a thread's rows
  // are neighbours, each of them has a box of its own (templates/epilogue/tile_inputs.cuh).
  void add_tile_input_maps() {
    int index = 0;
    for (const EpilogueInput& in : plan_.epilogue.inputs) {
      if (in.broadcast != Broadcast::tile || !plan_.brings_box(in)) continue;
      const ir::Tensor& tensor = input(in.input);
      const Storage storage = tensor.type.storage();
      const int width = plan_.box_columns(in), bytes = width * storage_bits(storage) / 8;
      const Swizzle swizzle = bytes == 128 ? Swizzle::b128 : bytes == 64 ? Swizzle::b64 : Swizzle::b32;
      map(fmt::format("tile_input.{}", index++), {tensor.name,
                                                  map_type(storage),
                                                  0,
                                                  {number_of(tensor.shape.back()), all_rows(graph_, gemm_)},
                                                  {pitch(tensor) * (storage_bits(storage) / 8)},
                                                  {static_cast<uint32_t>(width), tile_rows},
                                                  {1, plan_.natural_rows() ? 1u : thread_rows},
                                                  swizzle});
    }
  }

  void add_addresses() {
    const bool ragged = is_ragged(graph_, gemm_);
    add_address(step_, "group_sizes", ragged ? ir::group_sizes_name(graph_, grouped_extent(gemm_).dim) : std::string());
    std::set<ir::InputId> seen;
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if ((in.broadcast != Broadcast::tile || is_pass()) && seen.insert(in.input).second)
        add_address(step_, "in_" + input(in.input).name, input(in.input).name);
    for (const Sink& sink : plan_.epilogue.sinks) {
      const std::string& name = output(sink).name;
      if (is_reduction(sink.kind)) continue;
      add_address(step_, "out_" + name, name);
      if (is_mx(sink.kind) || sink.kind == SinkKind::quantised) add_address(step_, "scales_" + name, name + ".scale");
      if (sink.kind == SinkKind::quantised && !output(sink).type.seed_input.empty())
        add_address(step_, "seed_" + name, output(sink).type.seed_input);
    }
    add_partials_fields(graph_, plan_, step_);
    add_tile_counter_field(plan_, step_);
  }

  void add_numbers() {
    const IntExpr rows = number_of(gemm_.rows), columns = number_of(gemm_.columns);
    const bool ragged_depth = gemm_.form == GemmForm::ragged_depth;
    number("groups", groups());
    number("capacity", ragged_depth ? number_of(gemm_.depth) : all_rows(graph_, gemm_));
    if (gemm_.grouped() && !is_ragged(graph_, gemm_))
      number("batch_rows", ragged_depth ? number_of(gemm_.depth) : rows);
    if (in_slots(graph_, gemm_)) number("slot", slot_rows(graph_, grouped_extent(gemm_).dim));
    if (ragged_depth) {
      number("rows", rows);
      number("row_tiles", ceil_div(rows, tile_rows));
    }
    number("all_rows", all_rows(graph_, gemm_));
    if (!is_pass()) number("depth", number_of(gemm_.depth));
    if (gemm_.segments == 2) number("loop_depth", ceil_div(number_of(gemm_.depth), k_tile) * (2 * k_tile));
    number("columns", columns);
    number("column_tiles", column_tiles());
    number("band", plan_.schedule.band);
    // In units of weight rows that a block index counts: where two halves alternate within 64 rows, 64 count as 32.
    const bool interleaved =
        plan_.deal == Deal::alternating || plan_.deal == Deal::eights || plan_.deal == Deal::blocks;
    if (!is_pass() && gemm_.b[0].major == Major::k)
      number("b_group_rows", gemm_.split_weight() && !interleaved ? columns * 2 : columns);
    // Full-tile inputs of a GEMM come through maps.
    std::set<ir::InputId> seen;
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if (is_pass() && in.broadcast == Broadcast::tile && seen.insert(in.input).second)
        number("pitch_in_" + input(in.input).name, pitch(input(in.input)));
    for (const Sink& sink : plan_.epilogue.sinks) {
      const ir::Tensor& tensor = output(sink);
      if (is_reduction(sink.kind)) continue;
      number("pitch_" + tensor.name, pitch(tensor));
      if (is_mx(sink.kind)) number("scale_pitch_" + tensor.name, ceil_div(number_of(tensor.shape.back()), 32));
      if (sink.kind == SinkKind::quantised) {
        number("scale_pitch_" + tensor.name, scale_pitch(graph_, sink));
        if (has_leading_matrices(gemm_))
          add_field(step_, "scale_matrix_" + tensor.name, FieldKind::integer64, "", scale_group_stride(graph_, sink));
      }
    }
    for (size_t i = 0; i < graph_.params.size(); ++i)
      add_field(step_, "param_" + graph_.params[i].name, FieldKind::param, "", 0, static_cast<int>(i));
  }

  IntExpr grid() const {
    const IntExpr multiprocessors = IntExpr::symbol(std::string(multiprocessors_name)) * plan_.schedule.ctas;
    const IntExpr tiles = most_row_tiles(graph_, plan_) * column_tiles();
    const int cluster = plan_.schedule.cluster();
    if (cluster == 1) return min(multiprocessors, tiles);
    // Whole clusters; one where a margin leaves no room for it.
    return min(max(ceil_div(multiprocessors - (cluster - 1), cluster), 1), tiles) * cluster;
  }

  IntExpr column_tiles() const {
    return ceil_div(number_of(gemm_.columns), plan_.part_tile() * plan_.schedule.slices());
  }

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  const Gemm& gemm_;
  LaunchRecipe recipe_;
  RecipeStep step_;
  std::vector<PointerMap> pointer_maps_;
};

}  // namespace

LaunchRecipe build_recipe(const ir::Graph& graph, const KernelPlan& plan) { return Writer(graph, plan).run(); }

}  // namespace epifuse::lowering
