#include "compiler/chain/saved_values.h"

#include <algorithm>

namespace epifuse::chain {
namespace {

using ast::Expr;

class Finder {
 public:
  Finder(ForwardKernel& kernel, const Expr& y) : kernel_(kernel), y_(kernel.values.of(y)), y_tree_(y) {}

  SavedValues run() {
    SavedValues result;
    if (kernel_.products.size() == 1) {
      const std::optional<Linear> whole = linear_form(kernel_.values, y_tree_, kernel_.products[0].value);
      if (whole && !scales_by_an_input(*whole)) {
        result.none_needed = true;
        result.values.push_back({y_, *whole, "", {}, ""});
        return result;
      }
    }
    for (const Product& product : kernel_.products) {
      const std::optional<SavedValue> stored = find_stored(product);
      if (!stored) break;
      result.values.push_back(*stored);
    }
    if (result.values.size() == kernel_.products.size() && is_cut(result)) return result;
    result.values.clear();
    result.missing = true;
    for (const Product& product : kernel_.products) result.values.push_back(find_named(product));
    if (is_cut(result)) return result;
    result.values.clear();
    for (const Product& product : kernel_.products) result.values.push_back(product_itself(product));
    return result;
  }

 private:
  // A gradient by a scale needs the product, which is then worth saving.
  bool scales_by_an_input(const Linear& linear) {
    const Text factors = multiplied("", linear.factor);
    const std::vector<const ast::In*> inputs = kernel_.other_inputs();
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const ast::In* input) { return mentions(kernel_, factors, *input); });
  }

  // A scale of each row is data of its own, maybe of several kernels, and needs its gradient whole; of one for each
  // weight, as a quantised weight has it, the gradient is seldom wanted, and what is stored serves.
  bool scales_by_rows(const Linear& linear) {
    const Text factors = multiplied("", linear.factor);
    return std::any_of(kernel_.graph.inputs.begin(), kernel_.graph.inputs.end(), [&](const ir::Input& input) {
      const ir::Shape& shape = input.tensor.shape;
      return std::any_of(shape.begin(), shape.end(),
                         [&](const ir::Extent& extent) {
                           return extent.dim >= 0 && kernel_.graph.dims[extent.dim].kind != ir::DimKind::fixed;
                         }) &&
             mentions(kernel_, factors, *kernel_.input(input.tensor.name));
    });
  }

  bool lies_between(ValueId value, const Product& product) {
    return kernel_.values.depends(y_, value) && !kernel_.values.depends(y_, product.value, {value});
  }

  // An input on both sides of the value would have two gradients to be added.
  bool has_input_on_both_sides(ValueId value, const Linear& linear) {
    Text near = sum_text(linear.rest);
    near.names.merge(multiplied("", linear.factor).names);
    const std::vector<const ast::In*> inputs = kernel_.other_inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const ast::In* input) {
      return mentions(kernel_, near, *input) &&
             kernel_.values.depends(y_, kernel_.values.of_name(input->name.text), {value});
    });
  }

  bool is_cut(const SavedValues& saved) {
    std::set<ValueId> cut;
    for (const SavedValue& value : saved.values) cut.insert(value.value);
    return cut.size() == saved.values.size() &&
           std::none_of(kernel_.products.begin(), kernel_.products.end(), [&](const Product& product) {
             return cut.count(product.value) == 0 && kernel_.values.depends(y_, product.value, cut);
           });
  }

  std::optional<Linear> usable(const Expr& expr, const Product& product) {
    const ValueId value = kernel_.values.of(expr);
    if (value == y_ || !lies_between(value, product)) return std::nullopt;
    std::optional<Linear> linear = linear_form(kernel_.values, expr, product.value);
    if (!linear || has_input_on_both_sides(value, *linear)) return std::nullopt;
    for (const Product& other : kernel_.products)
      if (other.value != product.value && kernel_.values.depends(value, other.value)) return std::nullopt;
    return linear;
  }

  std::optional<SavedValue> find_stored(const Product& product) {
    for (const ast::Statement& statement : kernel_.tree->statements) {
      const auto* out = std::get_if<ast::Out>(&statement);
      if (out == nullptr || out->accumulate || !is_plain(out->tensor)) continue;
      const ir::Output* resolved = kernel_.graph_output(out->name.text);
      if (resolved->reduction != ir::Reduction::none || resolved->tensor.shape != product.shape) continue;
      if (const std::optional<Linear> linear = usable(out->value, product); linear && !scales_by_rows(*linear))
        return SavedValue{kernel_.values.of(out->value), *linear, out->name.text, out->tensor,
                          out->value.kind == Expr::Kind::name ? out->value.name.text : ""};
    }
    return std::nullopt;
  }

  // The last named value that is the product with additions alone.
  SavedValue find_named(const Product& product) {
    SavedValue best = product_itself(product);
    for (const ast::Statement& statement : kernel_.tree->statements) {
      const auto* let = std::get_if<ast::Let>(&statement);
      if (let == nullptr || let->names.size() != 1) continue;
      if (const std::optional<Linear> linear = usable(let->value, product); linear && linear->factor.is_one())
        best = {kernel_.values.of(let->value), *linear, "", best.tensor, let->names[0].text};
    }
    return best;
  }

  SavedValue product_itself(const Product& product) {
    SavedValue saved{product.value, {}, "", {}, ""};
    for (const ast::Statement& statement : kernel_.tree->statements)
      if (const auto* let = std::get_if<ast::Let>(&statement); let != nullptr && let->names.size() == 1)
        if (kernel_.values.of(let->value) == product.value) saved.named = let->names[0].text;
    const std::string& type = product.data->tensor.type.text;
    saved.tensor = plain_tensor(is_plain(product.data->tensor) ? type : "bf16", kernel_.graph, product.shape);
    return saved;
  }

  ForwardKernel& kernel_;
  ValueId y_;
  const Expr& y_tree_;
};

}  // namespace

SavedValues find_saved_values(ForwardKernel& kernel, const Expr& y) { return Finder(kernel, y).run(); }

bool mentions(ForwardKernel& kernel, const Text& text, const ast::In& input) {
  const ValueId value = kernel.values.of_name(input.name.text);
  return std::any_of(text.names.begin(), text.names.end(), [&](const std::string& name) {
    return kernel.values.depends(kernel.values.of_name(name), value);
  });
}

}  // namespace epifuse::chain
