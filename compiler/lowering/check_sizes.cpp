// A recipe's expressions, with the smallest numbers that a launch may have for what the dims leave open.
#include "compiler/lowering/check_sizes.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

#include "compiler/ir/buffers.h"

namespace epifuse::lowering {
namespace {

const ir::Dimension* find_fixed(const ir::Graph& graph, std::string_view name) {
  const auto found = std::find_if(graph.dims.begin(), graph.dims.end(), [&](const ir::Dimension& dim) {
    return dim.name == name && dim.kind == ir::DimKind::fixed && dim.value;
  });
  return found == graph.dims.end() ? nullptr : &*found;
}

class Checker {
 public:
  Checker(const ir::Graph& graph, const LaunchRecipe& recipe) : graph_(graph), recipe_(recipe) {}

  struct Fault {
    std::string what;
    const ir::Dimension* dim = nullptr;  // the one to make smaller
  };

  std::optional<Fault> run() {
    for (const RecipeStep& step : recipe_.steps)
      for (const ParameterField& field : step.fields)
        if (field.kind == FieldKind::integer32 || field.kind == FieldKind::integer64)
          check("a number that launches pass", field.value,
                field.kind == FieldKind::integer32 ? most_integer32 : most_integer64);
    for (const TensorMapRecipe& map : recipe_.maps) {
      for (const IntExpr& extent : map.extents) check("an extent of " + map.tensor, extent, most_map_extent);
      for (const IntExpr& stride : map.strides) check("a stride of " + map.tensor, stride, most_map_stride);
      if (const RecipeTensor* tensor = recipe_.find_tensor(map.tensor)) check_rows(*tensor);
    }
    check("the workspace", recipe_.workspace_bytes, most_integer64);
    return fault_;
  }

 private:
  // A copy says which row it begins with, counted over everything that one map reaches.
  void check_rows(const RecipeTensor& tensor) {
    IntExpr rows = 1;
    for (size_t axis = static_cast<size_t>(tensor.pointer_axes); axis + 1 < tensor.extents.size(); ++axis)
      rows = rows * tensor.extents[axis];
    check("the rows of " + tensor.name, rows, most_integer32);
  }

  void check(const std::string& what, const IntExpr& value, int64_t most) {
    if (fault_) return;
    const Result<int64_t> least = value.evaluate([&](std::string_view name) { return smallest(name); });
    // With numbers that a launch has not, divisions may leave a remainder. What overflows for the dims alone has
    // groups, rows or columns that do.
    if (!least || *least <= most) return;
    fault_ = {fmt::format("{} ({}) would be {}, and can be {} at most", what, value.formula(), *least, most),
              largest_in(value)};
  }

  std::optional<int64_t> smallest(std::string_view name) const {
    if (const ir::Dimension* dim = find_fixed(graph_, name)) return dim->value;
    const std::optional<IntExpr> stride = contiguous_stride(name);
    if (!stride) return 1;
    const Result<int64_t> value = stride->evaluate([&](std::string_view inner) { return smallest(inner); });
    return value ? std::optional(*value) : std::nullopt;
  }

  // "NAME.strideI" of a tensor without gaps.
  std::optional<IntExpr> contiguous_stride(std::string_view name) const {
    const size_t dot = name.rfind(".stride");
    if (dot == std::string_view::npos) return std::nullopt;
    const RecipeTensor* tensor = recipe_.find_tensor(name.substr(0, dot));
    if (!tensor) return std::nullopt;
    IntExpr stride = 1;
    for (size_t axis = tensor->extents.size(); axis-- > 1 && name != fmt::format("{}.stride{}", tensor->name, axis);)
      stride = stride * tensor->extents[axis];
    return stride;
  }

  const ir::Dimension* largest_in(const IntExpr& value) const {
    std::set<std::string> names;
    value.collect_symbols(names);
    for (const std::string& name : std::set<std::string>(names))
      if (const std::optional<IntExpr> stride = contiguous_stride(name)) stride->collect_symbols(names);
    const ir::Dimension* largest = nullptr;
    for (const std::string& name : names) {
      const ir::Dimension* dim = find_fixed(graph_, name);
      if (dim && (!largest || *dim->value > *largest->value)) largest = dim;
    }
    return largest;
  }

  const ir::Graph& graph_;
  const LaunchRecipe& recipe_;
  std::optional<Fault> fault_;
};

// Of rows in slots, as far as their numbers are dims'.
std::string fault_of_slots(const ir::Graph& graph, const ir::Dimension& dim) {
  const auto number = [&](ir::DimId id) { return id < 0 ? 1 : graph.dims[static_cast<size_t>(id)].value; };
  const std::optional<int64_t> groups = dim.slot ? number(dim.cut_by) : std::nullopt;
  const std::optional<int64_t> unit = dim.slot ? number(dim.slot->dim) : std::nullopt;
  return groups && unit ? ir::slots_fault(graph, dim, *groups, *unit) : "";
}

}  // namespace

bool check_dims(const ir::Graph& graph, Diagnostics& diagnostics) {
  bool sound = true;
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.kind != ir::DimKind::fixed || dim.value.value_or(0) <= most_integer32) continue;
    diagnostics.too_large(dim.where, fmt::format("the dimension '{}' is {}, and can be {} at most", dim.name,
                                                 *dim.value, most_integer32));
    sound = false;
  }
  for (const ir::Dimension& dim : graph.dims) {
    const std::string fault = sound ? fault_of_slots(graph, dim) : "";
    if (fault.empty()) continue;
    diagnostics.too_large(dim.where, fault);
    sound = false;
  }
  return sound;
}

void keep_what_counts(const ir::Graph& graph, std::vector<KernelPlan>& plans, Diagnostics& diagnostics) {
  std::optional<Checker::Fault> first;
  const size_t planned = std::erase_if(plans, [&](const KernelPlan& plan) {
    std::optional<Checker::Fault> fault = Checker(graph, plan.recipe).run();
    if (fault && !first) first = fault;
    return fault.has_value();
  });
  if (planned == 0 || !plans.empty()) return;
  diagnostics.too_large(first->dim ? first->dim->where : Span{},
                        fmt::format("kernel '{}' is too large for a launch: {}", graph.name, first->what),
                        first->dim ? fmt::format("'{}' is {}", first->dim->name, *first->dim->value) : "");
}

}  // namespace epifuse::lowering
