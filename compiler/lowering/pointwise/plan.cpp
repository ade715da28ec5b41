// Which launches an output needs: how its elements are walked, how many are computed at once, and where a reduction is
// cut so that enough threads have work.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/pointwise.h"
#include "compiler/lowering/pointwise/build_value.h"
#include "compiler/lowering/pointwise/recipe.h"

namespace epifuse::lowering {
namespace {

using ir::Extent;

constexpr int wide = 8;
// Reduced elements that one thread, or one warp, adds up without partials, and of how many a partial is. A sum keeps
// four partial sums (two, where a thread has eight of them), so that the longest chain of additions stays below what
// the interpreter allows for: 64 in a row, and a 128th of all.
constexpr int64_t most_by_thread = 256, most_by_eight = 128, most_by_warp = 65536, most_by_lone_warp = 4096;
constexpr int64_t thread_chunk = 128, eight_chunk = 64, warp_chunk = 4096, warp_terms = 32768;
constexpr int64_t fewest_for_warp = 17;
constexpr int most_shared_words = 12 * 1024;
constexpr int longest_of_thread = 32;

class Planner {
 public:
  Planner(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics)
      : graph_(graph), diagnostics_(diagnostics) {
    plan_.kernel = graph.name;
    plan_.target = target;
    plan_.gemm.form = GemmForm::none;
  }

  std::vector<KernelPlan> run() {
    bool sound = add_rotations();
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (!graph_.outputs[i].left_out) sound = add_output(static_cast<int>(i)) && sound;
    if (!sound) return {};
    if (plan_.pointwise.empty()) {
      diagnostics_.error({}, fmt::format("kernel {} stores nothing: every output is left out", graph_.name));
      return {};
    }
    // A spec may call its kernel like a word of the templates.
    for (size_t i = 0; i < plan_.pointwise.size(); ++i)
      plan_.pointwise[i].entry =
          plan_.pointwise.size() == 1 ? "kernel_" + graph_.name : fmt::format("kernel_{}_{}", graph_.name, i);
    plan_.recipe = build_pointwise_recipe(graph_, plan_);
    for (const auto& [id, multiple] : multiples_)
      for (RecipeSymbol& symbol : plan_.recipe.symbols)
        if (symbol.name == dim(id).name) symbol.multiple = multiple;
    const Status valid = plan_.recipe.validate();
    EPIFUSE_ENSURE(valid, valid ? "" : valid.error().message);
    plan_.schedule.family = Family::pointwise;
    std::vector<KernelPlan> plans;
    plans.push_back(std::move(plan_));
    return plans;
  }

