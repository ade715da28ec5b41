#include "compiler/chain/backward_epilogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace epifuse::chain {
namespace {

class Epilogue {
 public:
  Epilogue(KernelText& text, Link& link, InputGradients& gradients)
      : text_(text), link_(link), kernel_(link.kernel), gradients_(gradients) {}

  void run(const Text& seed, bool seed_is_input) {
    if (link_.saved.none_needed) {
      if (!seed_is_input) text_.value(link_.dy, seed);
      scale(0, link_.dy);
      through_rest(0, link_.dy);
    } else {
      through_y(seed);
    }
    for (size_t i = 0; i < link_.dp.size(); ++i)
      if (!seed_is_input || link_.dp[i] != link_.dy)
        text_.output(link_.dp[i], link_.dp_tensors[i], "=", {link_.dp[i], {}});
    for (const ast::In* input : kernel_.other_inputs()) write(*input, seed_is_input);
    if (!summed_.empty())
      text_.comment(fmt::format("{}: the same by {}, summed over what {} not have", fmt::join(summed_, ", "),
                                fmt::join(summed_by_, ", "), summed_.size() == 1 ? "it does" : "they do"));
  }

 private:
  // The inputs whose gradients lie between y and what was saved.
  std::vector<const ast::In*> behind_saved() {
    std::set<ValueId> saved;
    for (const SavedValue& value : link_.saved.values) saved.insert(value.value);
    std::vector<const ast::In*> found;
    for (const ast::In* input : kernel_.other_inputs())
      if (kernel_.values.depends(kernel_.values.of(link_.y->value), kernel_.values.of_name(input->name.text), saved))
        found.push_back(input);
    return found;
  }

  // dy = f'(saved, ...) by one `grad`, and from the saved values on to the products.
  void through_y(const Text& seed) {
    std::map<ValueId, std::string> stored;
    for (const SavedValue& value : link_.saved.values) {
      stored[value.value] = value.output;
      text_.input(value.output, value.tensor);
    }
    const Replacement stand_in = [&](const ast::Expr& expr) -> std::optional<std::string> {
      const auto found = stored.find(kernel_.values.of(expr));
      if (found == stored.end()) return std::nullopt;
      return found->second;
    };
    const std::vector<const ast::In*> inputs = behind_saved();
    for (const ast::In* input : inputs) text_.input(kernel_, *input);
    Text f = expression_text(link_.y->value, stand_in);
    text_.values_for(kernel_, f, stand_in);
    if (link_.y->value.kind != ast::Expr::Kind::name) {
      text_.value(link_.y->name.text, f);
      f.text = link_.y->name.text;
    }
    std::vector<std::string> results, sources;
    for (size_t i = 0; i < link_.saved.values.size(); ++i) {
      const SavedValue& value = link_.saved.values[i];
      results.push_back(link_.d_saved[i]);
      sources.push_back(value.output);
    }
    const std::vector<std::string> seeds = results;
    for (const ast::In* input : inputs) {
      results.push_back(gradients_.name(link_, *input));
      sources.push_back(input->name.text);
      contributions_[input].push_back(results.back());
    }
    text_.value(fmt::format("{}", fmt::join(results, ", ")),
                {fmt::format("grad({}, {}, {})", f.text, seed.text, fmt::join(sources, ", ")), seed.names});
    for (size_t i = 0; i < seeds.size(); ++i) {
      scale(i, seeds[i]);
      through_rest(i, seeds[i]);
    }
  }

  void scale(size_t product, const std::string& seed) {
    const Term& factor = link_.saved.values[product].linear.factor;
    if (factor.is_one()) return;
    const Text scaled = multiplied(seed, factor);
    text_.values_for(kernel_, scaled);
    text_.value(link_.dp[product], scaled);
    for (const ast::In* input : kernel_.other_inputs())
      if (mentions(kernel_, multiplied("", factor), *input)) not_derived_.insert(input);
  }

  // What was added to the product: a bias, prob * bias.
  void through_rest(size_t product, const std::string& seed) {
    const std::vector<Term>& rest = link_.saved.values[product].linear.rest;
    std::vector<Term> others;
    for (const Term& term : rest) {
      const bool is_input = term.factors.size() == 1 && term.factors[0].second.kind == ast::Expr::Kind::name &&
                            kernel_.input(term.factors[0].second.name.text) != nullptr;
      if (!is_input) {
        others.push_back(term);
        continue;
      }
      const ast::In* input = kernel_.input(term.factors[0].second.name.text);
      contributions_[input].push_back((term.negative ? "-" : "") + seed);
    }
    const Text sum = sum_text(others);
    std::vector<std::string> results, sources;
    for (const ast::In* input : kernel_.other_inputs()) {
      if (!mentions(kernel_, sum, *input)) continue;
      text_.input(kernel_, *input);
      // Of two products each has its part of the gradient.
      results.push_back(link_.dp.size() == 1 ? gradients_.name(link_, *input)
                                             : gradients_.part(link_, *input, link_.saved.values[product].output));
      sources.push_back(input->name.text);
      contributions_[input].push_back(results.back());
    }
    if (results.empty()) return;
    text_.values_for(kernel_, sum);
    text_.value(fmt::format("{}", fmt::join(results, ", ")),
                {fmt::format("grad({}, {}, {})", sum.text, seed, fmt::join(sources, ", ")), sum.names});
  }

