// An out is checked on its own, then with all others: names, and the one GEMM loop.
#include "compiler/semantics/stores.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "compiler/semantics/shapes.h"
#include "compiler/semantics/tensors.h"
#include "compiler/semantics/values.h"

namespace epifuse::semantics {
namespace {

using ast::Expr;
using ir::DimKind;
using ir::Extent;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Reduction;
using ir::Shape;

class StoreResolver {
 public:
  StoreResolver(KernelContext& context, const ast::Out& out) : context_(context), graph_(context.graph), out_(out) {}

  void run() {
    const Expr* stored = &out_.value;
    const bool is_call = stored->kind == Expr::Kind::call;
    if (is_call && stored->name.text == "sum") output_.reduction = Reduction::sum;
    if (is_call && stored->name.text == "amax") output_.reduction = Reduction::amax;
    if (output_.reduction != Reduction::none && stored->args.size() == 1) stored = &stored->args[0];
    context_.output_names.push_back({out_.name, stored->kind == Expr::Kind::name ? stored->name.text : ""});

    const std::optional<ir::Tensor> tensor = resolve_tensor(context_, out_.tensor, Direction::out);
    if (tensor) check_option_inputs(context_, out_.tensor, *tensor);
    if (stored->kind == Expr::Kind::member && output_.reduction == Reduction::none) {
      output_.value = group_ends(*stored, tensor);
    } else {
      output_.value = resolve_value(context_, *stored);
      if (tensor && output_.value != unknown_value) value_fits(*stored, *tensor);
    }
    if (tensor && out_.accumulate) check_accumulation(*tensor);
    if (!tensor || output_.value == unknown_value || !sound_) return;
    output_.tensor = *tensor;
    output_.tensor.name = out_.name.text;
    output_.tensor.where = out_.name.where;
    output_.accumulate = out_.accumulate;
    output_.left_out = context_.options.left_out.count(out_.name.text) != 0;
    graph_.outputs.push_back(std::move(output_));
  }

 private:
  void error(const Span& where, std::string message, std::string hint = "") {
    context_.report.error(where, std::move(message), std::move(hint));
    sound_ = false;
  }

  // out ends : i32[E] = P.ends
  NodeId group_ends(const Expr& member, const std::optional<ir::Tensor>& tensor) {
    const Symbol* symbol = context_.find(member.name.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) return unknown_value;
    const bool is_dim = symbol != nullptr && symbol->meaning == Meaning::dimension;
    if (!is_dim || member.second.text != "ends" || graph_.dims[symbol->id].kind != DimKind::aligned) {
      const bool bound = is_dim && graph_.dims[symbol->id].kind == DimKind::grouped;
      error(member.where, fmt::format("'{}' is nothing to store", member.where.text()),
            bound ? fmt::format("the sizes of '{}' are the caller's; an aligned dimension's ends are computed",
                                member.name.text)
                  : "what has ends is an aligned dimension: group P = M align 128, then P.ends");
      return unknown_value;
    }
    Node node;
    node.op = Op::group_ends;
    node.dim = symbol->id;
    node.shape = {Extent{1, graph_.dims[graph_.dims[symbol->id].base].cut_by, 1}};
    node.where = member.where;
    if (tensor && (tensor->type.format != ir::Format::i32 || !graph_.same_names(tensor->shape, node.shape)))
      error(out_.tensor.where, fmt::format("the ends are stored as i32{}", graph_.shape_text(node.shape)));
    return context_.add(std::move(node));
  }

  void value_fits(const Expr& stored, const ir::Tensor& tensor) {
    const Storage storage = tensor.type.storage();
    if (storage == Storage::i32 || storage == Storage::i64)
      error(out_.tensor.type.where, fmt::format("a value is not stored as '{}'", storage_name(storage)),
            "integers are what x[i] reads, and the ends of an aligned dimension");
    const Shape& value = context_.node(output_.value).shape;
    if (output_.reduction == Reduction::none)
      keeps_all(stored, value, tensor);
    else
      keeps_some(value, tensor);
  }

  void keeps_all(const Expr& stored, const Shape& value, const ir::Tensor& tensor) {
    if (graph_.same_names(value, tensor.shape)) return;
    const bool lacks_names = std::any_of(value.begin(), value.end(),
                                         [&](const Extent& extent) { return !graph_.has_name(tensor.shape, extent); });
    const std::string brought = brought_by_operands(tensor.shape);
    error(out_.tensor.where,
          fmt::format("the output is {}, and the value stored is {}", graph_.shape_text(tensor.shape),
                      graph_.shape_text(value)),
          !brought.empty() ? brought
          : lacks_names
              ? fmt::format("an output lists the value's dimensions, or reduces: = sum({})", stored.where.text())
              : "an output lists the value's dimensions and no others");
  }

