#include "compiler/lowering/operand_maps.h"

#include <fmt/format.h>

#include "compiler/ir/buffers.h"

namespace epifuse::lowering {
namespace {

constexpr int64_t operand_bytes = 2;
constexpr uint32_t slab = slab_columns;
// Of the dimensions that bring a ragged box back to its address (templates/tile/operands.cuh, ragged_end). The last of
// their strides makes the sum wrap around 2^64.
constexpr int64_t ragged_end = int64_t{1} << 30, ragged_reach = 0x7fff0000, ragged_wrap = int64_t{1} << 34;

class MapWriter {
 public:
  MapWriter(const ir::Graph& graph, const KernelPlan& plan) : graph_(graph), plan_(plan), gemm_(plan.gemm) {}

  OperandMaps run() {
    OperandMaps maps;
    for (const GemmOperand& a : gemm_.a) {
      if (a.major == Major::mn) {
        maps.a.push_back(slabs(a, 0, number(gemm_.rows)));
        continue;
      }
      maps.a.push_back(permuted_rows(a));
      maps.a_checked.push_back(checked_rows(a));
    }
    for (int segment = 0; segment < gemm_.segments; ++segment)
      for (int part = 0; part < (plan_.interleaved_weight() ? 1 : gemm_.parts); ++part) {
        const GemmOperand& b = gemm_.b[static_cast<size_t>(segment * gemm_.weights + (gemm_.weights == 2 ? part : 0))];
        maps.b.push_back(b.major == Major::mn ? column_slabs(b, part) : weight_rows(b, part));
      }
    return maps;
  }

 private:
  const ir::Tensor& tensor(const GemmOperand& operand) const {
    return graph_.inputs[static_cast<size_t>(operand.input)].tensor;
  }
  IntExpr number(const ir::Extent& extent) const { return ir::extent_expression(graph_, extent); }
  IntExpr groups() const { return gemm_.grouped() ? number(gemm_.groups) : IntExpr(1); }

  // Bytes from a row to the next.
  IntExpr pitch(const GemmOperand& operand) const {
    const ir::Tensor& t = tensor(operand);
    if (is_strided_operand(graph_, operand))
      return IntExpr::symbol(fmt::format("{}.stride{}", t.name, t.shape.size() - 2)) * operand_bytes;
    return number(t.shape.back()) * operand_bytes;
  }
  // Bytes from the tensor's first element to the operand's: halves lie side by side in a row.
  IntExpr offset(const GemmOperand& operand) const {
    return operand.half > 0 ? number(ir::half(tensor(operand).shape.back())) * (operand.half * operand_bytes)
                            : IntExpr(0);
  }
  // Rows of all batches, or of all groups.
  IntExpr all_rows() const {
    return gemm_.form == GemmForm::batched ? groups() * number(gemm_.rows) : number(gemm_.rows);
  }

  TensorMapRecipe box(const GemmOperand& operand, IntExpr from, std::vector<IntExpr> extents,
                      std::vector<IntExpr> strides, std::vector<uint32_t> size) const {
    TensorMapRecipe map;
    map.tensor = tensor(operand).name;
    map.type = gemm_.operand == Storage::bf16 ? TensorMapType::bf16 : TensorMapType::f16;
    map.byte_offset = std::move(from);
    map.extents = std::move(extents);
    map.strides = std::move(strides);
    map.element_strides.assign(size.size(), 1);
    map.box = std::move(size);
    map.swizzle = Swizzle::b128;
    return map;
  }

  TensorMapRecipe permuted_rows(const GemmOperand& a) const {
    const IntExpr ld = pitch(a);
    return box(a, offset(a), {number(gemm_.depth), 8, all_rows(), 4, 2}, {ld * 4, ld, ld * 32, ld * 2},
               {64, 8, 2, 4, 2});
  }
  TensorMapRecipe checked_rows(const GemmOperand& a) const {
    TensorMapRecipe map = box(a, offset(a), {number(gemm_.depth), all_rows()}, {pitch(a)}, {64, 32});
    map.element_strides = {1, 4};
    return map;
  }

