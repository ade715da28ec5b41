// Which launches an output needs: how its elements are walked, how many are computed at once, and where a reduction is
// cut so that enough threads have work.
#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/pointwise.h"
#include "compiler/lowering/pointwise/build_value.h"
#include "compiler/lowering/pointwise/formats.h"
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

class Planner {
 public:
  Planner(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics)
      : graph_(graph), diagnostics_(diagnostics) {
    plan_.kernel = graph.name;
    plan_.target = target;
    plan_.gemm.form = GemmForm::none;
  }

  std::vector<KernelPlan> run() {
    bool sound = true;
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
    launch.item_axis = launch.kept - 1;
    if (launch.kept > 0 && is_eights(launch.axes.back())) launch.item_size = launch.width = wide;
    launch.lane_axis = launch.width > 1 ? launch.item_axis : -1;
    const int last = value_last(launch);
    set_order(launch, launch.width > 1 && last >= 0 ? last : launch.kept - 1);
    return finish(std::move(launch));
  }

  bool add_blocks(PointwiseLaunch launch) {
    const ir::Tensor& tensor = output_of(launch).tensor;
    const std::optional<PointwiseFormat> format = pointwise_format(tensor.type);
    if (!format) return refuse(tensor.where, fmt::format("an output of type {}", ir::print_type(tensor.type)));
    launch.kind = PointwiseKind::blocks;
    launch.item_axis = tensor.type.along_axis < 0 ? launch.kept - 1 : tensor.type.along_axis;
    launch.item_size = format->block;
    const PointwiseAxis& along = launch.axes[static_cast<size_t>(launch.item_axis)];
    if (along.place >= 0 && along.alignment % format->block != 0)
      return refuse(tensor.where,
                    fmt::format("blocks of {} that meet two groups of '{}'", format->block, dim(along.place).name));
    launch.width = is_eights(along) ? wide : 1;
    launch.lane_axis = launch.item_axis;
    const int last = value_last(launch);
    set_order(launch, launch.item_axis != launch.kept - 1 ? launch.kept - 1 : last >= 0 ? last : launch.kept - 1);
    return finish(std::move(launch));
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
    const bool stores = launch.kind != PointwiseKind::finish;
    if (stores && !build_value(graph_, output_of(launch).value, launch, diagnostics_)) return false;
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
        launch.axes[static_cast<size_t>(beside)].place < 0 && is_eights(launch.axes[static_cast<size_t>(beside)])) {
      launch.item_axis = launch.lane_axis = beside;
      launch.item_size = launch.width = wide;
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
    last.width = last.item_size = 1;
    last.lane_axis = last.item_axis = -1;
    set_order(last, -1);
    last.group_axis = group_count_axis(launch);

    // A partial is one group's, so the group count is not walked.
    launch.split_axis = split;
    if (last.group_axis >= 0) {
      launch.axes.erase(launch.axes.begin() + last.group_axis);
      --launch.kept;
      for (int* index : {&launch.split_axis, &launch.lane_axis, &launch.item_axis})
        if (*index > last.group_axis) --*index;
    }
    set_order(launch, -1);

    WorkspaceRegion region;
    region.name = "partials of " + output.tensor.name;
    if (!plan_.workspace.empty())
      region.offset = round_up(plan_.workspace.back().offset + plan_.workspace.back().bytes, workspace_alignment);
    region.bytes = kept_elements(graph_, launch) * partial_count(graph_, launch) * 4;
    launch.partials_offset = last.partials_offset = region.offset;
    plan_.workspace.push_back(region);
    return finish(std::move(launch)) && finish(std::move(last));
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

  // ---- tables of groups

  PointwiseTable* table_of(PointwiseLaunch& launch, ir::DimId grouped) {
    for (PointwiseTable& table : launch.tables)
      if (table.grouped == grouped) return &table;
    const ir::Dimension& d = dim(grouped);
    if (d.slot) {
      refuse(d.where, "groups in slots");
      return nullptr;
    }
    const std::optional<int64_t> groups = graph_.fixed_value({1, d.cut_by, 1});
    if (!groups) {
      diagnostics_.error(d.where, fmt::format("the number of groups, '{}', has no value", dim(d.cut_by).name),
                         "give it with --dims");
      return nullptr;
    }
    PointwiseTable table;
    table.grouped = grouped;
    table.groups = *groups;
    table.places.push_back({grouped, d.align, 0});
    launch.tables.push_back(std::move(table));
    return &launch.tables.back();
  }

  static void place_of(PointwiseTable& table, ir::DimId dim, int64_t alignment) {
    for (const PointwiseTable::Place& place : table.places)
      if (place.dim == dim) return;
    table.places.push_back({dim, alignment, 0});
  }

  bool add_tables(PointwiseLaunch& launch) {
    for (const PointwiseAxis& axis : launch.axes) {
      if (axis.grouped < 0) continue;
      PointwiseTable* table = table_of(launch, axis.grouped);
      if (!table) return false;
      place_of(*table, axis.place, axis.alignment);
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
};

}  // namespace

std::vector<KernelPlan> plan_pointwise(const ir::Graph& graph, const Target& target, Diagnostics& diagnostics) {
  return Planner(graph, target, diagnostics).run();
}

}  // namespace epifuse::lowering
