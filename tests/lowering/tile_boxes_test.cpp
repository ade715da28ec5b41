// From the recipe's tensor maps to the accumulators of a thread, for every form of gemm, deal of columns and schedule:
// the copies that templates/tile/operands.cuh asks for are carried out on the addresses of elements. No byte outside a
// tensor is addressed, every element of a stage is filled once, rows and places of the contraction that are not the
// tile's are zeros, and Accumulators::at(block, i, c) is the product of the row and the column that the plan means.
#include <fmt/format.h>
#include <map>
#include <memory>

#include "compiler/ir/buffers.h"
#include "compiler/lowering/pointer_maps.h"
#include "tests/lowering/host/tiles.cuh"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::GemmForm;
using lowering::GemmOperand;
using lowering::KernelPlan;

namespace {

// What the emitter says of a gemm. `boxes`: the contraction lies in groups of any size.
template <GemmForm form, Major a, Major b, bool boxes = false, int segments_ = 1, bool pointers = false>
struct Form {
  static constexpr Major a_major = a, b_major = b;
  static constexpr int segments = segments_, places = 1;
  static constexpr bool ragged_rows = form == GemmForm::ragged_rows, ragged_depth = form == GemmForm::ragged_depth;
  static constexpr bool ragged_boxes = boxes, b_pointers = pointers;
};

template <class Form, int columns, int parts_, int slices_, bool pairs, int piece_>
struct DevicePlan : Form {
  static constexpr int tile_columns = columns, parts = parts_, slices = slices_, dealt = piece_;
  static constexpr bool checked_pairs = pairs;
  // Columns of both parts by turns in one weight.
  static constexpr bool interleaved = Form::b_major == Major::mn && (dealt == 1 || dealt == 8 || dealt == 32);
  static constexpr int piece = interleaved ? 0 : dealt;
  // Column n of a part among those of both.
  static int column_of_both(int part, int n) { return n / dealt * 2 * dealt + part * dealt + n % dealt; }
};

template <class Plan>
struct DeviceParameters {
  TensorMap a[Plan::segments], a_checked[Plan::segments], b[Plan::segments * Plan::parts];
  const void* b_maps;
  int b_group_rows, capacity, groups;
};

int64_t evaluate(const IntExpr& e, const std::map<std::string, int64_t>& symbols) {
  INFO(e.text());
  const Result<int64_t> value = e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols.find(std::string(name));
    return at == symbols.end() ? std::nullopt : std::optional(at->second);
  });
  REQUIRE(value);
  return *value;
}