  // The columns of a part in a K-major weight: from a column to its neighbour, the eighth and the 32nd it is so many
  // weight rows.
  TensorMapRecipe weight_rows(const GemmOperand& b, int part) const {
    const IntExpr rows_of_group = number(gemm_.columns) * (gemm_.split_weight() ? 2 : 1);
    const IntExpr weight_rows = tensor(b).pointer_axes != 0 ? rows_of_group : groups() * rows_of_group;
    const IntExpr ld = pitch(b), depth = number(gemm_.depth);
    IntExpr first_row = 0;
    int64_t column = 1, eight = 8, block = 32;
    if (gemm_.split_weight()) switch (plan_.deal) {
        case Deal::halves: first_row = number(gemm_.columns) * part; break;
        case Deal::pieces: first_row = gemm_.piece * part; break;
        case Deal::alternating: first_row = part, column = 2, eight = 16, block = 64; break;
        case Deal::eights: first_row = 8 * part, eight = 16, block = 64; break;
        case Deal::blocks: first_row = 32 * part, block = 64; break;
      }
    const IntExpr from = offset(b) + first_row * ld;
    if (plan_.checked_pairs) {
      TensorMapRecipe map = box(b, from, {depth, 2, weight_rows - first_row - 1}, {ld, ld}, {64, 2, 32});
      map.element_strides = {1, 1, 8};
      return map;
    }
    const IntExpr blocks = block == 32 ? exact_div(weight_rows - first_row, block) : exact_div(weight_rows, block);
    return box(b, from, {depth, 2, 4, 4, blocks}, {ld * column, ld * eight, ld * (2 * column), ld * block},
               {64, 2, 4, 4, static_cast<uint32_t>(plan_.part_tile() / block_columns)});
  }

  TensorMapRecipe column_slabs(const GemmOperand& b, int part) const {
    IntExpr first = 0, columns = number(gemm_.columns);
    if (plan_.interleaved_weight()) {
      columns = columns * 2;
    } else if (gemm_.split_weight()) {
      first = plan_.deal == Deal::pieces ? IntExpr(gemm_.piece * part) : columns * part;
      if (plan_.deal == Deal::pieces) columns = columns * 2 - gemm_.piece * part;
    }
    return slabs(b, first * operand_bytes, columns);
  }

  // Boxes of 64 places that are contiguous in memory by 64 of the contraction.
  TensorMapRecipe slabs(const GemmOperand& operand, const IntExpr& from, const IntExpr& places) const {
    const IntExpr ld = pitch(operand), at = offset(operand) + from;
    if (plan_.ragged_boxes)
      return box(operand, at, {places, ragged_end, ragged_reach, ragged_reach}, {ld, ld, ragged_wrap - ld},
                 {slab, slab, 1, 1});
    const bool matrices = tensor(operand).shape.size() == 3 && tensor(operand).pointer_axes == 0;
    return box(operand, at, {places, number(gemm_.depth), matrices ? groups() : IntExpr(1)},
               {ld, ld * number(gemm_.depth)}, {slab, slab, 1});
  }

  const ir::Graph& graph_;
  const KernelPlan& plan_;
  const Gemm& gemm_;
};

}  // namespace

OperandMaps operand_maps(const ir::Graph& graph, const KernelPlan& plan) { return MapWriter(graph, plan).run(); }

bool is_strided_operand(const ir::Graph& graph, const GemmOperand& operand) {
  const ir::Tensor& tensor = graph.inputs[static_cast<size_t>(operand.input)].tensor;
  if (tensor.shape.size() != 2) return false;
  // A K-major weight without groups keeps its rows together.
  return operand.gives_rows || operand.major == Major::mn;
}

}  // namespace epifuse::lowering
