// Which options belong to which type, and that no block of a grouped dimension meets two groups.
#include "compiler/semantics/tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "compiler/semantics/builtins.h"
#include "compiler/semantics/dimensions.h"
#include "compiler/semantics/shapes.h"
#include "compiler/semantics/type_options.h"

namespace epifuse::semantics {
namespace {

using ir::Extent;
using ir::Format;
using ir::FormatInfo;
using ir::ScaleRule;

bool is_nvfp4(Format format) { return format == Format::nvfp4 || format == Format::nvfp4_16x16; }

class TypeResolver {
 public:
  TypeResolver(KernelContext& context, const ast::Tensor& tree, ir::Tensor& tensor, Direction direction)
      : context_(context), tree_(tree), tensor_(tensor), type_(tensor.type), direction_(direction) {}

  bool run() {
    const std::optional<Format> format = ir::parse_format(tree_.type.text);
    if (!format) {
      error(tree_.type.where, fmt::format("there is no type '{}'", tree_.type.text),
            did_you_mean(tree_.type.text, type_names(), fmt::format("the types: {}", fmt::join(type_names(), ", "))));
      return false;
    }
    info_ = &ir::format_info(*format);
    type_.format = *format;
    type_.element = info_->element;
    std::set<std::string> seen;
    for (const ast::Option& option : tree_.options) {
      if (!seen.insert(option.name.text).second)
        error(option.name.where, fmt::format("the option '{}' stands twice", option.name.text));
      else
        this->option(option);
    }
    return sound_;
  }

  // What needs the shape.
  bool check_blocks() {
    if (!info_->scaled) return true;
    const int rank = static_cast<int>(tensor_.shape.size());
    const int first = tensor_.pointer_axes;  // blocks lie within one buffer
    const Span& where = tree_.where;
    if (rank - first < 1)
      error(where, fmt::format("'{}' has blocks along a dimension, and the shape has none", info_->name));
    if (!sound_) return false;
    const int along = type_.along_axis < 0 ? rank - 1 : type_.along_axis;
    const bool needs_two = info_->block_rows > 1 || type_.layout != ir::ScaleLayout::rows;
    if (needs_two && rank - first < 2) {
      error(where, info_->block_rows > 1
                       ? fmt::format("the blocks of '{}' span two dimensions, and the shape has one", info_->name)
                       : fmt::format("the layout '{}' arranges two dimensions, and the shape has one",
                                     ir::layout_name(type_.layout)));
      return false;
    }
    if (info_->element == Storage::e2m1) check_whole_bytes(tensor_.shape.back());
    check_aligned(along, info_->block_columns);
    if (info_->block_rows > 1) check_aligned(along == rank - 1 ? rank - 2 : rank - 1, info_->block_rows);
    return sound_;
  }

 private:
  void error(const Span& where, std::string message, std::string hint = "") {
    context_.report.error(where, std::move(message), std::move(hint));
    sound_ = false;
  }

  void option(const ast::Option& option) {
    const std::string& name = option.name.text;
    const std::vector<std::string> known = option_names();
    const auto found = std::find_if(type_options().begin(), type_options().end(),
                                    [&](const TypeOption& row) { return row.name == name; });
    if (found == type_options().end()) {
      return error(option.name.where, fmt::format("there is no option '{}'", name),
                   did_you_mean(name, known, fmt::format("the options: {}", fmt::join(known, ", "))));
    }
    if (!info_->scaled)
      return error(option.name.where, fmt::format("'{}' is a plain type, which has no options", info_->name),
                   "options belong to the scaled types");
    if (found->of_stores && direction_ == Direction::in)
      return error(option.name.where, fmt::format("'{}' says how to quantise, and an input is quantised already", name),
                   "it belongs to an out");
    if (name == "elem") element(option.value);
    if (name == "rule") rule(option.value);
    if (name == "layout") layout(option.value);
    if (name == "along") along(option.value);
    if (name == "nonfinite") nonfinite(option.value);
    if (name == "amax") {
      if (!is_nvfp4(info_->format))
        return error(option.name.where,
                     fmt::format("'amax' belongs to nvfp4, '{}' has one scale a block", info_->name));
      type_.amax_input = option.value.text;
    }
    if (name == "seed") type_.seed_input = option.value.text;
  }

  void one_of(const ast::Name& value, const std::vector<std::string>& words) {
    error(value.where, fmt::format("'{}' is not one of {}", value.text, fmt::join(words, ", ")),
          did_you_mean(value.text, words));
  }