int64_t up_to_8(int64_t value) { return (value + 7) / 8 * 8; }

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
void carry_out(const Problem& problem, const TensorMapRecipe& map, int group, const ptx::Copy& copy, Stage& stage) {
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

// Names the rows of an operand in a stage, and holds every place of the contraction against what is expected there.
template <Major major, class Expected>
void name_rows(const Stage& stage, u32 from, int count, const Expected& expected) {
  std::map<Element, int> known;
  for (int m = 0; m < count; ++m)
    if (const Element e = expected(m, 0); e >= 0) known[e] = m;
  for (int r = 0; r < count; ++r) {
    const auto at = [&](int k) {
      const int place = major == Major::k ? r * k_tile + k : r / slab * slab * k_tile + k * slab + r % slab;
      return stage[from / 2 + static_cast<size_t>(place)];
    };
    const auto name = known.find(at(0));
    int& named = row_names[from / operand_row_bytes + static_cast<size_t>(r)];
    named = name == known.end() ? -1 : name->second;
    for (int k = 0; k < k_tile; ++k) {
      const Element e = at(k);
      if (e == unfilled) FAIL("row " << r << " has nothing at " << k);
      if (named >= 0 && e != expected(named, k)) FAIL("row " << r << " is " << named << ", but not at " << k);
    }
  }
}

template <class Plan>
class Checker {
  using Parameters = DeviceParameters<Plan>;
  using Load = Operands<Plan, Parameters>;
  static constexpr int blocks = Load::part_columns / block_columns;
  static constexpr RowOrder order = Plan::a_major == Major::mn ? RowOrder::natural : RowOrder::consecutive;

 public:
  explicit Checker(const Problem& problem) : problem_(problem), p_(std::make_unique<Parameters>()) {
    const int64_t groups = problem.groups;
    p_->b_group_rows = static_cast<int>(problem.number("b_group_rows"));
    p_->capacity = static_cast<int>(problem.number("capacity"));
    p_->groups = static_cast<int>(groups);
    const RecipeStep& step = problem.step();
    for (int i = 0; i < Plan::segments; ++i) {
      maps_[&p_->a[i]] = {problem.map(step, fmt::format("a.{}", i)), 0};
      if constexpr (Plan::a_major == Major::k)
        maps_[&p_->a_checked[i]] = {problem.map(step, fmt::format("a_checked.{}", i)), 0};
    }
    constexpr int weights = Plan::interleaved ? 1 : Plan::segments * Plan::parts;
    own_maps_.resize(static_cast<size_t>(weights) * static_cast<size_t>(groups));
    p_->b_maps = own_maps_.data();
    for (int i = 0; i < weights; ++i) {
      if constexpr (Plan::b_pointers)
        for (int group = 0; group < groups; ++group)
          maps_[&own_maps_[static_cast<size_t>(i * groups + group)]] = {
              problem.map(*lowering::find_pointer_maps(problem.plan.recipe), fmt::format("map.{}", i)), group};
      else
        maps_[&p_->b[i]] = {problem.map(step, fmt::format("b.{}", i)), 0};
    }
  }

  void run() {
    const int64_t column_tiles = problem_.number("column_tiles");
    for (const RowTile& rows : problem_.row_tiles())
      for (int column_tile = 0; column_tile < column_tiles; ++column_tile) {
        Tile<1> tile{};
        tile.group = rows.group;
        tile.column_tile = column_tile;
        tile.first_row = static_cast<int>(rows.first_row);
        tile.rows[0].first = static_cast<int>(rows.row);
        tile.depth_first = static_cast<int>(rows.depth_first);
        tile.depth = static_cast<int>(rows.depth);
        const typename Load::Source source = Load::source(*p_, tile);
        ++tiles;
        checked += !source.in_bounds;
        bool loaded = false;
        for (int segment = 0; segment < Plan::segments; ++segment)
          for (int64_t k = 0; k < problem_.depth_of(rows); k += k_tile) {
            load(rows, column_tile, source, segment, static_cast<int>(k));
            loaded = true;
          }
        if (loaded)
          for (int slice = 0; slice < Plan::slices; ++slice) check_accumulators(rows, column_tile, slice);
      }
  }

  int64_t tiles = 0, checked = 0;

 private:
  void load(const RowTile& rows, int column_tile, const typename Load::Source& source, int segment, int k) {
    Stage stage(Load::stage_bytes / 2, unfilled);
    ptx::copies.clear();
    Load::load(*p_, 0, 0, segment, k, source);
    for (const ptx::Copy& copy : ptx::copies) {
      const auto& [map, group] = maps_.at(copy.map);
      carry_out(problem_, *map, group, copy, stage);
    }
    row_names.assign(Load::stage_bytes / operand_row_bytes, -1);
    name_rows<Plan::a_major>(stage, 0, tile_rows,
                             [&](int m, int at) { return problem_.expected_a(rows, segment, m, k + at); });
    if constexpr (Plan::interleaved) {
      for (int slice = 0; slice < Plan::slices; ++slice)
        name_rows<Plan::b_major>(stage, Load::a_bytes + static_cast<u32>(slice) * Load::slice_bytes, Plan::tile_columns,
                                 [&](int d, int at) {
                                   const int n = d / (2 * Plan::dealt) * Plan::dealt + d % Plan::dealt;
                                   return problem_.expected_b(rows, segment, d / Plan::dealt % 2,
                                                              Load::first_column(column_tile, slice) + n, k + at);
                                 });
      return;
    }
    for (int slice = 0; slice < Plan::slices; ++slice)
      for (int part = 0; part < Plan::parts; ++part)
        name_rows<Plan::b_major>(
            stage,
            Load::a_bytes + static_cast<u32>(slice) * Load::slice_bytes + static_cast<u32>(part) * Load::part_bytes,
            Load::part_columns, [&](int n, int at) {
              return problem_.expected_b(rows, segment, part, Load::first_column(column_tile, slice) + n, k + at);
            });
  }

  void check_accumulators(const RowTile& rows, int column_tile, int slice) {
    Accumulators<bf16, Plan::tile_columns, Plan::a_major, Plan::b_major> sums;
    // Two shuffles follow each other.
    for (int pass = 0; pass < (Plan::b_major == Major::mn ? 3 : 1); ++pass)
      for (ptx::current_thread = 0; ptx::current_thread < 128; ++ptx::current_thread) {
        shuffle_index = 0;
        k_places_seen = 0;
        sums.multiply(0, Load::a_bytes + static_cast<u32>(slice) * Load::slice_bytes, false);
        REQUIRE(k_places_seen == 15);
        if constexpr (Plan::interleaved)
          for (int pair = 0; pair < blocks; ++pair) sums.template straighten_halves<Plan::dealt>(pair);
        else
          for (int block = 0; block < blocks * Plan::parts; ++block) sums.straighten(block);
        if (pass == (Plan::b_major == Major::mn ? 2 : 0)) check_thread(rows, column_tile, slice, sums);
      }
    // shift() moves every block one place down; take() fetches one.
    const auto before = sums;
    for (int next = 1; next < blocks; ++next) {
      sums = before;
      sums.take(next);
      for (int i = 0; i < own_rows; ++i) REQUIRE(sums.at(0, i, 5) == before.at(next, i, 5));
      if (next + 1 < blocks) REQUIRE(sums.at(next + 1, 2, 5) == before.at(next + 1, 2, 5));
    }
    sums = before;
    sums.shift();
    REQUIRE(sums.at(0, 2, 5) == before.at(1, 2, 5));
  }

  template <class Sums>
  void check_thread(const RowTile& rows, int column_tile, int slice, const Sums& sums) {
    const auto lane = LaneOf<order>::now();
    for (int part = 0; part < Plan::parts; ++part)
      for (int block = 0; block < blocks; ++block)
        for (int i = 0; i < own_rows; ++i)
          for (int c = 0; c < own_columns; ++c) {
            const int n = 32 * block + 8 * lane.l + c, m = lane.first_row() + lane.step(i);
            if (Load::first_column(column_tile, slice) + n >= problem_.gemm().part_columns ||
                problem_.expected_a(rows, 0, m, 0) < 0)
              continue;
            if constexpr (Plan::interleaved) {
              if (sums.template half_at<Plan::dealt>(block, part, i, c) == names_of(m, Plan::column_of_both(part, n)))
                continue;
            } else {
              if (sums.at(block + part * blocks, i, c) == names_of(m, n)) continue;
            }
            INFO("group " << rows.group << " row " << m << " part " << part << " column " << n);
            FAIL("another product than the one meant");
          }
  }

  const Problem& problem_;
  std::unique_ptr<Parameters> p_;
  std::vector<TensorMap> own_maps_;
  std::map<const TensorMap*, std::pair<const TensorMapRecipe*, int>> maps_;
};

struct Counts {
  int64_t tiles = 0, checked = 0;
};

template <class Form, int parts, bool pairs, int piece, int columns, int slices>
void check_schedule(const Problem& problem, Counts& seen, bool& known) {
  using Plan = DevicePlan<Form, columns, parts, slices, pairs, piece>;
  constexpr int part = columns / parts;
  constexpr int unit = Form::b_major == Major::mn && !Plan::interleaved && parts > 1 ? 64 : 32;
  if constexpr (columns % (32 * parts) == 0 && part % unit == 0 &&
                (Plan::piece == 0 || Plan::piece % (part * slices) == 0)) {
    const lowering::Schedule& s = problem.plan.schedule;
    if (s.tile_columns != columns || s.slices() != slices) return;
    Checker<Plan> checker(problem);
    checker.run();
    seen.tiles += checker.tiles;
    seen.checked += checker.checked;
    known = true;
  }
}

template <class Form, int parts, bool pairs, int piece, int slices>
void check_widths(const Problem& problem, Counts& seen, bool& known) {
  check_schedule<Form, parts, pairs, piece, 64, slices>(problem, seen, known);
  check_schedule<Form, parts, pairs, piece, 96, slices>(problem, seen, known);
  check_schedule<Form, parts, pairs, piece, 128, slices>(problem, seen, known);
  check_schedule<Form, parts, pairs, piece, 160, slices>(problem, seen, known);
  check_schedule<Form, parts, pairs, piece, 192, slices>(problem, seen, known);
}

// Every tile of a kernel, on groups that end in all ways, with and without rows behind them. `piece`: of a weight that
// is dealt out by whole tiles.
template <class Form, int parts = 1, bool pairs = false, int piece = 0>
void check_kernel(const std::string& text, const std::vector<int64_t>& counts = {130, 0, 1}) {
  const LoweredText result = lower_tiles(text);
  INFO(text);
  const lowering::Gemm& gemm = result.plan().gemm;
  REQUIRE(gemm.parts == parts);
  REQUIRE(gemm.segments == Form::segments);
  const bool ragged = lowering::is_ragged(result.lowered.graph, gemm);
  for (const KernelPlan& plan : result.lowered.plans) {
    INFO(lowering::schedule_name(plan.schedule) << " " << lowering::deal_name(plan.deal));
    REQUIRE(plan.checked_pairs == pairs);
    REQUIRE(plan.ragged_boxes == Form::ragged_boxes);
    Counts seen;
    for (const int64_t slack : ragged ? std::vector<int64_t>{0, 3, 200} : std::vector<int64_t>{0}) {
      std::map<std::string, int64_t> symbols{{"B", 3}, {"S", 131}};
      for (const ir::Dimension& dim : result.lowered.graph.dims)
        if (dim.value) symbols[dim.name] = *dim.value;
      symbols["M"] = slack;
      for (const int64_t count : counts) symbols["M"] += count;
      for (const RecipeTensor& tensor : plan.recipe.tensors)
        if (tensor.strided && tensor.role == TensorRole::input)
          symbols[tensor.name + ".stride0"] = up_to_8(evaluate(tensor.extents.back(), symbols)) + 8;
      const Problem problem(result.lowered.graph, plan, symbols, counts);
      bool known = false;
      check_widths<Form, parts, pairs, piece, 1>(problem, seen, known);
      check_widths<Form, parts, pairs, piece, 2>(problem, seen, known);
      REQUIRE(known);
    }
    CHECK(seen.tiles > 0);
    if (Form::a_major == Major::k) {
      // Both ways to bring rows of A were taken.
      CHECK(seen.checked > 0);
      CHECK(seen.checked < seen.tiles);
    }
  }
}

constexpr Major k = Major::k, mn = Major::mn;
using Ragged = Form<GemmForm::ragged_rows, k, k>;
using Dense = Form<GemmForm::dense, k, k>;

std::string with_columns(int64_t columns, const std::string& piece) {
  const std::string value = piece.empty() ? "" : "f, s = split(gemm(x, w)" + piece + ")\n";
  const std::string dims = fmt::format("E = 3, K = 72, {} = {}", piece.empty() ? "N" : "I", columns);
  return piece.empty() ? ragged_spec("out y : bf16[M, N] = gemm(x, w)", dims)
                       : halved_spec(value + "out y : bf16[M, I] = f * s", dims);
}

// E = 3 groups; `body` declares inputs and outputs.
std::string grouped(const std::string& body, const std::string& dims = "E = 3, K = 72, N = 160") {
  return "kernel test {\n dim " + dims + "\n group M by E\n" + body + "\n}\n";
}
std::string dense(const std::string& x, const std::string& w) {
  return "kernel test {\n dim K = 72, N = 160\n dyn S\n in x : f16[" + x + "]\n in w : f16[" + w +
         "]\n out y : bf16[S, N] = gemm(x, w)\n}\n";
}

}  // namespace

