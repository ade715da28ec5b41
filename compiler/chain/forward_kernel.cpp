#include "compiler/chain/forward_kernel.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/semantics/resolve.h"

namespace epifuse::chain {
namespace {

using ast::Expr;

// Every gemm that is written in the expression, the outer ones first.
void find_gemms(const Expr& expr, std::vector<const Expr*>& found) {
  if (expr.kind == Expr::Kind::call && expr.name.text == "gemm") found.push_back(&expr);
  for (const Expr& arg : expr.args) find_gemms(arg, found);
}

// A group or a dyn: what rows are, and weights have not.
bool is_launch_sized(const ir::Graph& graph, const ir::Extent& extent) {
  return extent.dim >= 0 && graph.dims[extent.dim].kind != ir::DimKind::fixed;
}

class Reader {
 public:
  Reader(ForwardKernel& kernel, Diagnostics& diagnostics) : kernel_(kernel), diagnostics_(diagnostics) {}

  bool run() {
    std::vector<const Expr*> gemms;
    for (const ast::Statement& statement : kernel_.tree->statements) {
      if (const auto* let = std::get_if<ast::Let>(&statement)) find_gemms(let->value, gemms);
      if (const auto* out = std::get_if<ast::Out>(&statement)) find_gemms(out->value, gemms);
    }
    const auto in_graph = std::count_if(kernel_.graph.nodes.begin(), kernel_.graph.nodes.end(),
                                        [](const ir::Node& node) { return node.op == ir::Op::gemm; });
    for (const Expr* gemm : gemms) {
      const ValueId value = kernel_.values.of(*gemm);
      const bool known = std::any_of(kernel_.products.begin(), kernel_.products.end(),
                                     [&](const Product& product) { return product.value == value; });
      if (!known && !add(*gemm, value)) return false;
    }
    const Span& where = kernel_.tree->name.where;
    if (in_graph == 0)
      return error(where, fmt::format("kernel '{}' has no gemm", kernel_.name()),
                   "a chain is made of kernels that multiply; of a kernel without gemm, grad writes the backward");
    if (static_cast<size_t>(in_graph) != kernel_.products.size())
      return error(where, fmt::format("a gemm of kernel '{}' stands in a function", kernel_.name()),
                   "write it in the kernel itself");
    if (kernel_.products.size() == 2 && kernel_.products[0].data != kernel_.products[1].data)
      return error(kernel_.products[1].call->where,
                   fmt::format("the gemms of '{}' read different inputs, '{}' and '{}'", kernel_.name(),
                               kernel_.products[0].data->name.text, kernel_.products[1].data->name.text),
                   "a kernel of a chain has one input that comes from the kernel before it");
    if (kernel_.products.size() == 2 && kernel_.products[0].index != kernel_.products[1].index)
      return error(kernel_.products[1].call->where,
                   fmt::format("the gemms of '{}' read different rows, '{}' and '{}'", kernel_.name(),
                               rows(kernel_.products[0]), rows(kernel_.products[1])),
                   "the gradient of the rows is one tensor: read them by one index");
    return true;
  }

 private:
  bool error(const Span& where, std::string message, std::string hint = "") {
    diagnostics_.error(where, std::move(message), std::move(hint));
    return false;
  }

  static std::string rows(const Product& product) {
    const std::string& name = product.data->name.text;
    return product.index.empty() ? name : fmt::format("{}[{}]", name, product.index);
  }

  struct Operand {
    const ast::In* input = nullptr;
    std::string index;
  };

  std::optional<Operand> operand(const Expr& expr) {
    if (expr.kind == Expr::Kind::name) {
      if (const ast::In* input = kernel_.input(expr.name.text)) return Operand{input, ""};
      const ast::Let* let = kernel_.values.definition(expr.name.text);
      if (let != nullptr && let->names.size() == 1) return operand(let->value);
    }
    if (expr.kind == Expr::Kind::index)
      if (const ast::In* input = kernel_.input(expr.name.text)) return Operand{input, expr.second.text};
    error(expr.where, "the gradients of this operand cannot be derived",
          "an operand of a chain's gemm is an input, whole or with an index");
    return std::nullopt;
  }