  void element(const ast::Name& value) {
    if (info_->element == Storage::e2m1)
      return error(value.where, fmt::format("'{}' has 4-bit elements; 'elem' belongs to the 8-bit types", info_->name));
    const std::vector<std::string> words = option_words(info_->format, "elem");
    if (std::find(words.begin(), words.end(), value.text) == words.end()) return one_of(value, words);
    type_.element = *parse_storage(value.text);
  }

  void rule(const ast::Name& value) {
    const std::optional<ScaleRule> rule = ir::parse_rule(value.text);
    const std::vector<std::string> rules = option_words(info_->format, "rule");
    if (rule && std::find(rules.begin(), rules.end(), value.text) == rules.end())
      return error(value.where, fmt::format("the rule '{}' does not belong to '{}'", value.text, info_->name),
                   fmt::format("its rules: {}", fmt::join(rules, ", ")));
    if (!rule) return one_of(value, rules);
    type_.rule = *rule;
  }

  void layout(const ast::Name& value) {
    const std::optional<ir::ScaleLayout> layout = ir::parse_layout(value.text);
    const std::vector<std::string> layouts = option_words(info_->format, "layout");
    if (!layout) return one_of(value, layouts);
    if (std::find(layouts.begin(), layouts.end(), value.text) == layouts.end())
      return error(
          value.where,
          fmt::format("the layout '{}' is one of scales of one byte, '{}' has f32 scales", value.text, info_->name),
          fmt::format("its layouts: {}", fmt::join(layouts, ", ")));
    type_.layout = *layout;
  }

  void along(const ast::Name& value) {
    const Symbol* symbol = context_.find(value.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) {
      sound_ = false;
      return;
    }
    const int rank = static_cast<int>(tensor_.shape.size());
    for (int axis = tensor_.pointer_axes; axis < rank; ++axis) {
      const Extent& extent = tensor_.shape[axis];
      const bool is_it =
          symbol != nullptr && symbol->meaning == Meaning::dimension && extent == Extent{1, symbol->id, 1};
      if (!is_it) continue;
      if (axis < rank - 2)
        return error(value.where, fmt::format("blocks run along one of the last two dimensions, not '{}'", value.text));
      // One spelling for one thing: along the last dimension is the default.
      type_.along_axis = axis == rank - 1 ? -1 : axis;
      return;
    }
    error(value.where,
          fmt::format("'{}' is not a dimension of {}", value.text, context_.graph.shape_text(tensor_.shape)),
          "'along' names the dimension of the shape that the blocks run along");
  }

  void nonfinite(const ast::Name& value) {
    if (value.text == "propagate")
      type_.nonfinite = ir::NonFinite::propagate;
    else if (value.text == "te")
      type_.nonfinite = ir::NonFinite::te;
    else
      one_of(value, option_words(info_->format, "nonfinite"));
  }

  // Two 4-bit codes share a byte: rows are whole bytes, and no byte meets two groups.
  void check_whole_bytes(const Extent& last) {
    if (const std::optional<int64_t> size = context_.graph.fixed_value(last); size && *size % 2 != 0)
      return error(tree_.where, fmt::format("'{}' has two codes in a byte, and the last dimension, {} = {}, is odd",
                                            info_->name, context_.graph.extent_text(last), *size));
    if (grouped_dim(context_.graph, last) < 0) return;
    const ir::Dimension& dim = context_.graph.dims[last.dim];
    const std::optional<int64_t> apart = dim.slot ? context_.graph.fixed_value(*dim.slot) : dim.align;
    if (apart && *apart % 2 == 0) return;
    if (dim.slot && !apart && is_fixed(context_.graph, *dim.slot)) return;  // bound later
    error(tree_.where,
          fmt::format("'{}' has two codes in a byte, which may meet two groups of '{}'", info_->name, dim.name),
          "store over an aligned dimension, or with another dimension last");
  }