TEST_CASE("one part: whole blocks of 32 weight rows, and pairs of rows where there are none") {
  for (const int64_t columns : {32, 160}) check_kernel<Ragged>(with_columns(columns, ""));
  for (const int64_t columns : {8, 40, 264}) check_kernel<Ragged, 1, true>(with_columns(columns, ""));
}

TEST_CASE("halves") {
  for (const int64_t columns : {32, 160}) check_kernel<Ragged, 2>(with_columns(columns, " "));
  for (const int64_t columns : {8, 72}) check_kernel<Ragged, 2, true>(with_columns(columns, " "));
}

TEST_CASE("halves that alternate by one, eight and 32") {
  for (const char* piece : {", 1", ", 8", ", 32"})
    for (const int64_t columns : {32, 160}) check_kernel<Ragged, 2>(with_columns(columns, piece));
}

TEST_CASE("halves in pieces as wide as a tile") {
  check_kernel<Ragged, 2, false, 64>(with_columns(192, ", 64"));
  check_kernel<Ragged, 2, false, 128>(with_columns(256, ", 128"));
}

TEST_CASE("dense, in all four layouts") {
  check_kernel<Dense>(dense("S, K", "N, K"));
  check_kernel<Form<GemmForm::dense, k, mn>>(dense("S, K", "K, N"));
  check_kernel<Form<GemmForm::dense, mn, k>>(dense("K, S", "N, K"));
  check_kernel<Form<GemmForm::dense, mn, mn>>(dense("K, S", "K, N"));
}