  // "'b' brings I/2": the operands, of those that are combined by name, whose dimensions the output does not have.
  // Empty when all of them do so: then it is the output that is short.
  std::string brought_by_operands(const Shape& kept) const {
    std::vector<NodeId> walk = {output_.value};
    std::set<NodeId> seen;
    std::vector<std::string> brings;
    size_t operands = 0;
    while (!walk.empty()) {
      const NodeId id = walk.back();
      walk.pop_back();
      const Node& node = context_.node(id);
      if (node.shape.empty() || !seen.insert(id).second) continue;
      if (ir::op_info(node.op).kind == ir::OpKind::map) {
        walk.insert(walk.end(), node.args.rbegin(), node.args.rend());
        continue;
      }
      ++operands;
      std::string names;
      for (const Extent& extent : node.shape)
        if (!stands_for(kept, extent)) names += (names.empty() ? "" : ", ") + graph_.extent_text(extent);
      if (!names.empty()) brings.push_back(fmt::format("'{}' brings {}", node.where.text(), names));
    }
    if (brings.size() == operands) return "";
    return fmt::format("{}", fmt::join(brings, "; "));
  }

  // Whether a value over the extent can lie over the shape: by name, or as the E of an M.
  bool stands_for(const Shape& shape, const Extent& extent) const {
    return graph_.has_name(shape, extent) || std::any_of(shape.begin(), shape.end(), [&](const Extent& kept) {
             const ir::DimId grouped = grouped_dim(graph_, kept);
             return grouped >= 0 && extent == Extent{1, graph_.dims[grouped].cut_by, 1};
           });
  }

  void keeps_some(const Shape& value, const ir::Tensor& tensor) {
    bool reduces = false;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      const Extent& kept = tensor.shape[i];
      if (graph_.has_name(value, kept)) continue;
      // E in place of the M that it cuts: a result for each group.
      const bool per_group = std::any_of(value.begin(), value.end(), [&](const Extent& extent) {
        const ir::DimId grouped = grouped_dim(graph_, extent);
        return grouped >= 0 && kept == Extent{1, graph_.dims[grouped].cut_by, 1};
      });
      if (!per_group)
        error(out_.tensor.where, fmt::format("the value that is reduced is {}, without '{}'", graph_.shape_text(value),
                                             graph_.extent_text(kept)));
    }
    for (const Extent& extent : value) reduces = reduces || !graph_.has_name(tensor.shape, extent);
    if (reduces || !sound_) return;
    // Nothing to reduce over: the sum of one element is itself, its amax the magnitude.
    if (output_.reduction == Reduction::amax)
      output_.value = map_node(context_, Op::abs, {output_.value}, out_.value.where);
    output_.reduction = Reduction::none;
  }

  void check_accumulation(const ir::Tensor& tensor) {
    const ir::Format format = tensor.type.format;
    if (format != ir::Format::f32 && format != ir::Format::bf16 && format != ir::Format::f16)
      error(out_.assign_where, fmt::format("'+=' adds to f32, bf16 and f16, not to '{}'", out_.tensor.type.text));
    if (out_.value.kind == Expr::Kind::call && out_.value.name.text == "amax")
      error(out_.assign_where, "'+=' adds plain values and sums, not an amax");
  }