  // An input of its own value at each place has a gradient like it; another's is summed over what it lacks.
  bool is_full(const ast::In& input) const {
    const std::vector<ir::Input>& inputs = kernel_.graph.inputs;
    const auto found = std::find_if(inputs.begin(), inputs.end(),
                                    [&](const ir::Input& i) { return i.tensor.name == input.name.text; });
    return kernel_.graph.same_names(found->tensor.shape, link_.y_shape) ||
           kernel_.graph.same_names(found->tensor.shape, kernel_.products[0].shape);
  }

  void write(const ast::In& input, bool seed_is_input) {
    if (not_derived_.count(&input) != 0)
      text_.comment(fmt::format("No gradient of {}: it scales the product, and that is not saved.", input.name.text));
    const auto found = contributions_.find(&input);
    if (found == contributions_.end()) return;
    const std::string sum = fmt::format("{}", fmt::join(found->second, " + "));
    ast::Tensor tensor = input.tensor;
    const bool full = is_full(input);
    const bool is_stored = std::find(link_.dp.begin(), link_.dp.end(), sum) != link_.dp.end();
    const bool is_seed = seed_is_input && sum == link_.dy;
    // Where other kernels have the input, too, there has to be one tensor to which each adds its part.
    if (full && (is_stored || is_seed) && !gradients_.has_several_parts(link_, input)) {
      const size_t at = static_cast<size_t>(std::find(link_.dp.begin(), link_.dp.end(), sum) - link_.dp.begin());
      gradients_.store(link_, input, {sum, is_seed ? link_.dy_tensor() : link_.dp_tensors[at]});
      return text_.comment(fmt::format("The gradient of {} is {} itself.", input.name.text, sum));
    }
    const std::string name = gradients_.name(link_, input);
    const bool is_written = gradients_.mark_written(link_, input);
    if (!full) {
      summed_.push_back(name);
      summed_by_.push_back(input.name.text);
      tensor.type.text = "f32";
      tensor.options.clear();
    }
    if (is_written)
      text_.comment(fmt::format("Adds to {}, which another kernel of the chain has written before.", name));
    else
      gradients_.store(link_, input, {name, tensor});
    text_.output(name, tensor, is_written ? "+=" : "=", {full ? sum : fmt::format("sum({})", sum), {}});
  }

  KernelText& text_;
  Link& link_;
  ForwardKernel& kernel_;
  InputGradients& gradients_;
  std::map<const ast::In*, std::vector<std::string>> contributions_;
  std::set<const ast::In*> not_derived_;
  std::vector<std::string> summed_, summed_by_;
};

}  // namespace

InputGradients::InputGradients(const std::vector<Link>& links, Names& names) : names_(names) {
  for (const Link& link : links)
    for (const ast::Statement& statement : link.kernel.tree->statements)
      if (const auto* input = std::get_if<ast::In>(&statement)) ++keys_[input->name.text][key(link, *input)];
  // What the chain starts from keeps the plain name for the whole of its gradient.
  const ast::In& start = *links.front().kernel.products[0].data;
  known_[key(links.front(), start)] = names_.make("d" + start.name.text, links.front().kernel.name());
}

std::string InputGradients::name(const Link& link, const ast::In& input) {
  const auto [known, is_new] = known_.emplace(key(link, input), "");
  if (!is_new) return known->second;
  const bool is_one = keys_[input.name.text].size() == 1;
  known->second = names_.make(fmt::format("d{}{}", input.name.text, is_one ? "" : "_" + link.kernel.name()));
  return known->second;
}

std::string InputGradients::part(const Link& link, const ast::In& input, const std::string& of) {
  return names_.make(fmt::format("{}_{}", name(link, input), of));
}

bool InputGradients::has_several_parts(const Link& link, const ast::In& input) const {
  return keys_.at(input.name.text).at(key(link, input)) > 1;
}

void InputGradients::store(const Link& link, const ast::In& input, StoredGradient gradient) {
  stored_.insert_or_assign(key(link, input), std::move(gradient));
}

std::optional<StoredGradient> InputGradients::stored_for_start(const ast::In& start) const {
  const auto found = stored_.find(shared_key(start));
  return found == stored_.end() ? std::nullopt : std::optional(found->second);
}

bool InputGradients::mark_written(const Link& link, const ast::In& input) {
  return !written_.insert(key(link, input)).second;
}

std::string InputGradients::key(const Link& link, const ast::In& input) {
  const ir::Graph& graph = link.kernel.graph;
  const auto resolved = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                     [&](const ir::Input& i) { return i.tensor.name == input.name.text; });
  const bool has_rows = std::any_of(
      resolved->tensor.shape.begin(), resolved->tensor.shape.end(),
      [&](const ir::Extent& extent) { return extent.dim >= 0 && graph.dims[extent.dim].kind != ir::DimKind::fixed; });
  const Product& product = link.kernel.products[0];
  const bool is_shared = has_rows && product.data != &input;
  return shared_key(input) + (is_shared ? "" : " of " + link.kernel.name());
}

std::string InputGradients::shared_key(const ast::In& input) {
  return input.name.text + " : " + tensor_text(input.tensor).text;
}

void write_backward_epilogue(KernelText& text, Link& link, const Text& seed, bool seed_is_input,
                             InputGradients& gradients) {
  Epilogue(text, link, gradients).run(seed, seed_is_input);
}

}  // namespace epifuse::chain