TEST_CASE("ragged rows with weights and rows that are contiguous in memory") {
  using Weights = Form<GemmForm::ragged_rows, k, mn>;
  for (const int64_t columns : {8, 64, 200})
    check_kernel<Weights>(grouped("in x : bf16[M, K]\nin w : bf16[E, K, N]\nout y : bf16[M, N] = gemm(x, w)",
                                  fmt::format("E = 3, K = 72, N = {}", columns)));
  check_kernel<Weights, 2>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w))\nout y : bf16[M, N] = f * s"));
  check_kernel<Weights, 2, false, 64>(
      grouped("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w), 64)\nout y : bf16[M, N] = f * s",
              "E = 3, K = 72, N = 192"));
  const auto by_turns = [](int piece) {
    return grouped(fmt::format("in x : bf16[M, K]\nin w : bf16[E, K, 2*N]\nf, s = split(gemm(x, w), {})\n"
                               "out y : bf16[M, N] = f * s",
                               piece),
                   "E = 3, K = 72, N = 96");
  };
  check_kernel<Weights, 2, false, 1>(by_turns(1));
  check_kernel<Weights, 2, false, 8>(by_turns(8));
  check_kernel<Weights, 2, false, 32>(by_turns(32));
  check_kernel<Form<GemmForm::ragged_rows, mn, k>>(
      grouped("in x : bf16[K, M]\nin w : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, w)"));
}