  KernelContext& context_;
  ir::Graph& graph_;
  const ast::Out& out_;
  ir::Output output_;
  bool sound_ = true;
};

void check_output_names(KernelContext& context) {
  std::map<std::string, Span> seen;
  for (const KernelContext::OutputName& output : context.output_names) {
    const ast::Name& name = output.name;
    if (const auto [known, is_new] = seen.emplace(name.text, name.where); !is_new) {
      context.report.error(name.where,
                           fmt::format("'{}' is an output already (line {})", name.text, known->second.begin().line));
      continue;
    }
    const Symbol* symbol = context.find(name.text);
    if (symbol != nullptr && symbol->meaning == Meaning::unknown) continue;
    if (symbol != nullptr && symbol->meaning == Meaning::value) {
      if (output.stored == name.text) continue;
      context.report.error(name.where,
                           fmt::format("'{}' is a value (line {}), and this output stores another one", name.text,
                                       symbol->where.begin().line),
                           "an output may bear the name of the value it stores, no other");
      continue;
    }
    // Names of anything else are taken, as they are for values.
    if (symbol != nullptr && symbol->meaning == Meaning::input)
      context.report.error(name.where,
                           fmt::format("'{}' is an input already (line {})", name.text, symbol->where.begin().line),
                           "buffers are bound by name");
    else
      context.define(name, {});
  }
}

// V3. The names of a GEMM's result, their halves and doubles.
bool lies_over(const ir::Graph& graph, const Shape& gemm, const Extent& extent) {
  return std::any_of(gemm.begin(), gemm.end(), [&](const Extent& name) {
    if (graph.same_name(name, extent) || half(name) == extent || twice(name) == extent) return true;
    const ir::DimId grouped = grouped_dim(graph, name);
    return grouped >= 0 && extent == Extent{1, graph.dims[grouped].cut_by, 1};
  });
}

void check_gemm_loop(KernelContext& context) {
  const ir::Graph& graph = context.graph;
  std::vector<const Node*> gemms;
  for (const Node& node : graph.nodes)
    if (node.op == Op::gemm) gemms.push_back(&node);
  if (gemms.empty()) return;
  if (gemms.size() > 2)
    return context.report.error(gemms[2]->where,
                                "a kernel has one GEMM loop: one gemm, or two over the same dimensions",
                                "the others belong to kernels of their own");
  if (gemms.size() == 2 && !graph.same_names(gemms[0]->shape, gemms[1]->shape))
    return context.report.error(gemms[1]->where,
                                fmt::format("the two gemms of a kernel have the same dimensions, not {} and {}",
                                            graph.shape_text(gemms[0]->shape), graph.shape_text(gemms[1]->shape)));
  for (const ir::Output& output : graph.outputs) {
    const Node& value = graph.nodes[output.value];
    if (value.op == Op::group_ends) continue;
    for (const Extent& extent : value.shape) {
      if (lies_over(graph, gemms[0]->shape, extent)) continue;
      context.report.error(
          output.tensor.where,
          fmt::format("the value stored is {}, and '{}' is not among the gemm's dimensions {}",
                      graph.shape_text(value.shape), graph.extent_text(extent), graph.shape_text(gemms[0]->shape)),
          "store it from a kernel of its own");
      break;
    }
  }
}

void check_left_out(KernelContext& context, const ast::Kernel& kernel) {
  const ir::Graph& graph = context.graph;
  for (const std::string& name : context.options.left_out) {
    const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                    [&](const ir::Input& i) { return i.tensor.name == name; });
    const bool is_output = std::any_of(context.output_names.begin(), context.output_names.end(),
                                       [&](const KernelContext::OutputName& o) { return o.name.text == name; });
    if (is_output || (input != graph.inputs.end() && input->default_value)) continue;
    if (input != graph.inputs.end())
      context.report.error(input->tensor.where,
                           fmt::format("the input '{}' has no default and cannot be left out", name));
    else if (const Symbol* symbol = context.find(name); symbol == nullptr || symbol->meaning != Meaning::unknown)
      context.report.error(kernel.name.where,
                           fmt::format("kernel '{}' has no input or output '{}' to leave out", kernel.name.text, name));
  }
}

}  // namespace

void resolve_output(KernelContext& context, const ast::Out& out) { StoreResolver(context, out).run(); }

namespace {

// A size that is given at launch is read off a buffer: rows of slots may stand for it. Said where nothing else is
// wrong: a tensor with a mistake may have it.
void check_dyns(KernelContext& context) {
  if (context.report.has_errors()) return;
  const ir::Graph& graph = context.graph;
  std::vector<bool> known(graph.dims.size());
  const auto note = [&](const ir::Shape& shape) {
    for (const Extent& extent : shape)
      if (extent.dim >= 0) known[extent.dim] = true;
  };
  for (const ir::Input& input : graph.inputs) note(input.tensor.shape);
  for (const ir::Output& output : graph.outputs) note(output.tensor.shape);
  for (const ir::Dimension& dim : graph.dims)
    if (dim.slot) note({*dim.slot});
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].kind == ir::DimKind::dynamic && !known[i])
      context.report.error(graph.dims[i].where, fmt::format("no buffer has the dyn '{}'", graph.dims[i].name),
                           "its size is read off the buffers at launch: leave it out, or give it a number with dim");
}

}  // namespace

void check_kernel(KernelContext& context, const ast::Kernel& kernel) {
  check_output_names(context);
  check_gemm_loop(context);
  check_left_out(context, kernel);
  const auto& outputs = context.graph.outputs;
  if (context.output_names.empty() && !context.report.has_errors())
    context.report.error(kernel.name.where,
                         fmt::format("kernel '{}' has no out, so it computes nothing", kernel.name.text));
  else if (!outputs.empty() &&
           std::all_of(outputs.begin(), outputs.end(), [](const ir::Output& o) { return o.left_out; }))
    context.report.error(kernel.name.where, fmt::format("every output of kernel '{}' is left out", kernel.name.text));
  check_dyns(context);
}

}  // namespace epifuse::semantics
