#include "compiler/chain/link_chain.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace epifuse::chain {
namespace {

class Linker {
 public:
  Linker(std::vector<Link>& links, Names& names, Diagnostics& diagnostics)
      : links_(links), names_(names), diagnostics_(diagnostics) {}

  bool run() {
    if (!dims_agree()) return false;
    for (size_t i = 0; i < links_.size(); ++i) {
      if (!(i + 1 < links_.size() ? find_read_output(i) : find_result())) return false;
      Link& link = links_[i];
      link.y_shape = link.kernel.graph.nodes[link.kernel.graph_output(link.y->name.text)->value].shape;
      for (const Product& product : link.kernel.products) {
        if (link.kernel.values.depends(link.kernel.values.of(link.y->value), product.value)) continue;
        return error(link.y->name.where,
                     fmt::format("'{}' does not depend on every gemm of '{}'", link.y->name.text, link.kernel.name()));
      }
      if (!find_data(i)) return false;
      link.saved = find_saved_values(link.kernel, link.y->value);
      name_gradients(link, i + 1 == links_.size());
    }
    return true;
  }

 private:
  bool error(const Span& where, std::string message, std::string hint = "") {
    diagnostics_.error(where, std::move(message), std::move(hint));
    return false;
  }

  // A dimension of two kernels stands in kernels that derive from both.
  bool dims_agree() {
    std::map<std::string, std::string> known;
    bool agree = true;
    const auto same = [&](const ast::Name& name, std::string text) {
      const auto [old, is_new] = known.emplace(name.text, text);
      if (is_new || old->second == text) return;
      agree = error(name.where, fmt::format("'{}' is something else in another kernel of the chain", name.text),
                    fmt::format("there: {}", old->second));
    };
    for (const Link& link : links_)
      for (const ast::Statement& statement : link.kernel.tree->statements) {
        if (const auto* dim = std::get_if<ast::Dim>(&statement))
          for (const ast::Dim::Item& item : dim->items)
            same(item.name, (dim->dynamic ? "dyn " : "dim ") + item.name.text +
                                (item.value ? fmt::format(" = {}", *item.value) : ""));
        if (const auto* group = std::get_if<ast::Group>(&statement))
          same(group->name, declaration_text(statement).text);
        if (const auto* group = std::get_if<ast::Aligned>(&statement))
          same(group->name, declaration_text(statement).text);
      }
    return agree;
  }

  // A tensor without its options, as messages call it: "bf16[M, I]".
  static std::string stored_text(ast::Tensor tensor) {
    tensor.options.clear();
    return tensor_text(tensor).text;
  }

  // The values that a kernel stores, or stores as `stored_as`, each by its first such output; sums and maxima are not
  // among them.
  std::vector<const ast::Out*> stored_values(Link& link, const std::string& stored_as = "") {
    std::vector<const ast::Out*> found;
    std::set<ValueId> seen;
    for (const ast::Statement& statement : link.kernel.tree->statements) {
      const auto* out = std::get_if<ast::Out>(&statement);
      if (out == nullptr || out->value.kind == ast::Expr::Kind::member) continue;
      if (link.kernel.graph_output(out->name.text)->reduction != ir::Reduction::none) continue;
      if (!stored_as.empty() && stored_text(out->tensor) != stored_as) continue;
      if (seen.insert(link.kernel.values.of(out->value)).second) found.push_back(out);
    }
    return found;
  }

  bool find_read_output(size_t i) {
    Link& link = links_[i];
    const ForwardKernel& next = links_[i + 1].kernel;
    const Product& reader = next.products[0];
    if (!reader.index.empty())
      return error(reader.call->where,
                   fmt::format("'{}' reads rows of '{}' by an index", next.name(), reader.data->name.text),
                   "the gradient of the kernel before would be a scatter-add, which the language does not have");
    const std::string wanted = stored_text(reader.data->tensor);
    if (const ast::Out* named = link.kernel.output(reader.data->name.text)) {
      if (link.kernel.graph_output(named->name.text)->reduction == ir::Reduction::none &&
          stored_text(named->tensor) == wanted) {
        link.y = named;
        return true;
      }
      return error(reader.data->name.where,
                   fmt::format("'{}' is {} here, and '{}' stores it as {}", named->name.text, wanted,
                               link.kernel.name(), stored_text(named->tensor)),
                   "the kernels of a chain have one type for a tensor, and call a dimension by one name");
    }
    const std::vector<const ast::Out*> fitting = stored_values(link, wanted);
    if (fitting.size() == 1) {
      link.y = fitting[0];
      return true;
    }
    return error(
        reader.data->name.where,
        fmt::format("'{}' stores {} as {} that '{}' could read as '{}'", link.kernel.name(),
                    fitting.empty() ? "no value" : "several values", wanted, next.name(), reader.data->name.text),
        fitting.empty() ? "the kernels of a chain have one type for a tensor, and call a dimension by one name"
                        : "call the input as the output is called");
  }

