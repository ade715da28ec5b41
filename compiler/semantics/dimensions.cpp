// Dimensions come first: every other statement may name one, also above its line.
#include "compiler/semantics/dimensions.h"

#include <fmt/format.h>
#include <numeric>

#include "compiler/semantics/shapes.h"

namespace epifuse::semantics {
namespace {

using ir::Dimension;
using ir::DimId;
using ir::DimKind;
using ir::Extent;

std::string_view kind_text(DimKind kind) {
  switch (kind) {
    case DimKind::fixed: return "a dim";
    case DimKind::dynamic: return "a dyn";
    case DimKind::grouped: return "a group";
    case DimKind::aligned: return "an aligned group";
  }
  return "";
}

class DimensionDefiner {
 public:
  explicit DimensionDefiner(KernelContext& context) : context_(context) {}

  void run(const ast::Kernel& kernel) {
    // Groups are cut by dims, and aligned groups are made of groups: each kind after what it needs.
    for (const ast::Statement& statement : kernel.statements)
      if (const auto* dim = std::get_if<ast::Dim>(&statement)) dims(*dim);
    check_given_dims(kernel);
    for (const ast::Statement& statement : kernel.statements)
      if (const auto* group = std::get_if<ast::Group>(&statement)) this->group(*group);
    for (const ast::Statement& statement : kernel.statements)
      if (const auto* aligned = std::get_if<ast::Aligned>(&statement)) this->aligned(*aligned);
  }

 private:
  void dims(const ast::Dim& dims) {
    for (const ast::Dim::Item& item : dims.items) {
      Dimension dim;
      dim.kind = dims.dynamic ? DimKind::dynamic : DimKind::fixed;
      dim.value = item.value;
      const auto given = context_.options.dims.find(item.name.text);
      if (!dims.dynamic && given != context_.options.dims.end()) dim.value = given->second;
      if (!dims.dynamic && !dim.value && context_.options.require_bound)
        context_.report.error(item.name.where, fmt::format("the dimension '{}' has no number", item.name.text),
                              fmt::format("give it one: --dims {}=..., or a default in the spec", item.name.text));
      add(item.name, std::move(dim));
    }
  }

  void check_given_dims(const ast::Kernel& kernel) {
    for (const auto& [name, value] : context_.options.dims) {
      const Symbol* symbol = context_.find(name);
      const bool is_dim = symbol != nullptr && symbol->meaning == Meaning::dimension &&
                          context_.graph.dims[symbol->id].kind == DimKind::fixed;
      if (is_dim && value < 1)
        context_.report.error(kernel.name.where,
                              fmt::format("the dimension '{}' is set to {}, it is at least 1", name, value));
      if (is_dim) continue;
      std::vector<std::string> names;
      for (const Dimension& dim : context_.graph.dims)
        if (dim.kind == DimKind::fixed) names.push_back(dim.name);
      context_.report.error(kernel.name.where,
                            fmt::format("kernel '{}' has no dim '{}' to set", kernel.name.text, name),
                            did_you_mean(name, names, fmt::format("its dims: {}", fmt::join(names, ", "))));
    }
  }

  void group(const ast::Group& group) {
    Dimension dim;
    dim.kind = DimKind::grouped;
    dim.align = group.align.value_or(1);
    if (group.sizes && group.sizes->text == "counts") dim.sizes = ir::GroupSizes::counts;
    if (group.storage && group.storage->text == "i64") dim.sizes_storage = Storage::i64;
    const std::optional<DimId> by = dimension(group.by, DimKind::fixed, "groups are counted by");
    bool sound = by.has_value();
    if (by) dim.cut_by = *by;
    if (group.slot) {
      dim.slot = resolve_size(context_, *group.slot);
      if (dim.slot && grouped_dim(context_.graph, *dim.slot) >= 0) {
        context_.report.error(group.slot->where, "a slot has as many rows in every group: a number, a dim or a dyn");
        dim.slot.reset();
      }
      sound = sound && dim.slot.has_value();
    }
    if (sound)
      add(group.name, std::move(dim));
    else
      context_.define(group.name, {});
  }

  void aligned(const ast::Aligned& aligned) {
    Dimension dim;
    dim.kind = DimKind::aligned;
    dim.align = aligned.align;
    const std::optional<DimId> base = dimension(aligned.base, DimKind::grouped, "only tokens in groups are aligned:");
    if (base) {
      dim.base = *base;
      add(aligned.name, std::move(dim));
    } else {
      context_.define(aligned.name, {});
    }
  }

