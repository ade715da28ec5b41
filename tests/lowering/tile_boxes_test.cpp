// From the recipe's tensor maps to the accumulators of a thread, for every deal of columns and every schedule: the
// copies that templates/tile/operands.cuh asks for are carried out on row numbers, element by element. No byte outside
// a tensor is addressed, every row of a stage is filled once, and Accumulators::at(block, i, c) is the product of the
// tile row and the weight row that the plan means.
#include <fmt/format.h>
#include <map>

#include "compiler/ir/buffers.h"
#include "tests/lowering/host/tiles.cuh"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

template <int columns, int parts_, int slices_, bool pairs, int piece_>
struct DevicePlan {
  static constexpr int tile_columns = columns, parts = parts_, slices = slices_, piece = piece_, places = 1;
  static constexpr bool checked_pairs = pairs;
};

template <int parts>
struct DeviceParameters {
  TensorMap a, a_checked, b[parts];
  int b_group_rows, capacity;
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

struct Problem {
  const KernelPlan& plan;
  std::map<std::string, int64_t> symbols;
  int64_t pitch_a;  // elements

  int64_t value(const IntExpr& e) const { return evaluate(e, symbols); }
  int64_t field(std::string_view name) const {
    for (const ParameterField& f : plan.recipe.steps[0].fields)
      if (f.name == name) return value(f.value);
    FAIL("no field " << name);
    return 0;
  }
  const TensorMapRecipe& map(std::string_view field) const {
    for (const ParameterField& f : plan.recipe.steps[0].fields)
      if (f.name == field) return plan.recipe.maps[static_cast<size_t>(f.index)];
    FAIL("no map " << field);
    return plan.recipe.maps[0];
  }
  int64_t pitch(const TensorMapRecipe& map) const { return 2 * (map.tensor == "x" ? pitch_a : symbols.at("K")); }
  int64_t rows(const TensorMapRecipe& map) const {
    int64_t count = 1;
    const RecipeTensor& tensor = *plan.recipe.find_tensor(map.tensor);
    for (size_t axis = 0; axis + 1 < tensor.extents.size(); ++axis) count *= value(tensor.extents[axis]);
    return count;
  }
};

// Carries one copy out: every row of the box gets the number of the tensor's row that it is made of, -1 for zeros.
void carry_out(const Problem& problem, const TensorMapRecipe& map, const ptx::Copy& copy, int64_t depth) {
  const size_t rank = map.box.size();
  REQUIRE(copy.coordinates.size() == rank);
  REQUIRE(map.box[0] == 64);
  REQUIRE(copy.to % (8 * 128) == 0);  // whole atoms of the swizzle
  std::vector<int64_t> extents, strides{2}, counts;
  for (size_t axis = 0; axis < rank; ++axis) {
    extents.push_back(problem.value(map.extents[axis]));
    if (axis > 0) strides.push_back(problem.value(map.strides[axis - 1]));
    counts.push_back((map.box[axis] + map.element_strides[axis] - 1) / map.element_strides[axis]);
  }
  REQUIRE(extents[0] == depth);
  const int64_t offset = problem.value(map.byte_offset), pitch = problem.pitch(map), rows = problem.rows(map);
  REQUIRE(offset % 16 == 0);
  int64_t total = 1;
  for (size_t axis = 1; axis < rank; ++axis) {
    REQUIRE(strides[axis] % 16 == 0);
    total *= counts[axis];
  }
  for (int64_t index = 0; index < total; ++index) {
    int64_t rest = index, address = offset;
    bool inside = true;
    for (size_t axis = 1; axis < rank; ++axis) {
      const int64_t place = copy.coordinates[axis] + rest % counts[axis] * map.element_strides[axis];
      rest /= counts[axis];
      inside = inside && place >= 0 && place < extents[axis];
      address += place * strides[axis];
    }
    const int64_t first = copy.coordinates[0], end = std::min<int64_t>(first + 64, extents[0]);
    if (inside) {
      REQUIRE(first < end);
      REQUIRE(address % pitch == 0);
      REQUIRE(address + 2 * first >= 0);
      REQUIRE(address + 2 * end <= (rows - 1) * pitch + 2 * depth);  // behind the last element there may be nothing
    }
    const size_t row = copy.to / 128 + static_cast<size_t>(index);
    REQUIRE(row < row_names.size());
    REQUIRE(row_names[row] == -2);  // filled once
    row_names[row] = inside ? static_cast<int>(address / pitch) : -1;
  }
}

// Where column n of half `part` lies among the weight rows of a group.
int64_t weight_row(const lowering::Gemm& gemm, int part, int64_t n) {
  if (gemm.parts == 1) return n;
  if (gemm.piece == 0) return part * gemm.part_columns + n;
  return n / gemm.piece * 2 * gemm.piece + part * gemm.piece + n % gemm.piece;
}

struct Counts {
  int64_t tiles = 0, checked = 0;
};

template <class Plan>
Counts check_tiles(const Problem& problem, const std::vector<int64_t>& counts) {
  using Parameters = DeviceParameters<Plan::parts>;
  using Load = Operands<Plan, Parameters>;
  const lowering::Gemm& gemm = problem.plan.gemm;
  const int64_t depth = problem.symbols.at("K"), capacity = problem.field("capacity");
  static Parameters p;
  p.b_group_rows = static_cast<int>(problem.field("b_group_rows"));
  p.capacity = static_cast<int>(capacity);
  std::map<const TensorMap*, const TensorMapRecipe*> maps{{&p.a, &problem.map("a")},
                                                          {&p.a_checked, &problem.map("a_checked")}};
  for (int part = 0; part < Plan::parts; ++part) maps[&p.b[part]] = &problem.map(fmt::format("b.{}", part));
  const int64_t group_rows = gemm.parts * gemm.part_columns;

  Counts seen;
  int64_t start = 0;
  for (size_t group = 0; group < counts.size(); start += counts[group], ++group)
    for (int64_t row = start; row < start + counts[group]; row += tile_rows)
      for (int column_tile = 0; column_tile < problem.field("column_tiles"); ++column_tile) {
        Tile<1> tile;
        tile.group = static_cast<int>(group);
        tile.column_tile = column_tile;
        tile.rows[0].first = static_cast<int>(row);
        const typename Load::Source source = Load::source(p, tile);
        ++seen.tiles;
        seen.checked += !source.in_bounds;
        for (int64_t k = 0; k < depth; k += k_tile) {
          row_names.assign(Load::stage_bytes / 128, -2);
          ptx::copies.clear();
          Load::load(p, 0, 0, static_cast<int>(k), source);
          for (const ptx::Copy& copy : ptx::copies) carry_out(problem, *maps.at(copy.map), copy, depth);
          REQUIRE(std::find(row_names.begin(), row_names.end(), -2) == row_names.end());
        }
        for (int slice = 0; slice < Plan::slices; ++slice)
          for (ptx::current_thread = 0; ptx::current_thread < 128; ++ptx::current_thread) {
            const Lane lane = Lane::now();
            Accumulators<bf16, Plan::tile_columns> sums;
            sums.multiply(0, Load::a_bytes + static_cast<u32>(slice) * Load::slice_bytes, false);
            constexpr int blocks = Load::part_columns / block_columns;
            for (int part = 0; part < Plan::parts; ++part)
              for (int block = 0; block < blocks; ++block)
                for (int i = 0; i < own_rows; ++i)
                  for (int c = 0; c < own_columns; ++c) {
                    const int64_t n = Load::first_column(column_tile, slice) + 32 * block + 8 * lane.l + c;
                    const int64_t m = row + 32 * lane.warp + 4 * lane.q + i;
                    if (n >= gemm.part_columns || m >= capacity) continue;
                    const int64_t w = static_cast<int64_t>(group) * group_rows + weight_row(gemm, part, n);
                    if (sums.at(block + part * blocks, i, c) != names_of(static_cast<int>(m), static_cast<int>(w))) {
                      INFO("group " << group << " row " << m << " part " << part << " column " << n);
                      FAIL("another product than the one meant");
                    }
                  }
            // shift() moves every block one place down.
            const float next = sums.at(1, 2, 5);
            sums.shift();
            REQUIRE(sums.at(0, 2, 5) == next);
          }
      }
  return seen;
}

template <bool pairs, int piece, int parts>
Counts check_schedule(const Problem& problem, const std::vector<int64_t>& counts) {
  const lowering::Schedule& s = problem.plan.schedule;
  constexpr int narrowest = 64 / parts;
  if constexpr (piece == 0 || piece % (2 * narrowest) == 0) {
    if (s.cooperative && s.tile_columns == 128) {
      if constexpr (piece == 0 || piece % (4 * narrowest) == 0)
        return check_tiles<DevicePlan<128, parts, 2, pairs, piece>>(problem, counts);
    } else if (s.tile_columns == 128) {
      return check_tiles<DevicePlan<128, parts, 1, pairs, piece>>(problem, counts);
    }
  }
  if constexpr (piece == 0)
    if (s.tile_columns == 192 && !s.cooperative)
      return check_tiles<DevicePlan<192, parts, 1, pairs, piece>>(problem, counts);
  if (s.tile_columns == 64 && !s.cooperative)
    return check_tiles<DevicePlan<64, parts, 1, pairs, piece>>(problem, counts);
  FAIL("no device plan for " << lowering::schedule_name(s));
  return {};
}

Counts check_plan(const Problem& problem, const std::vector<int64_t>& counts) {
  const KernelPlan& plan = problem.plan;
  INFO(lowering::schedule_name(plan.schedule) << " " << lowering::deal_name(plan.deal));
  const int64_t piece = plan.deal == lowering::Deal::pieces ? plan.gemm.piece : 0;
  if (plan.gemm.parts == 1)
    return plan.checked_pairs ? check_schedule<true, 0, 1>(problem, counts)
                              : check_schedule<false, 0, 1>(problem, counts);
  if (plan.checked_pairs) return check_schedule<true, 0, 2>(problem, counts);
  if (piece == 64) return check_schedule<false, 64, 2>(problem, counts);
  if (piece == 128) return check_schedule<false, 128, 2>(problem, counts);
  REQUIRE(piece == 0);
  return check_schedule<false, 0, 2>(problem, counts);
}

// Every plan of a kernel, on groups that end in all ways, with and without rows behind them.
void check_kernel(const std::string& text, bool ragged) {
  const LoweredText result = lower_text(text);
  INFO(text);
  REQUIRE(result.plan().recipe.steps.size() == 1);
  for (const KernelPlan& plan : result.lowered.plans) {
    const std::vector<int64_t> counts = ragged ? std::vector<int64_t>{130, 0, 1} : std::vector<int64_t>{131};
    Counts seen;
    for (const int64_t slack : {0, 3, 200}) {
      if (!ragged && slack == 200) continue;
      Problem problem{plan, {}, 0};
      for (const ir::Dimension& dim : result.lowered.graph.dims)
        if (dim.value) problem.symbols[dim.name] = *dim.value;
      problem.pitch_a = problem.symbols.at("K") + 8;
      problem.symbols["x.stride0"] = problem.pitch_a;
      problem.symbols[ragged ? "M" : "S"] = 131 + (ragged ? slack : 0);
      const Counts more = check_plan(problem, counts);
      seen.tiles += more.tiles, seen.checked += more.checked;
    }
    // Both ways to bring rows of A were taken.
    CHECK(seen.checked > 0);
    CHECK(seen.checked < seen.tiles);
  }
}

std::string with_columns(int64_t columns, const std::string& piece) {
  const std::string value = piece.empty() ? "" : "f, s = split(gemm(x, w)" + piece + ")\n";
  const std::string dims = fmt::format("E = 3, K = 72, {} = {}", piece.empty() ? "N" : "I", columns);
  return piece.empty() ? ragged_spec("out y : bf16[M, N] = gemm(x, w)", dims)
                       : halved_spec(value + "out y : bf16[M, I] = f * s", dims);
}

}  // namespace

TEST_CASE("one part: whole blocks of 32 weight rows, and pairs of rows where there are none") {
  for (const int64_t columns : {32, 160, 8, 40, 264}) check_kernel(with_columns(columns, ""), true);
}

TEST_CASE("halves") {
  for (const int64_t columns : {32, 160, 8, 72}) check_kernel(with_columns(columns, " "), true);
}

TEST_CASE("halves that alternate by one, eight and 32") {
  for (const char* piece : {", 1", ", 8", ", 32"})
    for (const int64_t columns : {32, 160}) check_kernel(with_columns(columns, piece), true);
}

TEST_CASE("halves in pieces as wide as a tile") {
  check_kernel(with_columns(192, ", 64"), true);
  check_kernel(with_columns(256, ", 128"), true);
}

TEST_CASE("dense") {
  check_kernel(
      "kernel test {\n dim K = 40, N = 96\n dyn S\n in x : f16[S, K]\n in w : f16[N, K]\n out y : bf16[S, N] = gemm(x, "
      "w)\n}",
      false);
}