  // Of the last kernel: the one value that no other stored value is made of.
  bool find_result() {
    Link& link = links_.back();
    Values& values = link.kernel.values;
    std::vector<const ast::Out*> results;
    const std::vector<const ast::Out*> stored = stored_values(link);
    for (const ast::Out* out : stored) {
      const ValueId value = values.of(out->value);
      if (std::none_of(stored.begin(), stored.end(), [&](const ast::Out* other) {
            return other != out && values.depends(values.of(other->value), value);
          }))
        results.push_back(out);
    }
    if (results.size() == 1) {
      link.y = results[0];
      return true;
    }
    std::vector<std::string> names;
    for (const ast::Out* out : results) names.push_back(out->name.text);
    if (results.empty())
      return error(link.kernel.tree->name.where, fmt::format("'{}' stores no value", link.kernel.name()));
    return error(results[1]->name.where,
                 fmt::format("'{}' has several results: {}", link.kernel.name(), fmt::join(names, ", ")),
                 "the gradients of one of them are derived at a time; leave out the others");
  }

  bool find_data(size_t i) {
    Link& link = links_[i];
    const ast::In& input = *link.kernel.products[0].data;
    link.data_name = input.name.text;
    link.data = input.tensor;
    if (is_plain(input.tensor)) return true;
    std::string hint = "the gradient needs these values as bf16, f16 or f32: multiply a plain tensor";
    if (i > 0) {
      Link& before = links_[i - 1];
      const ValueId y = before.kernel.values.of(before.y->value);
      for (const ast::Statement& statement : before.kernel.tree->statements) {
        const auto* out = std::get_if<ast::Out>(&statement);
        if (out == nullptr || !is_plain(out->tensor) || before.kernel.values.of(out->value) != y) continue;
        link.data_name = out->name.text;
        link.data = out->tensor;
        return true;
      }
      hint = fmt::format("store it plainly in '{}', too: out {} : {} = {}", before.kernel.name(),
                         names_.make(before.y->name.text + "_plain"),
                         tensor_text(plain_tensor("bf16", before.kernel.graph, before.y_shape)).text,
                         expression_text(before.y->value).text);
    }
    return error(input.tensor.where,
                 fmt::format("the weight gradient of '{}' contracts the rows of '{}', which is there as {} only",
                             link.kernel.name(), input.name.text, input.tensor.type.text),
                 hint);
  }

  void name_gradients(Link& link, bool is_last) {
    link.dy = names_.make("d" + link.y->name.text, link.kernel.name());
    const SavedValues& saved = link.saved;
    link.dp_is_dy = is_last && saved.none_needed && saved.values[0].linear.factor.is_one();
    for (size_t i = 0; i < link.kernel.products.size(); ++i) {
      const Product& product = link.kernel.products[i];
      const SavedValue& value = saved.values[i];
      const bool is_dy = saved.none_needed && value.linear.factor.is_one();
      const std::string wish = !value.named.empty() ? value.named : value.output.empty() ? "h" : value.output;
      link.dp.push_back(is_dy ? link.dy : names_.make("d" + wish, link.kernel.name()));
      // As wide as what is saved, or as what the kernel reads.
      const std::string type = saved.none_needed
                                   ? (is_plain(product.data->tensor) ? product.data->tensor.type.text : "bf16")
                                   : value.tensor.type.text;
      link.dp_tensors.push_back(plain_tensor(type, link.kernel.graph, product.shape));
    }
  }

  std::vector<Link>& links_;
  Names& names_;
  Diagnostics& diagnostics_;
};

void take_names(const Program& program, const std::vector<Link>& links, Names& names) {
  for (const Program::Unit& unit : program.units) {
    for (const ast::Function& function : unit.tree.functions) names.take(function.name.text);
    for (const ast::Const& constant : unit.tree.constants) names.take(constant.name.text);
  }
  for (const Link& link : links) {
    const ir::Graph& graph = link.kernel.graph;
    for (const ir::Dimension& dim : graph.dims) names.take(dim.name);
    for (const ir::Param& param : graph.params) names.take(param.name);
    for (const ir::Input& input : graph.inputs) names.take(input.tensor.name);
    for (const ir::Output& output : graph.outputs) names.take(output.tensor.name);
    for (const ast::Statement& statement : link.kernel.tree->statements) {
      if (const auto* let = std::get_if<ast::Let>(&statement))
        for (const ast::Name& name : let->names) names.take(name.text);
      if (const auto* constant = std::get_if<ast::Const>(&statement)) names.take(constant->name.text);
    }
  }
}

}  // namespace

std::string Link::saved_names() const {
  std::string names;
  for (const SavedValue& value : saved.values) names += (names.empty() ? "" : ", ") + value.output;
  return names;
}

std::optional<std::vector<Link>> link_chain(const Program& program, const std::vector<std::string>& kernels,
                                            Names& names, Diagnostics& diagnostics) {
  std::vector<Link> links;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (std::find(kernels.begin(), kernels.begin() + static_cast<std::ptrdiff_t>(i), kernels[i]) !=
        kernels.begin() + static_cast<std::ptrdiff_t>(i)) {
      diagnostics.error({program.main().source, 0, 0}, fmt::format("'{}' stands twice in the chain", kernels[i]));
      return std::nullopt;
    }
    std::optional<ForwardKernel> kernel = read_forward_kernel(program, kernels[i], diagnostics);
    if (!kernel) return std::nullopt;
    links.push_back({std::move(*kernel), nullptr, {}, {}, {}, {}, {}, {}, {}, false});
  }
  take_names(program, links, names);
  if (!Linker(links, names, diagnostics).run()) return std::nullopt;
  return links;
}

}  // namespace epifuse::chain