  // The gemm of the graph with these operands.
  const ir::Node* node(const Operand& a, const Operand& b) const {
    const auto is = [&](ir::NodeId id, const Operand& operand) {
      const ir::Node* at = &kernel_.graph.nodes[id];
      if ((at->op == ir::Op::gather) == operand.index.empty()) return false;
      if (at->op == ir::Op::gather) at = &kernel_.graph.nodes[at->args[0]];
      return at->op == ir::Op::input && kernel_.graph.inputs[at->index].tensor.name == operand.input->name.text;
    };
    for (const ir::Node& gemm : kernel_.graph.nodes)
      if (gemm.op == ir::Op::gemm && is(gemm.args[0], a) && is(gemm.args[1], b)) return &gemm;
    return nullptr;
  }

  bool add(const Expr& call, ValueId value) {
    std::optional<Operand> a = operand(call.args[0]), b = operand(call.args[1]);
    if (!a || !b) return false;
    const ir::Node* gemm = node(*a, *b);
    if (gemm == nullptr) return error(call.where, "the gradients of this gemm cannot be derived");
    const ir::Graph& graph = kernel_.graph;
    if (is_launch_sized(graph, gemm->along))
      return error(call.where,
                   fmt::format("'{}' contracts '{}', which gets its size at launch: it is a weight gradient, and no "
                               "layer",
                               kernel_.name(), graph.extent_text(gemm->along)));
    Product product;
    product.call = &call;
    product.value = value;
    product.shape = gemm->shape;
    product.data_shape = graph.nodes[gemm->args[0]].shape;
    product.weight_shape = graph.nodes[gemm->args[1]].shape;
    // Rows are what is sized at launch; where nothing tells them, the first operand has them.
    const auto has_rows_of_its_own = [&](const ir::Shape& shape, const ir::Shape& other) {
      return std::any_of(shape.begin(), shape.end(), [&](const ir::Extent& extent) {
        return is_launch_sized(graph, extent) && !graph.has_name(other, extent);
      });
    };
    if (has_rows_of_its_own(product.weight_shape, product.data_shape)) {
      std::swap(a, b);
      std::swap(product.data_shape, product.weight_shape);
    }
    if (!b->index.empty())
      return error(call.where, fmt::format("the weight '{}' has an index", b->input->name.text),
                   "the gradients of a weight that is gathered cannot be derived");
    product.data = a->input;
    product.index = a->index;
    product.weight = b->input;
    kernel_.products.push_back(std::move(product));
    return true;
  }

  ForwardKernel& kernel_;
  Diagnostics& diagnostics_;
};

}  // namespace

const ast::In* ForwardKernel::input(const std::string& name) const {
  for (const ast::Statement& statement : tree->statements)
    if (const auto* in = std::get_if<ast::In>(&statement); in != nullptr && in->name.text == name) return in;
  return nullptr;
}

const ast::Out* ForwardKernel::output(const std::string& name) const {
  for (const ast::Statement& statement : tree->statements)
    if (const auto* out = std::get_if<ast::Out>(&statement); out != nullptr && out->name.text == name) return out;
  return nullptr;
}

const ir::Output* ForwardKernel::graph_output(const std::string& name) const {
  for (const ir::Output& output : graph.outputs)
    if (output.tensor.name == name) return &output;
  return nullptr;
}

std::vector<const ast::In*> ForwardKernel::other_inputs() const {
  std::vector<const ast::In*> found;
  for (const ast::Statement& statement : tree->statements) {
    const auto* in = std::get_if<ast::In>(&statement);
    if (in == nullptr || !is_plain(in->tensor)) continue;
    const bool is_operand = std::any_of(products.begin(), products.end(), [&](const Product& product) {
      return product.data == in || product.weight == in;
    });
    if (!is_operand) found.push_back(in);
  }
  return found;
}

bool is_plain(const ast::Tensor& tensor) {
  return tensor.type.text == "f32" || tensor.type.text == "bf16" || tensor.type.text == "f16";
}

std::optional<ForwardKernel> read_forward_kernel(const Program& program, const std::string& name,
                                                 Diagnostics& diagnostics) {
  std::optional<ir::Graph> graph = resolve(program, name, {}, diagnostics);
  if (!graph) return std::nullopt;
  for (const ast::Kernel& tree : program.main().kernels) {
    if (tree.name.text != name) continue;
    ForwardKernel kernel{&tree, std::move(*graph), Values(tree), {}};
    if (!Reader(kernel, diagnostics).run()) return std::nullopt;
    return kernel;
  }
  return std::nullopt;
}

}  // namespace epifuse::chain