  // S7: no block may meet two groups.
  void check_aligned(int axis, int block) {
    const Extent& extent = tensor_.shape[axis];
    if (grouped_dim(context_.graph, extent) < 0) return;
    const ir::Dimension& dim = context_.graph.dims[extent.dim];
    if (dim.slot) {
      const std::optional<int64_t> rows = context_.graph.fixed_value(*dim.slot);
      if (is_fixed(context_.graph, *dim.slot) && (!rows || *rows % block == 0)) return;
      return error(tree_.where,
                   fmt::format("blocks of {} along '{}' may meet two groups: its slots of {} are not known to be "
                               "a multiple of {}",
                               block, dim.name, context_.graph.extent_text(*dim.slot), block));
    }
    if (dim.align % block == 0) return;
    error(tree_.where,
          fmt::format("blocks of {} along '{}' may meet two groups: its groups begin at multiples of {}", block,
                      dim.name, dim.align),
          fmt::format("store over an aligned dimension: group P = {} align {}",
                      context_.graph.dims[grouped_dim(context_.graph, extent)].name, std::max(block, 128)));
  }

  KernelContext& context_;
  const ast::Tensor& tree_;
  ir::Tensor& tensor_;
  ir::TensorType& type_;
  Direction direction_;
  const FormatInfo* info_ = nullptr;
  bool sound_ = true;
};

const ir::Input* find_input(const KernelContext& context, const std::string& name) {
  const Symbol* symbol = context.find(name);
  return symbol != nullptr && symbol->meaning == Meaning::input ? &context.graph.inputs[symbol->id] : nullptr;
}

}  // namespace

std::optional<ir::Tensor> resolve_tensor(KernelContext& context, const ast::Tensor& tree, Direction direction) {
  ir::Tensor tensor;
  tensor.where = tree.where;
  std::vector<const ast::Size*> sizes;
  for (const ast::Size& size : tree.pointers) sizes.push_back(&size);
  for (const ast::Size& size : tree.shape) sizes.push_back(&size);
  const std::optional<ir::Shape> shape = resolve_shape(context, sizes);
  if (!shape) {
    // The type's own mistakes are worth telling all the same, but for those of options that look at the shape.
    ast::Tensor type_only = tree;
    std::erase_if(type_only.options, [](const ast::Option& option) { return option.name.text == "along"; });
    TypeResolver(context, type_only, tensor, direction).run();
    return std::nullopt;
  }
  tensor.shape = *shape;
  tensor.pointer_axes = static_cast<int>(tree.pointers.size());
  for (int i = 0; i < tensor.pointer_axes; ++i) {
    if (grouped_dim(context.graph, tensor.shape[i]) < 0) continue;
    context.report.error(tree.pointers[i].where,
                         fmt::format("there is a buffer for each '{}', whose number only the device knows",
                                     context.graph.extent_text(tensor.shape[i])),
                         "the first brackets hold dims or dyns: bf16[E][N, K]");
    return std::nullopt;
  }
  TypeResolver type(context, tree, tensor, direction);
  if (!type.run() || !type.check_blocks()) return std::nullopt;
  return tensor;
}

void check_option_inputs(KernelContext& context, const ast::Tensor& tree, const ir::Tensor& tensor) {
  for (const ast::Option& option : tree.options) {
    const std::string& name = option.name.text;
    if (name != "amax" && name != "seed") continue;
    const Symbol* symbol = context.find(option.value.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) continue;
    const ir::Input* input = find_input(context, option.value.text);
    if (input == nullptr) {
      context.report.error(
          option.value.where, fmt::format("'{}' is not an input", option.value.text),
          name == "amax" ? "amax = A names an input: in A : f32" : "seed = S names an input: in S : i64[2]");
      continue;
    }
    const ir::Tensor& given = input->tensor;
    if (name == "seed") {
      if (given.type.format != Format::i64 || given.shape != ir::Shape{Extent{2, -1, 1}})
        context.report.error(option.value.where, fmt::format("the seed '{}' is not i64[2]", given.name));
      continue;
    }
    // Scalar, or over the dim that counts groups or matrices of the tensor.
    bool sound = given.type.format == Format::f32 && given.shape.size() <= 1;
    if (sound && given.shape.size() == 1) {
      const Extent& over = given.shape[0];
      bool found = false;
      const size_t rank = tensor.shape.size();
      for (size_t axis = 0; axis < rank; ++axis) {
        const ir::DimId grouped = grouped_dim(context.graph, tensor.shape[axis]);
        found = found || (axis + 2 < rank && tensor.shape[axis] == over) ||
                (grouped >= 0 && over == Extent{1, context.graph.dims[grouped].cut_by, 1});
      }
      sound = found;
    }
    if (!sound)
      context.report.error(
          option.value.where,
          fmt::format("the maximum '{}' is not an f32, scalar or over the groups of the tensor", given.name));
  }
}

}  // namespace epifuse::semantics
