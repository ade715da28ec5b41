#include "compiler/lowering/plan_pass.h"

#include <algorithm>

#include "compiler/lowering/build_epilogue.h"
#include "compiler/lowering/choose_schedule.h"
#include "compiler/lowering/plan_quantised.h"
#include "compiler/lowering/plan_reductions.h"

namespace epifuse::lowering {
namespace {

using ir::DimKind;
using ir::Extent;
using ir::Op;

constexpr int widest_tile = 128;

class Planner {
 public:
  Planner(const ir::Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  // Tensors say how rows and columns lie: tried are the shapes of inputs, then of outputs.
  std::optional<KernelPlan> run() {
    for (const ir::Node& node : graph_.nodes)
      if (node.op == Op::gather) return std::nullopt;
    // Tiles know the groups of their rows alone.
    for (const ir::Output& output : graph_.outputs)
      if (output.contracted) return std::nullopt;
    std::vector<ir::Shape> tried;
    auto plan_for = [&](const ir::Tensor& tensor) -> std::optional<KernelPlan> {
      if (std::find(tried.begin(), tried.end(), tensor.shape) != tried.end()) return std::nullopt;
      tried.push_back(tensor.shape);
      return plan_over(tensor.shape);
    };
    for (const ir::Input& input : graph_.inputs)
      if (!input.left_out)
        if (std::optional<KernelPlan> plan = plan_for(input.tensor)) return plan;
    for (const ir::Output& output : graph_.outputs)
      if (!output.left_out)
        if (std::optional<KernelPlan> plan = plan_for(output.tensor)) return plan;
    return std::nullopt;
  }

 private:
  bool is_kind(const Extent& e, DimKind kind) const {
    return e.dim >= 0 && graph_.dims[static_cast<size_t>(e.dim)].kind == kind;
  }

  std::optional<KernelPlan> plan_over(const ir::Shape& shape) {
    gemm_ = {};
    if (!take_dimensions(shape) || !find_columns()) return std::nullopt;
    Diagnostics refused;  // what tiles cannot do is no mistake
    std::optional<EpilogueAndPlaces> epilogue = build_epilogue(graph_, gemm_, refused);
    if (!epilogue) return std::nullopt;
    // Sums alone are made by fewer threads without a detour through partials.
    const std::vector<Sink>& sinks = epilogue->epilogue.sinks;
    if (std::all_of(sinks.begin(), sinks.end(), [](const Sink& sink) { return is_reduction(sink.kind); }))
      return std::nullopt;
    KernelPlan plan;
    plan.kernel = graph_.name;
    plan.target = target_;
    plan.gemm = gemm_;
    plan.places = std::move(epilogue->places);
    plan.epilogue = std::move(epilogue->epilogue);
    plan.deal = deal_of(gemm_);
    plan.ragged_columns = gemm_.part_columns % block_columns != 0;
    plan.schedule.family = Family::pass;
    plan.schedule.tile_columns = has_wide_blocks(plan.epilogue) ? widest_tile : tile_width();
    plan.schedule.band = static_cast<int>((gemm_.part_columns + plan.part_tile() - 1) / plan.part_tile());
    plan.schedule.ctas = choose_ctas(graph_, plan);
    gather_scales(plan);
    place_reductions(graph_, plan);
    if (std::string why; !place_scales(graph_, plan, why)) return std::nullopt;
    if (plan.scratch_bytes != 0) plan.shared.push_back({"epilogue", 0, plan.scratch_bytes, false});
    plan.shared_bytes = plan.scratch_bytes;
    return plan;
  }

  // The last two names of a buffer are rows and columns, in either order where one of them is grouped; a name in front
  // of them is a batch.
  bool take_dimensions(ir::Shape shape) {
    if (shape.size() < 2 || shape.size() > 3) return false;
    for (Extent& e : shape) e = graph_.base_name(e);
    const bool transposed = is_kind(shape.back(), DimKind::grouped);
    gemm_.rows = transposed ? shape.back() : shape[shape.size() - 2];
    gemm_.columns = transposed ? shape[shape.size() - 2] : shape.back();
    if (is_kind(gemm_.rows, DimKind::grouped)) {
      const ir::Dimension& rows = graph_.dims[static_cast<size_t>(gemm_.rows.dim)];
      if (shape.size() != 2) return false;
      gemm_.form = GemmForm::ragged_rows;
      gemm_.groups = {1, rows.cut_by, 1};
      return true;
    }
    gemm_.form = shape.size() == 3 ? GemmForm::batched : GemmForm::dense;
    gemm_.groups = shape.size() == 3 ? shape[0] : Extent{1, -1, 1};
    return true;
  }

  // Where there is a split or join, the narrow one of its dimensions counts the columns.
  bool find_columns() {
    for (const ir::Node& node : graph_.nodes) {
      if (node.op != Op::split && node.op != Op::join) continue;
      const Extent whole = graph_.whole_name(node);
      if (whole == gemm_.columns)
        gemm_.columns = ir::half(whole);
      else if (!(ir::half(whole) == gemm_.columns))
        return false;
      if (gemm_.piece != 0 && gemm_.piece != node.piece) return false;
      gemm_.piece = node.piece;
    }
    const std::optional<int64_t> columns = graph_.fixed_value(gemm_.columns);
    if (!columns || *columns % 8 != 0) return false;
    gemm_.part_columns = *columns;
    return true;
  }

  int tile_width() const {
    int width = widest_tile;
    while (width > block_columns && width / 2 >= gemm_.part_columns) width /= 2;
    return width;
  }

  const ir::Graph& graph_;
  const Target& target_;
  Gemm gemm_;
};

}  // namespace

std::optional<KernelPlan> plan_pass(const ir::Graph& graph, const Target& target) {
  return Planner(graph, target).run();
}

}  // namespace epifuse::lowering