 private:
  const ir::Dimension& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)]; }

  bool refuse(Span where, std::string what) {
    diagnostics_.error(where, what + " in a kernel without gemm is not lowered yet");
    return false;
  }

  bool add_output(int index) {
    const ir::Output& output = graph_.outputs[static_cast<size_t>(index)];
    PointwiseLaunch launch;
    launch.output = index;
    for (const Extent& name : output.tensor.shape) launch.axes.push_back(axis(name));
    launch.kept = static_cast<int>(launch.axes.size());
    set_contracted(output, launch);
    if (value(output).op == ir::Op::group_ends) return add_ends(std::move(launch));
    if (output.reduction != ir::Reduction::none) {
      if (output.tensor.type.scaled()) return refuse(output.tensor.where, "quantising a reduction");
      return add_reduction(std::move(launch));
    }
    return output.tensor.type.scaled() ? add_blocks(std::move(launch)) : add_elements(std::move(launch));
  }

  const ir::Node& value(const ir::Output& output) const { return graph_.nodes[static_cast<size_t>(output.value)]; }
  const ir::Output& output_of(const PointwiseLaunch& launch) const {
    return graph_.outputs[static_cast<size_t>(launch.output)];
  }

  PointwiseAxis axis(const Extent& name) const {
    PointwiseAxis result;
    result.name = name;
    const bool plain = name.dim >= 0 && name.times == 1 && name.over == 1;
    const ir::DimKind kind = plain ? dim(name.dim).kind : ir::DimKind::fixed;
    if (kind != ir::DimKind::grouped && kind != ir::DimKind::aligned) return result;
    result.place = name.dim;
    result.grouped = kind == ir::DimKind::aligned ? dim(name.dim).base : name.dim;
    result.alignment = dim(name.dim).align;
    return result;
  }

  void set_contracted(const ir::Output& output, PointwiseLaunch& launch) const {
    for (const ir::DimId grouped : graph_.contracted_groups(output))
      for (int i = 0; i < launch.kept; ++i)
        if (launch.axes[static_cast<size_t>(i)].name == Extent{1, dim(grouped).cut_by, 1})
          launch.contracted.push_back({i, grouped});
  }

  // Whether neighbours along a kept axis may lie in groups of which some are empty.
  static bool counts_contracted(const PointwiseLaunch& launch, int axis) {
    return std::any_of(launch.contracted.begin(), launch.contracted.end(),
                       [axis](const PointwiseContracted& c) { return c.axis == axis; });
  }

  // Whether an axis is whole runs of eight from multiples of 8, none of which meets two groups.
  bool is_eights(const PointwiseAxis& axis) const {
    if (axis.place >= 0) return dim(axis.place).kind == ir::DimKind::aligned && axis.alignment % wide == 0;
    const std::optional<int64_t> size = graph_.fixed_value(axis.name);
    return size && *size % wide == 0;
  }

  // The kept axis that is the value's last name, along which its inputs are most likely contiguous; -1 if none is.
  int value_last(const PointwiseLaunch& launch) const {
    const ir::Shape& shape = value(output_of(launch)).shape;
    if (!shape.empty())
      for (int i = 0; i < launch.kept; ++i)
        if (graph_.same_name(launch.axes[static_cast<size_t>(i)].name, shape.back())) return i;
    return -1;
  }

  static void set_order(PointwiseLaunch& launch, int fastest) {
    if (fastest >= 0) launch.order.push_back(fastest);
    for (int i = launch.kept; i-- > 0;)
      if (i != fastest) launch.order.push_back(i);
  }

  // Neighbouring threads take neighbouring elements of the stored order; where that is a transposition and a thread
  // writes eight elements at once, neighbours of the order in which the inputs are read.
  bool add_elements(PointwiseLaunch launch) {
    launch.kind = PointwiseKind::elements;
    if (launch.kept > 0 && is_eights(launch.axes.back()) && !counts_contracted(launch, launch.kept - 1))
      launch.axes.back().step = launch.width = wide;
    launch.lane_axis = launch.width > 1 ? launch.kept - 1 : -1;
    const int last = value_last(launch);
    set_order(launch, launch.width > 1 && last >= 0 ? last : launch.kept - 1);
    return finish(std::move(launch));
  }

  // Lanes lie along the last axis, whose codes are neighbours in memory. A thread takes a block, or as many as lanes
  // lie across; a warp takes blocks of two dimensions, and long ones, which it reads as they lie.
  bool add_blocks(PointwiseLaunch launch) {
    const ir::Tensor& tensor = output_of(launch).tensor;
    const ir::FormatInfo& format = ir::format_info(tensor.type.format);
    const int last = launch.kept - 1, fastest = value_last(launch);
    const bool square = format.block_rows > 1, across = !square && ir::along_axis(tensor.type, launch.kept) != last;
    const bool packed = tensor.type.element == Storage::e2m1;
    PointwiseAxis& columns = launch.axes.back();
    if (packed && !owns_bytes(tensor, columns)) return false;
    launch.kind = PointwiseKind::blocks;
    launch.width = is_eights(columns) ? wide : packed ? 2 : 1;
    launch.lane_axis = last;
    launch.block_rows = across ? format.block_columns : format.block_rows;
    launch.block_columns = across ? 1 : format.block_columns;
    if (launch.kept > 1) launch.axes[static_cast<size_t>(last) - 1].step = launch.block_rows;
    columns.step = across ? launch.width : launch.block_columns;
    launch.warps = square || (!across && fastest == last && format.block_columns > longest_of_thread);
    launch.rows_first = square && fastest == last - 1;
    set_order(launch, !launch.warps && !across && fastest >= 0 ? fastest : last);
    choose_amax(launch);
    if (tensor.type.layout == ir::ScaleLayout::blocked_128x4 && !add_tiles(launch)) return false;
    return finish(std::move(launch));
  }

  // Which of the largest magnitudes that an option names is an item's.
  void choose_amax(PointwiseLaunch& launch) {
    const ir::Tensor& tensor = output_of(launch).tensor;
    for (const ir::Input& input : graph_.inputs) {
      if (tensor.type.amax_input.empty() || input.tensor.name != tensor.type.amax_input) continue;
      if (input.left_out || input.tensor.shape.empty()) return;
      const Extent& over = input.tensor.shape[0];
      for (int i = 0; i < launch.kept; ++i) {
        const PointwiseAxis& a = launch.axes[static_cast<size_t>(i)];
        launch.amax_by_group = a.grouped >= 0 && over == Extent{1, dim(a.grouped).cut_by, 1};
        if (!launch.amax_by_group && !(over == a.name)) continue;
        launch.amax_axis = i;
        return;
      }
    }
  }

  // Two codes share a byte, which belongs to one item: rows are of even length, and groups begin at even places.
  bool owns_bytes(const ir::Tensor& tensor, const PointwiseAxis& columns) {
    const auto odd = [&](const std::string& what) {
      diagnostics_.error(tensor.where, fmt::format("4-bit codes need {} to be even", what), "two of them share a byte");
      return false;
    };
    const std::string name = graph_.extent_text(columns.name);
    if (columns.place >= 0) {
      const std::optional<Extent>& slot = dim(columns.place).slot;
      const std::optional<int64_t> apart = slot ? graph_.fixed_value(*slot) : columns.alignment;
      if (!apart || *apart % 2 != 0) return odd(fmt::format("the places where groups of '{}' begin", name));
      if (columns.place == columns.grouped) plan_even(columns.grouped, 2);
      return true;
    }
    if (const std::optional<int64_t> size = graph_.fixed_value(columns.name))
      return *size % 2 == 0 || odd(fmt::format("the last dimension, {} = {},", name, *size));
    if (columns.name.times % 2 != 0) plan_even(columns.name.dim, 2 * columns.name.over);
    return true;
  }

  void plan_even(ir::DimId id, int64_t multiple) {
    multiples_[id] = std::lcm(multiples_.count(id) != 0 ? multiples_[id] : int64_t{1}, multiple);
  }

  // Scales in tiles: bytes of a tile that no block has are zero. Which of the last two axes lies in groups decides
  // where tiles begin.
  bool add_tiles(PointwiseLaunch& launch) {
    const ir::Tensor& tensor = output_of(launch).tensor;
    for (int i = std::max(0, launch.kept - 2); i < launch.kept; ++i) {
      if (launch.axes[static_cast<size_t>(i)].grouped < 0) continue;
      if (launch.tiled_axis >= 0) return refuse(tensor.where, "tiles of scales of two grouped dimensions");
      launch.tiled_axis = i;
    }
    if (fills_tiles(launch)) return true;
    PointwiseLaunch clear;
    clear.kind = PointwiseKind::clear;
    clear.output = launch.output;
    clear.warps = true;
    clear.axes = launch.axes;
    for (PointwiseAxis& a : clear.axes) a.step = 1;
    clear.kept = launch.kept - 2;
    clear.tiled_axis = launch.tiled_axis;
    set_order(clear, -1);
    return finish(std::move(clear));
  }

  // Whether every scale of every tile is a block's: of whole tiles in each group, and in the whole.
  bool fills_tiles(const PointwiseLaunch& launch) const {
    for (int i = launch.kept - 2; i < launch.kept; ++i) {
      const PointwiseAxis& a = launch.axes[static_cast<size_t>(i)];
      const int64_t unit = tile_places(launch, i);
      const std::optional<int64_t> whole = a.place < 0            ? graph_.fixed_value(a.name)
                                           : a.place != a.grouped ? a.alignment
                                                                  : std::optional<int64_t>();
      if (!whole || *whole % unit != 0) return false;
    }
    return true;
  }

  bool add_ends(PointwiseLaunch launch) {
    launch.kind = PointwiseKind::ends;
    const ir::DimId id = value(output_of(launch)).dim;
    const bool aligned = dim(id).kind == ir::DimKind::aligned;
    set_order(launch, -1);
    PointwiseTable* table = table_of(launch, aligned ? dim(id).base : id);
    if (!table) return false;
    place_of(*table, id, dim(id).align);
    place_tables(launch);
    plan_.pointwise.push_back(std::move(launch));
    return true;
  }

  bool finish(PointwiseLaunch launch) {
    const bool stores = launch.kind != PointwiseKind::finish && launch.kind != PointwiseKind::clear;
    const ir::NodeId value = launch.rotation >= 0 ? graph_.nodes[static_cast<size_t>(launch.rotation)].args[0]
                             : stores             ? output_of(launch).value
                                                  : -1;
    if (stores && !build_value(graph_, value, launch, diagnostics_)) return false;
    if (!add_tables(launch)) return false;
    plan_.pointwise.push_back(std::move(launch));
    return true;
  }

  // ---- reductions

  bool add_reduction(PointwiseLaunch launch) {
    const ir::Output& output = output_of(launch);
    const ir::Shape& shape = value(output).shape;
    launch.kind = PointwiseKind::reduce;
    launch.reduction = output.reduction;
    for (const Extent& name : shape) {
      const bool kept = std::any_of(launch.axes.begin(), launch.axes.begin() + launch.kept,
                                    [&](const PointwiseAxis& a) { return graph_.same_name(a.name, name); });
      if (!kept) launch.axes.push_back(axis(graph_.base_name(name)));
    }
    const bool last_reduced = !shape.empty() && value_last(launch) < 0;
    const std::optional<int64_t> terms = fixed_product(launch, -1);
    launch.warps = last_reduced && !(terms && *terms < fewest_for_warp);
    if (launch.warps && is_eights(launch.axes.back())) {
      launch.width = wide;
      launch.lane_axis = static_cast<int>(launch.axes.size()) - 1;
    }
    // A thread adds up eight neighbours, which its inputs have one behind the other.
    const int beside = launch.kept - 1;
    if (!launch.warps && beside >= 0 && value_last(launch) == beside &&
        launch.axes[static_cast<size_t>(beside)].place < 0 && is_eights(launch.axes[static_cast<size_t>(beside)]) &&
        !counts_contracted(launch, beside)) {
      launch.lane_axis = beside;
      launch.axes[static_cast<size_t>(beside)].step = launch.width = wide;
    }
    const int64_t by_thread = launch.width > 1 ? most_by_eight : most_by_thread;
    const int64_t most = !launch.warps ? by_thread : launch.kept == 0 ? most_by_lone_warp : most_by_warp;
    if (terms && *terms <= most) {
      set_order(launch, -1);
      return finish(std::move(launch));
    }
    return add_split(std::move(launch));
  }

  // The number of reduced elements but for those along one axis; nothing where it is known at launch only.
  std::optional<int64_t> fixed_product(const PointwiseLaunch& launch, int without) const {
    int64_t product = 1;
    for (int i = launch.kept; i < static_cast<int>(launch.axes.size()); ++i) {
      if (i == without) continue;
      const std::optional<int64_t> size = graph_.fixed_value(launch.axes[static_cast<size_t>(i)].name);
      if (!size || __builtin_mul_overflow(product, *size, &product)) return std::nullopt;
    }
    return product;
  }

  // The reduced axis that partials cut: rows of groups, else a size of the launch, else the largest. In a warp not the
  // last one, where there is another.
  int choose_split(const PointwiseLaunch& launch) const {
    const int end = static_cast<int>(launch.axes.size());
    const auto at = [&](int i) -> const PointwiseAxis& { return launch.axes[static_cast<size_t>(i)]; };
    for (int i = launch.kept; i < end; ++i)
      if (at(i).grouped >= 0) return i;
    for (int i = launch.kept; i < end; ++i)
      if (!graph_.fixed_value(at(i).name)) return i;
    int best = -1;
    for (int i = launch.kept; i < end; ++i)
      if (best < 0 || *graph_.fixed_value(at(i).name) > *graph_.fixed_value(at(best).name))
        if (!launch.warps || i + 1 < end || best < 0 || *graph_.fixed_value(at(best).name) < wide) best = i;
    return best;
  }

  bool add_split(PointwiseLaunch launch) {
    const ir::Output& output = output_of(launch);
    const int split = choose_split(launch);
    for (int i = launch.kept; i < static_cast<int>(launch.axes.size()); ++i)
      if (i != split && launch.axes[static_cast<size_t>(i)].grouped >= 0)
        return refuse(output.tensor.where, "a reduction over the rows of two grouped dimensions");
    launch.split = launch.axes[static_cast<size_t>(split)];
    launch.chunk = chunk_of(launch, split);

    PointwiseLaunch last = launch;
    last.kind = PointwiseKind::finish;
    last.axes.resize(static_cast<size_t>(launch.kept));
    for (PointwiseAxis& a : last.axes) a.step = 1;
    last.width = 1;
    last.lane_axis = -1;
    set_order(last, -1);
    last.group_axis = group_count_axis(launch);

    launch.contracted.clear();  // of partials, results are made

    // A partial is one group's, so the group count is not walked.
    launch.split_axis = split;
    if (last.group_axis >= 0) {
      launch.axes.erase(launch.axes.begin() + last.group_axis);
      --launch.kept;
      for (int* index : {&launch.split_axis, &launch.lane_axis})
        if (*index > last.group_axis) --*index;
    }
    set_order(launch, -1);

    launch.partials_offset = last.partials_offset = add_region(
        "partials of " + output.tensor.name, kept_elements(graph_, launch) * partial_count(graph_, launch) * 4);
    return finish(std::move(launch)) && finish(std::move(last));
  }

  IntExpr add_region(std::string name, IntExpr bytes) {
    plan_.add_region(std::move(name), std::move(bytes));
    return plan_.workspace.back().offset;
  }

  int64_t chunk_of(const PointwiseLaunch& launch, int split) const {
    const std::optional<int64_t> beside = fixed_product(launch, split);
    if (!launch.warps)
      return std::max<int64_t>(
          1, (launch.width > 1 ? eight_chunk : thread_chunk) / std::max<int64_t>(1, beside.value_or(1)));
    if (split + 1 == static_cast<int>(launch.axes.size()) && (!beside || *beside == 1)) return warp_chunk;
    if (!beside) return wide;
    return std::clamp<int64_t>(warp_terms / std::max<int64_t>(1, *beside), wide, 256) / wide * wide;
  }

  // The kept axis that counts the groups of the split dimension; -1 if none does.
  int group_count_axis(const PointwiseLaunch& launch) const {
    if (launch.split.grouped < 0) return -1;
    const Extent count{1, dim(launch.split.grouped).cut_by, 1};
    for (int i = 0; i < launch.kept; ++i)
      if (launch.axes[static_cast<size_t>(i)].name == count) return i;
    return -1;
  }

  // ---- rotations

  // Those that a stored value needs, each behind those that it is made from.
  bool add_rotations() {
    std::vector<bool> needed(graph_.nodes.size(), false);
    for (const ir::Output& output : graph_.outputs)
      if (!output.left_out) needed[static_cast<size_t>(output.value)] = true;
    for (size_t i = graph_.nodes.size(); i-- > 0;)
      if (needed[i])
        for (const ir::NodeId arg : graph_.nodes[i].args) needed[static_cast<size_t>(arg)] = true;
    bool sound = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (needed[i] && graph_.nodes[i].op == ir::Op::hadamard)
        sound = add_rotation(static_cast<ir::NodeId>(i)) && sound;
    return sound;
  }

  // As a split reduction of chunks of 16, along the dimension itself: its blocks begin with each group.
  bool add_rotation(ir::NodeId id) {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
    PointwiseLaunch launch;
    launch.kind = PointwiseKind::rotate;
    launch.rotation = id;
    for (const Extent& name : node.shape)
      if (!graph_.same_name(name, node.along)) launch.axes.push_back(axis(graph_.base_name(name)));
    launch.kept = launch.split_axis = static_cast<int>(launch.axes.size());
    launch.split = axis(graph_.base_name(node.along));
    launch.axes.push_back(launch.split);
    launch.chunk = rotation_size;
    if (is_eights(launch.split) && graph_.same_name(node.shape.back(), node.along)) {
      launch.lane_axis = launch.split_axis;
      launch.width = wide;
    }
    set_order(launch, -1);
    IntExpr elements = 1;
    for (size_t i = 0; i < node.shape.size(); ++i) {
      const IntExpr size = ir::extent_expression(graph_, graph_.base_name(node.shape[i]));
      elements = elements * (i + 1 == node.shape.size() ? round_up(size, wide) : size);
    }
    add_region(rotation_region(id), elements * 4);
    return finish(std::move(launch));
  }

  // ---- tables of groups

  PointwiseTable* table_of(PointwiseLaunch& launch, ir::DimId grouped) {
    for (PointwiseTable& table : launch.tables)
      if (table.grouped == grouped) return &table;
    const ir::Dimension& d = dim(grouped);
    const std::optional<int64_t> groups = graph_.fixed_value({1, d.cut_by, 1});
    if (!groups) {
      diagnostics_.error(d.where, fmt::format("the number of groups, '{}', has no value", dim(d.cut_by).name),
                         "give it with --dims");
      return nullptr;
    }
    PointwiseTable table;
    table.grouped = grouped;
    table.groups = *groups;
    table.places.push_back({grouped, d.align, 0, 0});
    launch.tables.push_back(std::move(table));
    return &launch.tables.back();
  }

  static void place_of(PointwiseTable& table, ir::DimId dim, int64_t alignment, int64_t unit = 0) {
    for (const PointwiseTable::Place& place : table.places)
      if (place.dim == dim && place.unit == unit) return;
    table.places.push_back({dim, alignment, unit, 0});
  }

  // Places along an axis that one tile of scales covers.
  int64_t tile_places(const PointwiseLaunch& launch, int axis) const {
    const ir::TensorType& type = output_of(launch).tensor.type;
    const ir::FormatInfo& format = ir::format_info(type.format);
    const bool along = axis == ir::along_axis(type, static_cast<int>(launch.axes.size()));
    return along ? ir::scale_tile_columns * format.block_columns : ir::scale_tile_rows * format.block_rows;
  }

  bool add_tables(PointwiseLaunch& launch) {
    for (const PointwiseAxis& axis : launch.axes) {
      if (axis.grouped < 0) continue;
      PointwiseTable* table = table_of(launch, axis.grouped);
      if (!table) return false;
      place_of(*table, axis.place, axis.alignment);
    }
    for (const PointwiseContracted& contracted : launch.contracted)
      if (!table_of(launch, contracted.grouped)) return false;
    if (launch.tiled_axis >= 0) {
      const PointwiseAxis& tiled = launch.axes[static_cast<size_t>(launch.tiled_axis)];
      place_of(*table_of(launch, tiled.grouped), tiled.place, tiled.alignment, tile_places(launch, launch.tiled_axis));
    }
    if (launch.chunk > 0 && launch.split.grouped >= 0) {
      PointwiseTable* table = table_of(launch, launch.split.grouped);
      if (!table) return false;
      place_of(*table, -1, launch.chunk);
    }
    for (const PointwiseCoordinate& c : launch.value.coordinates) {
      if (c.dim < 0) continue;
      const bool aligned = dim(c.dim).kind == ir::DimKind::aligned;
      PointwiseTable* table = table_of(launch, aligned ? dim(c.dim).base : c.dim);
      if (!table) return false;
      place_of(*table, c.dim, dim(c.dim).align);
    }
    return place_tables(launch);
  }

  bool place_tables(PointwiseLaunch& launch) {
    int64_t words = 0;
    for (PointwiseTable& table : launch.tables) {
      if (words + table.groups * static_cast<int64_t>(table.places.size() + 1) > most_shared_words) {
        diagnostics_.error(dim(table.grouped).where,
                           fmt::format("{} groups of '{}' are more than a kernel without gemm "
                                       "can hold yet",
                                       table.groups, dim(table.grouped).name));
        return false;
      }
      table.counts = static_cast<int>(words);
      words += table.groups;
      for (PointwiseTable::Place& place : table.places) place.starts = static_cast<int>(words), words += table.groups;
    }
    launch.shared_words = static_cast<int>(words);
    return true;
  }

  const ir::Graph& graph_;
  Diagnostics& diagnostics_;
  KernelPlan plan_;
  std::map<ir::DimId, int64_t> multiples_;  // what sizes at launch must be multiples of
};

}  // namespace

std::string rotation_region(ir::NodeId rotation) { return fmt::format("rotation {}", rotation); }

std::vector<KernelPlan> plan_pointwise(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics) {
  return Planner(graph, target, diagnostics).run();
}

}  // namespace epifuse::lowering
