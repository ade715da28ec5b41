#include "compiler/codegen/emit_groups.h"

#include <fmt/format.h>

#include "compiler/codegen/parameters.h"
#include "compiler/lowering/plan_groups.h"

namespace epifuse::codegen {
namespace {

// A plan of its own: the groups need not be those of the main launch.
std::string entry(const ir::Graph& graph, const ir::Output& output, const RecipeStep& step) {
  const ir::Dimension& stored = graph.dims[static_cast<size_t>(graph.nodes[static_cast<size_t>(output.value)].dim)];
  const ir::Dimension& grouped = graph.dims[static_cast<size_t>(lowering::grouped_of_ends(graph, output))];
  const bool aligned = stored.kind == ir::DimKind::aligned;
  const std::string& name = output.tensor.name;
  std::string text = fmt::format(
      "struct EndsPlan_{} {{\n"
      "  static constexpr Groups groups = {};\n"
      "  static constexpr bool wide_sizes = {};\n"
      "  static constexpr int places = {};\n"
      "  static EPIFUSE_DEVICE constexpr int alignment(int place) {{ return place == 0 ? {} : {}; }}\n"
      "}};\n",
      name, spell_groups(grouped), grouped.sizes_storage == Storage::i64, aligned ? 2 : 1, grouped.align, stored.align);
  text += spell_parameters(step, "Ends_" + name);
  return text + fmt::format(
                    "extern \"C\" __global__ void __launch_bounds__({0}) {1}(const __grid_constant__ Ends_{2} p) {{\n"
                    "  static_assert(group_ends_threads == {0}, \"the recipe's block\");\n"
                    "  store_group_ends<EndsPlan_{2}, {3}, {4}>(p);\n}}\n\n",
                    step.block, step.entry, name, output.tensor.type.storage() == Storage::i64 ? "i64" : "int",
                    aligned ? 1 : 0);
}

}  // namespace

std::string spell_groups(const ir::Dimension& grouped) {
  return fmt::format("Groups::{}{}", grouped.slot ? "slot_" : "",
                     grouped.sizes == ir::GroupSizes::ends ? "ends" : "counts");
}

std::string group_ends_includes(const ir::Graph& graph) {
  return lowering::group_ends_steps(graph).empty() ? "" : "#include \"kernels/group_ends.cuh\"\n";
}

std::string group_ends_entries(const ir::Graph& graph) {
  std::string text;
  const std::vector<RecipeStep> steps = lowering::group_ends_steps(graph);
  size_t next = 0;
  for (const ir::Output& output : graph.outputs)
    if (!output.left_out && lowering::is_group_ends(graph, output)) text += entry(graph, output, steps[next++]);
  return text;
}

}  // namespace epifuse::codegen
