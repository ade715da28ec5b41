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
      if (!find_data(i) || !reads_have_one_way(i)) return false;
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

  // The values that a kernel stores, or stores as `stored_as`, each by its first such output, but a quantised one only
  // where there is no plain one; sums and maxima are not among them.
  std::vector<const ast::Out*> stored_values(Link& link, const std::string& stored_as = "") {
    std::vector<const ast::Out*> found;
    std::map<ValueId, size_t> places;
    for (const ast::Statement& statement : link.kernel.tree->statements) {
      const auto* out = std::get_if<ast::Out>(&statement);
      if (out == nullptr || out->value.kind == ast::Expr::Kind::member) continue;
      if (link.kernel.graph_output(out->name.text)->reduction != ir::Reduction::none) continue;
      if (!stored_as.empty() && stored_text(out->tensor) != stored_as) continue;
      const auto [place, is_new] = places.emplace(link.kernel.values.of(out->value), found.size());
      if (is_new)
        found.push_back(out);
      else if (!is_plain(found[place->second]->tensor) && is_plain(out->tensor))
        found[place->second] = out;
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
      const ast::Out* found = nullptr;
      for (const ast::Statement& statement : before.kernel.tree->statements) {
        const auto* out = std::get_if<ast::Out>(&statement);
        if (out == nullptr || !is_plain(out->tensor) || before.kernel.values.of(out->value) != y) continue;
        // Of several the first that a gemm takes as it is: one of 16 bits.
        if (found == nullptr || (found->tensor.type.text == "f32" && out->tensor.type.text != "f32")) found = out;
      }
      if (found != nullptr) {
        link.data_name = found->name.text;
        link.data = found->tensor;
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

  // Whether y is made of the input other than by the gemms.
  static bool is_in_epilogue(Link& link, const ast::In& input) {
    std::set<ValueId> products;
    for (const Product& product : link.kernel.products) products.insert(product.value);
    return link.kernel.values.depends(link.kernel.values.of(link.y->value), link.kernel.values.of_name(input.name.text),
                                      products);
  }

  // A tensor whose gradient is a sum over several ways back would lack all but one of them. What the chain itself reads
  // is the exception: whatever its epilogues give it is added at the end.
  bool reads_have_one_way(size_t i) {
    Link& link = links_[i];
    const std::vector<Product>& products = link.kernel.products;
    for (const ast::Statement& statement : link.kernel.tree->statements) {
      const auto* input = std::get_if<ast::In>(&statement);
      if (input == nullptr) continue;
      const bool is_data = products[0].data == input;
      const bool is_weight = std::any_of(products.begin(), products.end(),
                                         [&](const Product& product) { return product.weight == input; });
      const bool in_epilogue = is_in_epilogue(link, *input);
      const std::string& name = input->name.text;
      if (is_data || (!is_weight && !in_epilogue)) continue;
      for (size_t before = 0; before < i; ++before)
        if (links_[before].kernel.output(name) != nullptr)
          return error(input->name.where,
                       fmt::format("'{}' reads '{}', which '{}' stores, besides what its gemm gets from the kernel "
                                   "before it",
                                   link.kernel.name(), name, links_[before].kernel.name()),
                       fmt::format("the gradient of '{}' would be a sum of two ways back; derive the chain in parts, "
                                   "and add the two by hand",
                                   name));
      if (i > 0 && !is_same_as_start(*input)) return false;
    }
    return true;
  }

  // An input that is called as what the chain starts from is that tensor, unless its shape says otherwise.
  bool is_same_as_start(const ast::In& input) {
    const Product& start = links_[0].kernel.products[0];
    if (start.data->name.text != input.name.text) return true;
    const std::string here = tensor_text(input.tensor).text, there = tensor_text(start.data->tensor).text;
    const auto shape = [](const std::string& text) { return text.substr(text.find('[') + 1); };
    if (here != there && shape(stored_text(input.tensor)) == shape(stored_text(start.data->tensor)))
      return error(
          input.name.where,
          fmt::format("'{}' is {} here, and {} in '{}'", input.name.text, here, there, links_[0].kernel.name()),
          "the kernels of a chain have one type for a tensor");
    if (here == there && !start.index.empty())
      return error(input.name.where,
                   fmt::format("'{}' is what '{}' reads rows of by an index, and is read here once more",
                               input.name.text, links_[0].kernel.name()),
                   "the sum of its gradients would be a scatter-add, which the language does not have");
    return true;
  }

  void name_gradients(Link& link, bool is_last) {
    link.dy = names_.make("d" + link.y->name.text, link.kernel.name());
    const SavedValues& saved = link.saved;
    link.dp_is_dy = is_last && saved.none_needed && saved.values[0].linear.factor.is_one();
    for (size_t i = 0; i < link.kernel.products.size(); ++i) {
      const Product& product = link.kernel.products[i];
      const SavedValue& value = saved.values[i];
      const bool is_dy = saved.none_needed && value.linear.factor.is_one();
      const bool is_scaled = !saved.none_needed && !value.linear.factor.is_one();
      if (is_scaled) link.d_saved.push_back(names_.make("d" + value.output, link.kernel.name()));
      std::string wish = !value.named.empty() ? value.named : value.output.empty() ? "h" : value.output;
      if (is_scaled && wish == value.output) wish = "h";
      link.dp.push_back(is_dy ? link.dy : names_.make("d" + wish, link.kernel.name()));
      if (!is_scaled) link.d_saved.push_back(link.dp.back());
      link.dp_tensors.push_back(plain_tensor(link.operand_type(), link.kernel.graph, product.shape));
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

std::string Link::operand_type() const {
  // A quantised operand whose plain copy is f32 says nothing of 16 bits.
  const bool is_own = is_plain(kernel.products[0].data->tensor);
  return !is_own && data.type.text == "f32" ? "bf16" : data.type.text;
}

ast::Tensor Link::dy_tensor() const {
  const std::string type = is_plain(y->tensor) ? y->tensor.type.text : "bf16";
  return plain_tensor(dp_is_dy ? operand_type() : type, kernel.graph, y_shape);
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
    links.push_back({std::move(*kernel), nullptr, {}, {}, {}, {}, {}, {}, {}, false, {}});
  }
  take_names(program, links, names);
  if (!Linker(links, names, diagnostics).run()) return std::nullopt;
  return links;
}

}  // namespace epifuse::chain