TEST_CASE("batches") {
  auto batched = [](const char* a, const char* b) {
    return fmt::format(
        "kernel test {{\n dim K = 72, N = 160\n dyn B, S\n in a : bf16[{}]\n in b : bf16[{}]\n"
        " out c : bf16[B, S, N] = gemm(a, b)\n}}",
        a, b);
  };
  check_kernel<Form<GemmForm::batched, k, k>>(batched("B, S, K", "B, N, K"));
  check_kernel<Form<GemmForm::batched, k, mn>>(batched("B, S, K", "B, K, N"));
  const std::string rows =
      "kernel test {\n dim K = 72, N = 160, B = 3, R = 136\n in a : bf16[B, K, R]\n in b : bf16[B, K, N]\n"
      " out c : bf16[B, R, N] = gemm(a, b)\n}";
  check_kernel<Form<GemmForm::batched, mn, mn>>(rows);
}

TEST_CASE("a contraction in groups: what lies behind a group is zero, also where the next one has elements") {
  using Depths = Form<GemmForm::ragged_depth, mn, mn, true>;
  for (const int64_t rows : {64, 136, 8})
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{130, 0, 1}, {0, 64, 65}, {63, 128, 0}})
      check_kernel<Depths>(grouped("in g : bf16[M, N]\nin x : bf16[M, K]\nout w : f32[E, N, K] += gemm(g, x)",
                                   fmt::format("E = 3, K = 72, N = {}", rows)),
                           counts);
  // Halves as rows and as columns, of one operand and of two results.
  check_kernel<Depths>(
      grouped("in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\nout w : f32[E, N, K] += gemm(s, x)"));
  check_kernel<Depths, 2>(
      grouped("in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\nout a : f32[E, N, K] += gemm(f, x)\nout b : "
              "f32[E, N, K] += gemm(s, x)"));
  check_kernel<Form<GemmForm::ragged_depth, mn, mn, true, 2>>(
      grouped("in f : bf16[M, N]\nin s : bf16[M, N]\nin x : bf16[M, K]\nin z : bf16[M, K]\n"
              "out w : f32[E, N, K] += gemm(f, x) + gemm(s, z)"));
  // Batches of one depth need no such boxes.
  check_kernel<Form<GemmForm::ragged_depth, mn, mn>>(
      "kernel test {\n dim K = 72, N = 160\n dyn B, S\n in a : bf16[B, S, N]\n in b : bf16[B, S, K]\n"
      " out c : f32[B, N, K] = gemm(a, b)\n}");
}

