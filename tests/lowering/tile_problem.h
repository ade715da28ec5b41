// A launch of a plan by the addresses of its inputs' elements: what the tensor maps of its recipe bring to a stage, and
// what the row and the column of a tile have at each place of the contraction. Of the device's code it knows the size
// of a tile and what a copy is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/buffers.h"
#include "tests/lowering/host/tiles.cuh"
#include "tests/lowering/lowering_support.h"

namespace epifuse::test {

using lowering::GemmForm;
using lowering::GemmOperand;
using lowering::KernelPlan;

inline int64_t evaluate(const IntExpr& e, const std::map<std::string, int64_t>& symbols) {
  INFO(e.text());
  const Result<int64_t> value = e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols.find(std::string(name));
    return at == symbols.end() ? std::nullopt : std::optional(at->second);
  });
  REQUIRE(value);
  return *value;
}

inline int64_t up_to_8(int64_t value) { return (value + 7) / 8 * 8; }

// An element of an input: its buffer, and the byte there.
using Element = int64_t;
constexpr Element zero = -1, unfilled = -2, any = -3;

// A rows tile of a group, by its place in memory and in the contraction.
struct RowTile {
  int group;
  int64_t row, first_row;
  int64_t depth_first, depth;
};

// A plan, the launch's sizes, and what follows from both once and for all.
struct Problem {
  struct Buffer {
    int64_t width, pitch, rows;  // elements; bytes from a row to the next; rows of one buffer
    bool pointers, matrices;
  };

  Problem(const ir::Graph& lowered, const KernelPlan& chosen, std::map<std::string, int64_t> sizes,
          const std::vector<int64_t>& group_sizes)
      : graph(lowered), plan(chosen), symbols(std::move(sizes)), counts(group_sizes) {
    for (const ir::Input& input : graph.inputs) {
      const ir::Tensor& t = input.tensor;
      const int64_t width = value(t.shape.back());
      const auto stride = symbols.find(t.name + ".stride0");
      Buffer buffer{width, 2 * (stride == symbols.end() ? width : stride->second), 1, t.pointer_axes != 0,
                    t.shape.size() == 3 && t.pointer_axes == 0};
      for (auto axis = static_cast<size_t>(t.pointer_axes); axis + 1 < t.shape.size(); ++axis)
        buffer.rows *= value(t.shape[axis]);
      buffers.push_back(buffer);
    }
    rows = value(gemm().rows);
    depth = value(gemm().depth);
    groups = gemm().grouped() ? value(gemm().groups) : 1;
    all_rows = gemm().form == GemmForm::batched ? rows * groups : rows;
  }

  const ir::Graph& graph;
  const KernelPlan& plan;
  std::map<std::string, int64_t> symbols;
  std::vector<int64_t> counts;  // of ragged groups
  std::vector<Buffer> buffers;  // of the inputs
  int64_t rows, depth, groups, all_rows;

  const lowering::Gemm& gemm() const { return plan.gemm; }
  int64_t value(const IntExpr& e) const { return evaluate(e, symbols); }
  int64_t value(const ir::Extent& e) const { return value(ir::extent_expression(graph, e)); }
  const RecipeStep& step() const {
    for (const RecipeStep& s : plan.recipe.steps)
      if (s.entry == "kernel_test") return s;
    FAIL("no launch of the gemm");
    return plan.recipe.steps[0];
  }
  const ParameterField* find(const RecipeStep& step, std::string_view name) const {
    for (const ParameterField& f : step.fields)
      if (f.name == name) return &f;
    return nullptr;
  }
  int64_t number(std::string_view name) const {
    const ParameterField* field = find(step(), name);
    return field ? value(field->value) : 0;
  }
  const TensorMapRecipe* map(const RecipeStep& step, const std::string& name) const {
    const ParameterField* field = find(step, name);
    INFO(name);
    REQUIRE(field);
    return &plan.recipe.maps[static_cast<size_t>(field->index)];
  }

