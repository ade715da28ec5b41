#include "compiler/lowering/build_recipe.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"

namespace epifuse::lowering {
namespace {

constexpr uint32_t block_threads = 384;
constexpr int64_t operand_bytes = 2;

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
    step_.block = block_threads;
    step_.shared_bytes = static_cast<uint32_t>(plan_.shared_bytes);
    add_operand_maps();
    add_tile_input_maps();
    add_addresses();
    add_numbers();
    step_.parameter_bytes = (at_ + 63) / 64 * 64;  // the struct is aligned as its tensor maps are
    step_.grid = grid();
    recipe_.steps.push_back(step_);
    add_symbols();
    return recipe_;
  }

 private:
  const ir::Tensor& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)].tensor; }
  IntExpr rows() const { return ir::extent_expression(graph_, gemm_.rows); }
  IntExpr groups() const {
    return gemm_.form == GemmForm::dense ? IntExpr(1) : ir::extent_expression(graph_, {1, gemm_.groups, 1});
  }
  static IntExpr stride(const ir::Tensor& tensor, int axis) {
    return IntExpr::symbol(fmt::format("{}.stride{}", tensor.name, axis));
  }

  // Which buffers may have a pitch of their own: the rows operand, full-tile inputs and plain row outputs (N4).
  bool is_strided(const std::string& name) const {
    if (name == input(gemm_.a).name) return true;
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if (in.broadcast == Broadcast::tile && input(in.input).name == name) return true;
    for (const Sink& sink : plan_.epilogue.sinks)
      if (graph_.outputs[static_cast<size_t>(sink.output)].tensor.name == name) return true;
    return false;
  }

  // Bytes that stores and copies of this buffer need its pointer and pitch to be a multiple of.
  int alignment_of(const ir::Buffer& buffer) const {
    if (buffer.role == TensorRole::group_sizes) return storage_bits(buffer.storage) / 8;
    if (buffer.name != buffer.tensor) return gathered_scales(buffer.tensor);
    if (buffer.role == TensorRole::input) {
      const bool scalar_reads =
          std::any_of(plan_.epilogue.inputs.begin(), plan_.epilogue.inputs.end(), [&](const EpilogueInput& in) {
            return input(in.input).name == buffer.name && in.broadcast != Broadcast::column &&
                   in.broadcast != Broadcast::tile;
          });
      return scalar_reads ? storage_bits(buffer.storage) / 8 : 16;
    }
    for (const Sink& sink : plan_.epilogue.sinks) {
      if (graph_.outputs[static_cast<size_t>(sink.output)].tensor.name != buffer.name) continue;
      const int bytes = storage_bits(buffer.storage) / 8;
      if (sink.kind == SinkKind::rows || sink.kind == SinkKind::mx_rows) return std::min(16, 8 * bytes);
      if (!plan_.stores_4_rows(sink)) return bytes;
      return 4 * bytes;
    }
    return 16;
  }

  int gathered_scales(const std::string& tensor) const {
    for (const Sink& sink : plan_.epilogue.sinks)
      if (graph_.outputs[static_cast<size_t>(sink.output)].tensor.name == tensor) return sink.gathered_scales;
    return 1;
  }

  void add_buffers() {
    for (const ir::Buffer& buffer : ir::buffers(graph_)) {
      RecipeTensor tensor;
      tensor.name = buffer.name;
      tensor.storage = buffer.storage;
      tensor.role = buffer.role;
      tensor.extents = buffer.extents;
      tensor.strided = is_strided(buffer.name);
      tensor.alignment = alignment_of(buffer);
      if (buffer.role == TensorRole::group_sizes) tensor.group_align = plan_.places[0].alignment;
      recipe_.tensors.push_back(std::move(tensor));
    }
  }

  void field(std::string name, FieldKind kind, uint32_t size, uint32_t align, std::string tensor, IntExpr value,
             int index) {
    at_ = (at_ + align - 1) / align * align;
    step_.fields.push_back({std::move(name), kind, at_, size, std::move(tensor), std::move(value), index});
    at_ += size;
  }
  void map(const std::string& name, TensorMapRecipe recipe) {
    recipe_.maps.push_back(std::move(recipe));
    field(name, FieldKind::tensor_map, 128, 64, "", 0, static_cast<int>(recipe_.maps.size()) - 1);
  }
  void address(const std::string& name, const std::string& tensor) {
    field(name, FieldKind::address, 8, 8, tensor, 0, 0);
  }
  void number(const std::string& name, const IntExpr& value) { field(name, FieldKind::integer32, 4, 4, "", value, 0); }

  static TensorMapType map_type(Storage storage) {
    switch (storage) {
      case Storage::f32: return TensorMapType::f32;
      case Storage::bf16: return TensorMapType::bf16;
      case Storage::f16: return TensorMapType::f16;
      default: return TensorMapType::u8;
    }
  }

  // The boxes of templates/tile/operands.cuh.
  void add_operand_maps() {
    const ir::Tensor& a = input(gemm_.a);
    const ir::Tensor& b = input(gemm_.b);
    const TensorMapType type = map_type(gemm_.operand);
    const IntExpr depth = ir::extent_expression(graph_, gemm_.depth), m = rows();
    const IntExpr ld = stride(a, 0) * operand_bytes;
    map("a", {a.name,
              type,
              0,
              {depth, 8, m, 4, 2},
              {ld * 4, ld, ld * 32, ld * 2},
              {64, 8, 2, 4, 2},
              {1, 1, 1, 1, 1},
              Swizzle::b128});
    map("a_checked", {a.name, type, 0, {depth, m}, {ld}, {64, 32}, {1, 4}, Swizzle::b128});

    const IntExpr weight_rows = groups() * ir::extent_expression(graph_, gemm_.columns);
    const IntExpr pitch = depth * operand_bytes;
    const IntExpr half = exact_div(ir::extent_expression(graph_, gemm_.columns), gemm_.parts);
    for (int part = 0; part < gemm_.parts; ++part) {
      IntExpr first_row = 0, blocks = 0;
      int64_t column = 1, eight = 8, block = 32;  // weight rows from a column to its neighbour, the eighth, the 32nd
      switch (plan_.deal) {
        case Deal::halves: first_row = half * part; break;
        case Deal::pieces: first_row = gemm_.piece * part; break;
        case Deal::alternating: first_row = part, column = 2, eight = 16, block = 64; break;
        case Deal::eights: first_row = 8 * part, eight = 16, block = 64; break;
        case Deal::blocks: first_row = 32 * part, block = 64; break;
      }
      const IntExpr offset = first_row * pitch;
      if (plan_.checked_pairs) {
        map(fmt::format("b.{}", part), {b.name,
                                        type,
                                        offset,
                                        {depth, 2, weight_rows - first_row - 1},
                                        {pitch, pitch},
                                        {64, 2, 32},
                                        {1, 1, 8},
                                        Swizzle::b128});
        continue;
      }
      blocks = block == 32 ? exact_div(weight_rows - first_row, block) : exact_div(weight_rows, block);
      map(fmt::format("b.{}", part), {b.name,
                                      type,
                                      offset,
                                      {depth, 2, 4, 4, blocks},
                                      {pitch * column, pitch * eight, pitch * (2 * column), pitch * block},
                                      {64, 2, 4, 4, static_cast<uint32_t>(plan_.part_tile() / block_columns)},
                                      {1, 1, 1, 1, 1},
                                      Swizzle::b128});
    }
  }

  void add_tile_input_maps() {
    int index = 0;
    for (const EpilogueInput& in : plan_.epilogue.inputs) {
      if (in.broadcast != Broadcast::tile) continue;
      const ir::Tensor& tensor = input(in.input);
      const Storage storage = tensor.type.storage();
      const int bytes = storage_bits(storage) / 8;
      const Swizzle swizzle = bytes == 4 ? Swizzle::b128 : bytes == 2 ? Swizzle::b64 : Swizzle::b32;
      map(fmt::format("tile_input.{}", index++), {tensor.name,
                                                  map_type(storage),
                                                  0,
                                                  {ir::extent_expression(graph_, tensor.shape[1]), rows()},
                                                  {stride(tensor, 0) * bytes},
                                                  {block_columns, tile_rows},
                                                  {1, 1},
                                                  swizzle});
    }
  }

  void add_addresses() {
    address("group_sizes", gemm_.form == GemmForm::ragged_rows ? ir::group_sizes_name(graph_, gemm_.rows.dim) : "");
    std::set<ir::InputId> seen;
    for (const EpilogueInput& in : plan_.epilogue.inputs)
      if (in.broadcast != Broadcast::tile && seen.insert(in.input).second)
        address("in_" + input(in.input).name, input(in.input).name);
    for (const Sink& sink : plan_.epilogue.sinks) {
      const std::string& name = graph_.outputs[static_cast<size_t>(sink.output)].tensor.name;
      address("out_" + name, name);
      if (sink.kind == SinkKind::mx_rows || sink.kind == SinkKind::mx_transposed)
        address("scales_" + name, name + ".scale");
    }
  }

  void add_numbers() {
    const IntExpr columns = exact_div(ir::extent_expression(graph_, gemm_.columns), gemm_.parts);
    number("groups", groups());
    number("capacity", rows());
    number("depth", ir::extent_expression(graph_, gemm_.depth));
    number("columns", columns);
    number("column_tiles", column_tiles());
    number("band", plan_.schedule.band);
    // In units of weight rows that a block index counts: where two halves alternate within 64 rows, 64 count as 32.
    const bool interleaved =
        plan_.deal == Deal::alternating || plan_.deal == Deal::eights || plan_.deal == Deal::blocks;
    number("b_group_rows", interleaved ? columns : ir::extent_expression(graph_, gemm_.columns));
    for (const Sink& sink : plan_.epilogue.sinks) {
      const ir::Tensor& tensor = graph_.outputs[static_cast<size_t>(sink.output)].tensor;
      number("pitch_" + tensor.name, stride(tensor, 0));
      if (sink.kind == SinkKind::mx_rows || sink.kind == SinkKind::mx_transposed)
        number("scale_pitch_" + tensor.name, ceil_div(ir::extent_expression(graph_, tensor.shape[1]), 32));
    }
    for (size_t i = 0; i < graph_.params.size(); ++i)
      field("param_" + graph_.params[i].name, FieldKind::param, 4, 4, "", 0, static_cast<int>(i));
  }

  IntExpr column_tiles() const {
    const IntExpr columns = exact_div(ir::extent_expression(graph_, gemm_.columns), gemm_.parts);
    return ceil_div(columns, plan_.part_tile() * plan_.schedule.slices());
  }

  // One CTA for each multiprocessor, or fewer when even the most row tiles that this capacity can be cut into are
  // fewer.
  IntExpr grid() const {
    const IntExpr most_row_tiles = gemm_.form == GemmForm::dense ? ceil_div(rows(), tile_rows)
                                                                 : min(rows(), ceil_div(rows(), tile_rows) + groups());
    return min(IntExpr::symbol("sm_count"), most_row_tiles * column_tiles());
  }

  void add_symbols() {
    std::set<std::string> used;
    for (const RecipeTensor& tensor : recipe_.tensors)
      for (const IntExpr& extent : tensor.extents) extent.collect_symbols(used);
    for (const RecipeStep& step : recipe_.steps) {
      step.grid.collect_symbols(used);
      for (const ParameterField& f : step.fields) f.value.collect_symbols(used);
    }
    for (const ir::Dimension& dim : graph_.dims) {
      if (!used.count(dim.name)) continue;
      const bool fixed = dim.kind == ir::DimKind::fixed;
      recipe_.symbols.push_back({dim.name, fixed ? SymbolKind::fixed : SymbolKind::launch, 1});
    }
  }

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  const Gemm& gemm_;
  LaunchRecipe recipe_;
  RecipeStep step_;
  uint32_t at_ = 0;
};

}  // namespace

LaunchRecipe build_recipe(const ir::Graph& graph, const KernelPlan& plan) { return Writer(graph, plan).run(); }

}  // namespace epifuse::lowering
