#include "jit/unfused.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <numeric>
#include <set>

#include "compiler/ir/buffers.h"
#include "compiler/lowering/plan_groups.h"

namespace epifuse::jit {
namespace {

std::vector<IntExpr> extents_of(const ir::Graph& graph, const ir::Shape& shape) {
  std::vector<IntExpr> extents;
  for (const ir::Extent& extent : shape) extents.push_back(ir::extent_expression(graph, extent));
  return extents;
}

// What the stages want of a buffer, all together. One that no stage reads may be anything.
RecipeTensor wanted_by_all(const ir::Buffer& buffer, const std::vector<CompiledKernelPtr>& stages) {
  RecipeTensor merged;
  bool found = false;
  for (const CompiledKernelPtr& stage : stages) {
    const RecipeTensor* tensor = stage->image.recipe.find_tensor(buffer.name);
    if (!tensor) continue;
    if (!found) {
      merged = *tensor;
      found = true;
      continue;
    }
    merged.strided = merged.strided && tensor->strided;
    merged.alignment = std::max(merged.alignment, tensor->alignment);
    if (merged.pitch_note.empty()) merged.pitch_note = tensor->pitch_note;
  }
  if (found) return merged;
  merged.name = buffer.name;
  merged.storage = buffer.storage;
  merged.role = buffer.role;
  merged.extents = buffer.extents;
  merged.alignment = std::max(1, storage_bits(buffer.storage) / 8);
  merged.pointer_axes = buffer.pointer_axes;
  return merged;
}

LaunchRecipe whole_recipe(const lowering::Unfused& unfused, const std::vector<CompiledKernelPtr>& stages) {
  const ir::Graph& graph = unfused.graph;
  LaunchRecipe recipe;
  recipe.kernel = graph.name;
  recipe.target = stages.front()->image.recipe.target;
  for (const ir::Param& param : graph.params) recipe.params.push_back({param.name, param.default_value});
  for (const ir::Buffer& buffer : ir::buffers(graph)) {
    RecipeTensor tensor = wanted_by_all(buffer, stages);
    if (buffer.role == TensorRole::group_sizes) lowering::describe_groups(graph, buffer.tensor, tensor);
    recipe.tensors.push_back(std::move(tensor));
  }

  std::set<std::string> symbols;
  for (const RecipeTensor& tensor : recipe.tensors) {
    for (const IntExpr& extent : tensor.extents) extent.collect_symbols(symbols);
    tensor.group_slot.collect_symbols(symbols);
  }
  for (const lowering::Intermediate& between : unfused.intermediates)
    for (const IntExpr& extent : extents_of(graph, between.tensor.shape)) extent.collect_symbols(symbols);
  for (const ir::Dimension& dim : graph.dims) {
    if (symbols.count(dim.name) == 0) continue;
    RecipeSymbol symbol;
    symbol.name = dim.name;
    symbol.kind = dim.kind == ir::DimKind::fixed ? SymbolKind::fixed : SymbolKind::launch;
    for (const CompiledKernelPtr& stage : stages)
      for (const RecipeSymbol& own : stage->image.recipe.symbols)
        if (own.name == dim.name) symbol.multiple = std::lcm(symbol.multiple, own.multiple);
    recipe.symbols.push_back(std::move(symbol));
  }
  return recipe;
}

}  // namespace

std::vector<runtime::NamedInteger> CompiledUnfused::dims() const {
  std::vector<runtime::NamedInteger> list;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) list.push_back({dim.name, *dim.value});
  return list;
}

std::vector<BetweenTensor> CompiledUnfused::between() const {
  std::vector<BetweenTensor> list;
  for (const lowering::Intermediate& made : unfused.intermediates) {
    BetweenTensor between;
    between.tensor.name = made.tensor.name;
    between.tensor.storage = made.tensor.type.storage();
    between.tensor.role = TensorRole::output;
    between.tensor.extents = extents_of(unfused.graph, made.tensor.shape);
    between.tensor.alignment = workspace_alignment;
    between.made_by = made.made_by;
    between.last_read_by = made.last_read_by;
    list.push_back(std::move(between));
  }
  return list;
}

Result<std::optional<CompiledUnfusedPtr>> compile_unfused(Engine& engine, const Program& program,
                                                          std::string_view kernel, const CompilerOptions& options,
                                                          Diagnostics& diagnostics, int threads) {
  const auto start = std::chrono::steady_clock::now();
  if (!options.schedule.empty())
    return user_error(fmt::format("the plan '{}' is of a fused kernel, and an unfused one has a plan for each stage",
                                  options.schedule));
  std::optional<PlannedUnfused> planned = plan_unfused(program, kernel, options, diagnostics);
  if (!planned) return {std::nullopt};
  engine.record(program, planned->graph, options, true);
  auto made = std::make_shared<CompiledUnfused>();
  for (Result<CompiledKernelPtr>& stage : engine.compile_all(std::move(planned->stages), threads)) {
    if (!stage) return stage.error();
    made->stages.push_back(*std::move(stage));
  }
  made->graph = std::move(planned->graph);
  made->unfused = std::move(planned->unfused);
  made->recipe = whole_recipe(made->unfused, made->stages);
  made->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {CompiledUnfusedPtr(std::move(made))};
}

Result<LaunchSequence> load_unfused(Engine& engine, const CompiledUnfusedPtr& compiled,
                                    const runtime::DevicePtr& device) {
  std::vector<LoadedKernel> stages;
  for (const CompiledKernelPtr& stage : compiled->stages) {
    Result<LoadedKernel> loaded = engine.load(stage, device);
    if (!loaded) return loaded.error();
    stages.push_back(*std::move(loaded));
  }
  return LaunchSequence(compiled->recipe, compiled->between(), std::move(stages), compiled->dims());
}

}  // namespace epifuse::jit