TEST_CASE("halves of inputs, two weights, two segments") {
  check_kernel<Ragged>(
      grouped("in x : bf16[M, 2*K]\nin w : bf16[E, N, 2*K]\na, b = split(x)\nc, d = split(w)\n"
              "out y : bf16[M, N] = gemm(b, d)"));
  check_kernel<Ragged, 2>(grouped(
      "in x : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, v) * gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn>, 2>(grouped(
      "in x : bf16[M, K]\nin v : bf16[E, K, N]\nin w : bf16[E, K, N]\nout y : bf16[M, N] = gemm(x, v) * gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 2>>(
      grouped("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\n"
              "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"));
}

TEST_CASE("weights of one buffer for each group") {
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][N, K]\nout y : bf16[M, N] = gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>, 1, true>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][N, K]\nout y : bf16[M, N] = gemm(x, w)", "E = 3, K = 72, N = 40"));
  check_kernel<Form<GemmForm::ragged_rows, k, k, false, 1, true>, 2>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][2*N, K]\nf, s = split(gemm(x, w), 8)\nout y : bf16[M, N] = f * s"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn, false, 1, true>>(
      grouped("in x : bf16[M, K]\nin w : bf16[E][K, N]\nout y : bf16[M, N] = gemm(x, w)"));
  check_kernel<Form<GemmForm::ragged_rows, k, mn, false, 2, true>>(
      grouped("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E][K, N]\nin w : bf16[E][K, N]\n"
              "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"));
}