  std::optional<DimId> dimension(const ast::Name& name, DimKind kind, std::string_view rule) {
    const Symbol* symbol = context_.find(name.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) return std::nullopt;
    if (symbol != nullptr && symbol->meaning == Meaning::dimension) {
      const DimKind found = context_.graph.dims[symbol->id].kind;
      if (found == kind) return symbol->id;
      context_.report.error(name.where,
                            fmt::format("{} {}, and '{}' is {}", rule, kind_text(kind), name.text, kind_text(found)));
      return std::nullopt;
    }
    std::vector<std::string> names;
    for (const Dimension& dim : context_.graph.dims)
      if (dim.kind == kind) names.push_back(dim.name);
    context_.report.error(name.where, fmt::format("'{}' is not {}", name.text, kind_text(kind)),
                          did_you_mean(name.text, names));
    return std::nullopt;
  }

  void add(const ast::Name& name, Dimension dim) {
    dim.name = name.text;
    dim.where = name.where;
    if (!context_.define(name, {Meaning::dimension, static_cast<int>(context_.graph.dims.size())})) return;
    context_.graph.dims.push_back(std::move(dim));
  }

  KernelContext& context_;
};

void report_unknown_dimension(KernelContext& context, const ast::Name& name) {
  const Symbol* symbol = context.find(name.text);
  if (symbol != nullptr && symbol->meaning == Meaning::unknown) return;
  std::vector<std::string> names;
  for (const Dimension& dim : context.graph.dims) names.push_back(dim.name);
  context.report.error(
      name.where, fmt::format("'{}' is not a dimension", name.text),
      symbol != nullptr
          ? "a size is a dimension, perhaps times or divided by a number"
          : did_you_mean(
                name.text, names,
                fmt::format("define it: dim {0} or dyn {0}, or for rows in groups: group {0} by E", name.text)));
}

}  // namespace

void define_dimensions(KernelContext& context, const ast::Kernel& kernel) { DimensionDefiner(context).run(kernel); }

std::optional<Extent> resolve_size(KernelContext& context, const ast::Size& size) {
  Extent extent{size.times, -1, 1};
  if (!size.name) return extent;
  const Symbol* symbol = context.find(size.name->text);
  if (symbol == nullptr || symbol->meaning != Meaning::dimension) {
    report_unknown_dimension(context, *size.name);
    return std::nullopt;
  }
  const int64_t common = std::gcd(size.times, size.over);
  extent = {size.times / common, symbol->id, size.over / common};
  const Dimension& dim = context.graph.dims[symbol->id];
  const bool in_groups = dim.kind == DimKind::grouped || dim.kind == DimKind::aligned;
  if (in_groups && (extent.times != 1 || extent.over != 1)) {
    context.report.error(size.where,
                         fmt::format("'{}' is cut into groups of any size and stands alone in a size", dim.name));
    return std::nullopt;
  }
  if (dim.kind == DimKind::fixed && dim.value) {
    int64_t product = 0;
    if (__builtin_mul_overflow(extent.times, *dim.value, &product)) {
      context.report.error(size.where,
                           fmt::format("{} does not fit 64 bits: {} = {}", size.where.text(), dim.name, *dim.value));
      return std::nullopt;
    }
    if (product % extent.over != 0) {
      context.report.error(size.where, fmt::format("{} is not whole: {} = {}", size.where.text(), dim.name, *dim.value),
                           "size arithmetic is exact");
      return std::nullopt;
    }
  }
  return extent;
}

std::optional<ir::Shape> resolve_shape(KernelContext& context, const std::vector<const ast::Size*>& sizes) {
  ir::Shape shape;
  bool sound = true;
  for (const ast::Size* size : sizes) {
    const std::optional<Extent> extent = resolve_size(context, *size);
    if (!extent) {
      sound = false;
      continue;
    }
    if (context.graph.has_name(shape, *extent)) {
      const bool is_number = extent->dim < 0;
      const bool aligned = !is_number && context.graph.dims[extent->dim].kind == DimKind::aligned;
      context.report.error(size->where,
                           fmt::format("'{}' stands twice in the shape", context.graph.extent_text(*extent)),
                           aligned ? fmt::format("{} are the same tokens as {}", size->where.text(),
                                                 context.graph.extent_text(context.graph.base_name(*extent)))
                                   : "rules go by names: a second dimension needs a name of its own");
      sound = false;
    }
    shape.push_back(*extent);
  }
  for (size_t i = 0; sound && i < shape.size(); ++i) {
    const DimId grouped = grouped_dim(context.graph, shape[i]);
    if (grouped < 0) continue;
    const Extent count{1, context.graph.dims[grouped].cut_by, 1};
    for (size_t j = 0; j < shape.size(); ++j) {
      if (!(shape[j] == count)) continue;
      context.report.error(sizes[j]->where,
                           fmt::format("'{}' counts the groups of '{}', both in one shape have no meaning",
                                       context.graph.extent_text(count), context.graph.extent_text(shape[i])));
      sound = false;
    }
  }
  if (!sound) return std::nullopt;
  return shape;
}

}  // namespace epifuse::semantics