  const Buffer& buffer(int input) const { return buffers[static_cast<size_t>(input)]; }
  int input_of(const std::string& name) const {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i].tensor.name == name) return static_cast<int>(i);
    FAIL("no input " << name);
    return 0;
  }
  // Buffers of their own are told apart by the group.
  Element element(int input, int group, int64_t byte) const {
    const int64_t which = input * 64 + (buffer(input).pointers ? group : 0);
    return (which << 40) + byte;
  }
  Element element(const GemmOperand& operand, int group, int64_t row, int64_t column) const {
    const Buffer& in = buffer(operand.input);
    const int64_t half = operand.half > 0 ? in.width / 2 * operand.half : 0;
    return element(operand.input, group, row * in.pitch + 2 * (half + column));
  }

  int64_t depth_of(const RowTile& tile) const { return gemm().form == GemmForm::ragged_depth ? tile.depth : depth; }
  // The row of an MN-major operand at place k of the contraction.
  int64_t line(const GemmOperand& operand, const RowTile& tile, int64_t k) const {
    if (gemm().form == GemmForm::ragged_depth) return tile.depth_first + k;
    return (buffer(operand.input).matrices ? tile.group * depth : 0) + k;
  }
  // Row m of the tile and place k of the contraction.
  Element expected_a(const RowTile& tile, int segment, int64_t m, int64_t k) const {
    const GemmOperand& a = gemm().a[static_cast<size_t>(segment)];
    if (k >= depth_of(tile)) return zero;
    if (a.major == lowering::Major::k) return tile.row + m < all_rows ? element(a, tile.group, tile.row + m, k) : zero;
    // A batch, and a result, has rows of its own.
    const int64_t column = gemm().form == GemmForm::ragged_rows ? tile.row + m : tile.first_row + m;
    return column < rows ? element(a, tile.group, line(a, tile, k), column) : zero;
  }
  // Column n of a part. What lies behind the part's columns is not looked at.
  Element expected_b(const RowTile& tile, int segment, int part, int64_t n, int64_t k) const {
    const GemmOperand& b = gemm().b[static_cast<size_t>(segment * gemm().weights + (gemm().weights == 2 ? part : 0))];
    if (n >= gemm().part_columns) return any;
    if (k >= depth_of(tile)) return zero;
    const int64_t column = weight_column(part, n);
    if (b.major == lowering::Major::mn) return element(b, tile.group, line(b, tile, k), column);
    const int64_t group_columns = gemm().part_columns * (gemm().split_weight() ? 2 : 1);
    return element(b, tile.group, (buffer(b.input).pointers ? 0 : tile.group * group_columns) + column, k);
  }
  // Where column n of a part lies among those of the weight.
  int64_t weight_column(int part, int64_t n) const {
    if (!gemm().split_weight()) return n;
    const int64_t piece = gemm().piece;
    return piece == 0 ? part * gemm().part_columns + n : n / piece * 2 * piece + part * piece + n % piece;
  }

  std::vector<RowTile> row_tiles() const {
    std::vector<RowTile> tiles;
    const bool ragged = lowering::is_ragged(graph, gemm());
    int64_t start = 0;
    for (int group = 0; group < groups; ++group) {
      const bool by_depth = gemm().form == GemmForm::ragged_depth;
      const int64_t size = ragged ? counts[static_cast<size_t>(group)] : by_depth ? depth : rows;
      for (int64_t first = 0; first < (by_depth ? rows : size); first += tile_rows)
        tiles.push_back({group, (by_depth ? group * rows : start) + first, first, start, by_depth ? size : 0});
      start += size;
    }
    return tiles;
  }
};

using Stage = std::vector<Element>;

// Carries one copy out as the copy engine does: addresses are sums modulo 2^64, and what is outside an extent is zero.
inline void carry_out(const Problem& problem, const TensorMapRecipe& map, int group, const ptx::Copy& copy,
                      Stage& stage) {
  const size_t rank = map.box.size();
  REQUIRE(copy.coordinates.size() == rank);
  REQUIRE(map.box[0] == 64);
  REQUIRE(copy.to % (8 * 128) == 0);  // whole atoms of the swizzle
  std::vector<int64_t> extents, counts;
  std::vector<uint64_t> strides{2};
  size_t total = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    extents.push_back(problem.value(map.extents[axis]));
    REQUIRE(extents.back() <= int64_t{1} << 32);
    if (axis > 0) {
      strides.push_back(static_cast<uint64_t>(problem.value(map.strides[axis - 1])));
      REQUIRE(strides.back() % 16 == 0);
      REQUIRE(strides.back() < uint64_t{1} << 40);
    }
    counts.push_back((map.box[axis] + map.element_strides[axis] - 1) / map.element_strides[axis]);
    total *= static_cast<size_t>(counts.back());
  }
  const int input = problem.input_of(map.tensor);
  const Problem::Buffer& buffer = problem.buffer(input);
  const int64_t offset = problem.value(map.byte_offset);
  REQUIRE(offset % 16 == 0);
  REQUIRE(copy.to / 2 + total <= stage.size());
  for (size_t index = 0; index < total; ++index) {
    size_t rest = index;
    auto address = static_cast<uint64_t>(offset);
    bool inside = true;
    for (size_t axis = 0; axis < rank; ++axis) {
      const auto count = static_cast<size_t>(counts[axis]);
      const int64_t place = copy.coordinates[axis] + static_cast<int64_t>(rest % count) * map.element_strides[axis];
      rest /= count;
      inside = inside && place >= 0 && place < extents[axis];
      address += static_cast<uint64_t>(place) * strides[axis];
    }
    Element& at = stage[copy.to / 2 + index];
    if (at != unfilled) FAIL("filled twice");
    at = zero;
    if (!inside) continue;
    const auto byte = static_cast<int64_t>(address);
    if (byte < 0 || byte / buffer.pitch >= buffer.rows || byte % buffer.pitch >= 2 * buffer.width)
      FAIL("byte " << byte << " is outside " << map.tensor);
    at = problem.element(input, group, byte);
  }
}

}  // namespace epifuse::test
