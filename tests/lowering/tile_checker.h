// The device's code of a plan, compiled for the host, held against a launch (tile_problem.h): the copies that
// templates/tile/operands.cuh asks for are carried out. No byte outside a tensor is addressed, every element of a stage
// is filled once, rows and places of the contraction that are not the tile's are zeros, and
// Accumulators::at(block, i, c) is the product of the row and the column that the plan means. Rows past a buffer's end
// may be left as they were, where none of a warp's exist.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/lowering/pointer_maps.h"
#include "tests/lowering/tile_problem.h"

namespace epifuse::test {

// What the emitter says of a gemm. `boxes`: the contraction lies in groups of any size. `in_pairs`: of CTAs.
template <GemmForm form, Major a, Major b, bool boxes = false, int segments_ = 1, bool pointers = false,
          bool in_pairs = false>
struct Form {
  static constexpr Major a_major = a, b_major = b;
  static constexpr int segments = segments_, places = 1;
  static constexpr bool ragged_rows = form == GemmForm::ragged_rows, ragged_depth = form == GemmForm::ragged_depth;
  static constexpr bool ragged_boxes = boxes, b_pointers = pointers, pairs = in_pairs;
};

template <class Form, int columns, int parts_, int slices_, bool checked, int piece_>
struct DevicePlan : Form {
  static constexpr int tile_columns = columns, parts = parts_, slices = slices_, dealt = piece_;
  static constexpr bool checked_pairs = checked;
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

// Names the rows of an operand in a stage, and holds every place of the contraction against what is expected there.
// left: rows may have been left as they were, all of a row or nothing.
template <Major major, bool left = false, class Expected>
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
    if (left && at(0) == unfilled) {
      for (int k = 0; k < k_tile; ++k) REQUIRE(at(k) == unfilled);
      continue;
    }
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
        tile.alone = Plan::pairs && column_tile % 2 != 0;  // as if the group had no other row tile
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
    if constexpr (Plan::pairs) add_from_the_other(source, segment, k);
    for (const ptx::Copy& copy : ptx::copies) {
      const auto& [map, group] = maps_.at(copy.map);
      carry_out(problem_, *map, group, copy, stage);
    }
    const auto unbrought = static_cast<u32>(std::count(stage.begin(), stage.end(), unfilled));
    REQUIRE(Load::bytes(source) == Load::stage_bytes - 2 * unbrought);
    row_names.assign(Load::stage_bytes / operand_row_bytes, -1);
    name_rows<Plan::a_major, Plan::a_major == Major::k>(
        stage, 0, tile_rows, [&](int m, int at) { return problem_.expected_a(rows, segment, m, k + at); });
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

  // In a pair: what the second CTA brings for both. Nobody brings the same twice.
  void add_from_the_other(typename Load::Source source, int segment, int k) {
    if (source.ctas != 3) return;
    std::vector<ptx::Copy> own;
    own.swap(ptx::copies);
    source.rank = 1;
    Load::load(*p_, 0, 0, segment, k, source);
    const auto for_both = [](const ptx::Copy& copy) { return copy.ctas == 3; };
    const auto by_it = std::count_if(ptx::copies.begin(), ptx::copies.end(), for_both);
    REQUIRE((std::count_if(own.begin(), own.end(), for_both) == 0) == (by_it != 0));
    std::copy_if(ptx::copies.begin(), ptx::copies.end(), std::back_inserter(own), for_both);
    ptx::copies.swap(own);
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

template <class Form, int parts, bool checked, int piece, int columns, int slices>
void check_schedule(const Problem& problem, Counts& seen, bool& known) {
  using Plan = DevicePlan<Form, columns, parts, slices, checked, piece>;
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

template <class Form, int parts, bool checked, int piece, int slices>
void check_widths(const Problem& problem, Counts& seen, bool& known) {
  check_schedule<Form, parts, checked, piece, 64, slices>(problem, seen, known);
  check_schedule<Form, parts, checked, piece, 96, slices>(problem, seen, known);
  check_schedule<Form, parts, checked, piece, 128, slices>(problem, seen, known);
  check_schedule<Form, parts, checked, piece, 160, slices>(problem, seen, known);
  check_schedule<Form, parts, checked, piece, 192, slices>(problem, seen, known);
}

// Every tile of a kernel, on groups that end in all ways, with and without rows behind them. `piece`: of a weight that
// is dealt out by whole tiles.
template <class Form, int parts = 1, bool checked = false, int piece = 0>
void check_kernel(const std::string& text, const std::vector<int64_t>& counts = {130, 0, 1}) {
  const LoweredText result = lower_tiles(text, Form::pairs);
  INFO(text);
  const lowering::Gemm& gemm = result.plan().gemm;
  REQUIRE(gemm.parts == parts);
  REQUIRE(gemm.segments == Form::segments);
  const bool ragged = lowering::is_ragged(result.lowered.graph, gemm);
  for (const KernelPlan& plan : result.lowered.plans) {
    INFO(lowering::schedule_name(plan.schedule) << " " << lowering::deal_name(plan.deal));
    REQUIRE(plan.checked_pairs == checked);
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
      check_widths<Form, parts, checked, piece, 1>(problem, seen, known);
      check_widths<Form, parts, checked, piece, 2>(problem, seen, known);
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

}  // namespace epifuse::test
