// The kernels in the order in which they run: from the end of the chain, of each kernel first what needs dy alone, then
// its weight gradient, then the data gradient with the epilogue of the kernel before it.
#include "compiler/chain/derive_backward.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/chain/backward_epilogue.h"
#include "compiler/chain/link_chain.h"
#include "compiler/chain/saving_forward.h"
#include "compiler/parser/format.h"
#include "compiler/parser/parser.h"
#include "compiler/semantics/resolve.h"

namespace epifuse::chain {
namespace {

class Deriver {
 public:
  Deriver(const Program& program, std::vector<Link>& links, Names& names, const std::string& spec_folder)
      : program_(program), links_(links), names_(names), spec_folder_(spec_folder), gradients_(links, names) {
    for (const Link& link : links) kernel_names_.take(link.kernel.name());
  }

  std::string run() {
    for (Link& link : links_)
      if (link.saved.missing) save(link);
    for (size_t i = links_.size(); i-- > 0;) {
      if (i + 1 == links_.size()) last_epilogue(links_[i]);
      weight_gradient(i);
      data_gradient(i);
    }
    std::string kernels;
    for (const std::string& text : texts_) kernels += "\n" + text;
    return header() + definitions() + kernels;
  }

 private:
  KernelText begin(const Link& link, const std::string& suffix, std::vector<const ForwardKernel*> origins) {
    return KernelText(kernel_names_.make(fmt::format("{}_{}", link.kernel.name(), suffix)), std::move(origins));
  }

  void add(const KernelText& kernel, const std::string& what) {
    order_.push_back(fmt::format("{} {}", kernel.name(), what));
    texts_.push_back(kernel.text());
    mentioned_.insert(kernel.mentions().begin(), kernel.mentions().end());
  }

  void save(Link& link) {
    const std::string text = saving_forward(link, names_, mentioned_);
    texts_.push_back(fmt::format("# The forward kernel, which now stores {}: the backward pass reads it.\n{}",
                                 link.saved_names(), text));
    saving_.push_back(link.kernel.name());
  }

  // The last kernel's dy comes from outside, and its epilogue is a pass of its own: other kernels read the result
  // twice.
  void last_epilogue(Link& link) {
    KernelText kernel = begin(link, "epilogue_backward", {&link.kernel});
    kernel.input(link.dy, link.dy_tensor());
    kernel.comment(epilogue_mathematics(link, link.dy));
    write_backward_epilogue(kernel, link, {link.dy, {}}, true, gradients_);
    if (kernel.has_outputs()) add(kernel, "-> " + kernel.output_names());
  }

  void weight_gradient(size_t i) {
    Link& link = links_[i];
    KernelText kernel = begin(link, "wgrad", {&link.kernel});
    declare_dp(kernel, link);
    kernel.input(link.data_name, link.data);
    for (size_t p = 0; p < link.kernel.products.size(); ++p) {
      const Product& product = link.kernel.products[p];
      const std::string data = link.data_name + (product.index.empty() ? "" : "[" + product.index + "]");
      if (!product.index.empty()) kernel.input(link.kernel, *link.kernel.input(product.index));
      ast::Tensor tensor = product.weight->tensor;
      tensor.type.text = "f32";
      tensor.options.clear();
      const std::string gemm = fmt::format("gemm({}, {})", link.dp[p], data);
      const std::string name = gradients_.name(link, *product.weight);
      kernel.comment(fmt::format("{}{} += sum over {} of {} {}", name, link.kernel.shape_text(product.weight_shape),
                                 summed(link, product), link.dp[p], data));
      kernel.output(name, tensor, "+=", {sums_batch(link, product) ? "sum(" + gemm + ")" : gemm, {}});
    }
    add(kernel, "-> " + kernel.output_names());
  }

  void declare_dp(KernelText& kernel, const Link& link) {
    for (size_t p = 0; p < link.dp.size(); ++p) {
      const ast::Tensor& tensor = link.dp_is_dy ? link.dy_tensor() : link.dp_tensors[p];
      kernel.input(link.dp[p], tensor);
    }
  }

  // The rows that the weight gradient sums over: what data and product share.
  static std::vector<ir::Extent> shared_rows(const Link& link, const Product& product) {
    std::vector<ir::Extent> shared;
    const ir::Graph& graph = link.kernel.graph;
    for (const ir::Extent& extent : product.data_shape)
      if (graph.has_name(product.shape, extent) && !graph.has_name(product.weight_shape, extent))
        shared.push_back(extent);
    return shared;
  }

  static std::string summed(const Link& link, const Product& product) {
    std::string text;
    for (const ir::Extent& extent : shared_rows(link, product))
      text += (text.empty() ? "" : ", ") + link.kernel.graph.extent_text(extent);
    return text;
  }

  static bool sums_batch(const Link& link, const Product& product) { return shared_rows(link, product).size() > 1; }

  // dx of the first kernel, or the dy of the one before, which goes on through its epilogue.
  void data_gradient(size_t i) {
    Link& link = links_[i];
    const bool is_first = i == 0;
    std::vector<const ForwardKernel*> origins = {&link.kernel};
    if (!is_first) origins.insert(origins.begin(), &links_[i - 1].kernel);
    KernelText kernel = begin(link, "dgrad", std::move(origins));
    declare_dp(kernel, link);
    Text seed;
    std::string sum;
    for (size_t p = 0; p < link.kernel.products.size(); ++p) {
      const ast::In& weight = *link.kernel.products[p].weight;
      // The epilogue's kernel may have another tensor of that name.
      const bool taken = !is_first && is_name_of(links_[i - 1], weight.name.text);
      const std::string name = taken ? names_.make(weight.name.text, link.kernel.name()) : weight.name.text;
      kernel.input(link.kernel, weight, name);
      sum += fmt::format("{}{} {}", p == 0 ? "" : " + ", link.dp[p], name);
      seed.text += fmt::format("{}gemm({}, {})", p == 0 ? "" : " + ", link.dp[p], name);
    }
    const Product& product = link.kernel.products[0];
    const std::string contracted = contraction(link, product);
    if (is_first) {
      const std::string type = is_plain(product.data->tensor) ? product.data->tensor.type.text : "bf16";
      const std::string name = gradients_.name(link, *product.data);
      kernel.comment(
          fmt::format("{}{} = sum over {} of {}", name, link.kernel.shape_text(product.data_shape), contracted, sum));
      if (!product.index.empty())
        kernel.comment(fmt::format(
            "Its rows are those that {} gathers; what belongs to one row of the input is still to be added up.",
            product.index));
      if (const std::optional<StoredGradient> part = gradients_.stored_for_start(*product.data)) {
        kernel.input(part->name, part->tensor);
        kernel.comment(fmt::format("Another kernel of the chain reads {}, too: {} is its part of the gradient.",
                                   product.data->name.text, part->name));
        seed.text += " + " + part->name;
      }
      kernel.output(name, plain_tensor(type, link.kernel.graph, product.data_shape), "=", seed);
      return add(kernel, "-> " + kernel.output_names());
    }
    Link& before = links_[i - 1];
    kernel.comment(
        fmt::format("{}{} = sum over {} of {}", before.dy, before.kernel.shape_text(before.y_shape), contracted, sum));
    kernel.comment(epilogue_mathematics(before, before.dy));
    write_backward_epilogue(kernel, before, seed, false, gradients_);
    add(kernel, "-> " + kernel.output_names());
  }

  static std::string contraction(const Link& link, const Product& product) {
    const ir::Graph& graph = link.kernel.graph;
    for (const ir::Extent& extent : product.weight_shape)
      if (graph.has_name(product.shape, extent) && !graph.has_name(product.data_shape, extent))
        return graph.extent_text(extent);
    return "";
  }

  static bool is_name_of(const Link& link, const std::string& name) {
    const ForwardKernel& kernel = link.kernel;
    return kernel.input(name) != nullptr || kernel.values.definition(name) != nullptr ||
           kernel.output(name) != nullptr ||
           std::any_of(kernel.graph.params.begin(), kernel.graph.params.end(),
                       [&](const ir::Param& param) { return param.name == name; });
  }

  static std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

  static std::string epilogue_mathematics(const Link& link, const std::string& dy) {
    if (link.saved.none_needed)
      return fmt::format("{} is linear in the product: its gradient is {} times what scales it.", link.y->name.text,
                         dy);
    const ast::Expr& y = link.y->value;
    return fmt::format("{} = {} d({})/d({}), at the {} that {} has stored", joined(link.dp), dy,
                       y.kind == ast::Expr::Kind::name ? y.name.text : link.y->name.text, link.saved_names(),
                       link.saved_names(), link.kernel.name());
  }

  // Which output each kernel of the chain reads, and as which input: their names may differ.
  std::string connections() const {
    std::vector<std::string> read;
    for (size_t i = 0; i + 1 < links_.size(); ++i) {
      const ForwardKernel& reader = links_[i + 1].kernel;
      read.push_back(fmt::format("{}.{} -> {}.{}", links_[i].kernel.name(), links_[i].y->name.text, reader.name(),
                                 reader.products[0].data->name.text));
    }
    return read.empty() ? "" : fmt::format("# What feeds what: {}\n#\n", joined(read));
  }

  // Outputs besides the one that the gradient takes its way through, and other forms of the same value: a loss that
  // reads them has no part in what is derived.
  std::string outputs_left_out() const {
    std::vector<std::string> left_out;
    for (Link& link : links_)
      for (const ast::Statement& statement : link.kernel.tree->statements) {
        const auto* out = std::get_if<ast::Out>(&statement);
        if (out == nullptr || stores_y(link, *out)) continue;
        left_out.push_back(fmt::format("{}.{}", link.kernel.name(), out->name.text));
      }
    const Link& last = links_.back();
    return fmt::format("# The gradient comes in as {}, of {}.{}.{}\n#\n", last.dy, last.kernel.name(),
                       last.y->name.text, left_out.empty() ? "" : " None comes in through " + joined(left_out) + ".");
  }

  static bool stores_y(Link& link, const ast::Out& out) {
    Values& values = link.kernel.values;
    return out.value.kind != ast::Expr::Kind::member &&
           link.kernel.graph_output(out.name.text)->reduction == ir::Reduction::none &&
           values.of(out.value) == values.of(link.y->value);
  }

  // What the forward pass has to keep of a kernel's data: what it reads, or a plain form of that.
  std::string kept_data(size_t i) const {
    const Link& link = links_[i];
    const std::string &read = link.kernel.products[0].data->name.text, &kept = link.data_name;
    if (i == 0 || is_plain(link.kernel.products[0].data->tensor))
      return fmt::format("{}, which {} reads", kept, link.kernel.name());
    return fmt::format("{} of {}: the values that {} reads as {}", kept, links_[i - 1].kernel.name(),
                       link.kernel.name(), read);
  }

  std::string header() const {
    std::vector<std::string> chain;
    for (const Link& link : links_) chain.push_back(link.kernel.name());
    const std::string& path = program_.main().source->name;
    std::string text = fmt::format("# Backward kernels of {}, derived from {} by `epifuse grad --chain {}`.\n#\n",
                                   fmt::join(chain, " -> "), path.substr(path.rfind('/') + 1), fmt::join(chain, ","));
    text += connections() + outputs_left_out() + "# In the order in which they run:\n";
    for (const std::string& step : order_) text += fmt::format("#   {}\n", step);
    text += "#\n# The forward pass has to keep:\n";
    for (size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      text += fmt::format("#   {}\n", kept_data(i));
      if (!link.saved.none_needed) text += fmt::format("#   {} of {}\n", link.saved_names(), link.kernel.name());
    }
    for (const std::string& name : saving_)
      text += fmt::format("# {} did not store what is needed: run it as it is written here.\n", name);
    return text;
  }

  // As it has to be written where the text will lie.
  std::string use_path(size_t i) const {
    const std::string& path = program_.main().uses[i].path;
    const Program::Unit& used = program_.units[program_.units[0].uses[i]];
    const bool moves = !spec_folder_.empty() && !path.starts_with('/') && !is_library_file(used.tree.source->name);
    return moves ? spec_folder_ + "/" + path : path;
  }

  // The file's `use` lines, and those of its own constants and functions that the kernels need.
  std::string definitions() const {
    std::set<std::string> needed = mentioned_;
    const ast::File& file = program_.main();
    for (size_t before = 0; before != needed.size();) {
      before = needed.size();
      for (const ast::Function& function : file.functions)
        if (needed.count(function.name.text) != 0) needed.merge(expression_text(function.body).names);
      for (const ast::Const& constant : file.constants)
        if (needed.count(constant.name.text) != 0) needed.merge(expression_text(constant.value).names);
    }
    std::string text;
    for (size_t i = 0; i < file.uses.size(); ++i) text += fmt::format("use \"{}\"\n", use_path(i));
    for (const ast::Const& constant : file.constants)
      if (needed.count(constant.name.text) != 0)
        text += fmt::format("const {} = {}\n", constant.name.text, expression_text(constant.value).text);
    for (const ast::Function& function : file.functions) {
      if (needed.count(function.name.text) == 0) continue;
      std::vector<std::string> params;
      for (const ast::Name& param : function.params) params.push_back(param.text);
      text += fmt::format("fn {}({}) = {}\n", function.name.text, fmt::join(params, ", "),
                          expression_text(function.body).text);
    }
    return text;
  }

  const Program& program_;
  std::vector<Link>& links_;
  Names& names_;
  const std::string& spec_folder_;
  Names kernel_names_;
  InputGradients gradients_;
  std::vector<std::string> order_, texts_, saving_;
  std::set<std::string> mentioned_;
};

// What was written is a spec like any other: read again before anyone relies on it.
bool resolves(const Program& program, const std::string& text, const Span& where, Diagnostics& diagnostics) {
  Program derived;
  Diagnostics mistakes;
  derived.units = program.units;
  derived.units[0].tree = parse(std::make_shared<const SourceFile>(SourceFile{"derived", text}), mistakes);
  check(derived, {}, mistakes);
  for (const Diagnostic& mistake : mistakes.all()) {
    if (mistake.severity != Severity::error) continue;
    const std::string line(mistake.where.text());
    diagnostics.error(where, "the backward pass of this chain cannot be written: " + mistake.message,
                      fmt::format("of '{}'; {}", line, mistake.hint));
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> derive_backward(const Program& program, const std::vector<std::string>& kernels,
                                           Diagnostics& diagnostics, const std::string& spec_folder) {
  if (diagnostics.has_errors()) return std::nullopt;
  Names names;
  std::optional<std::vector<Link>> links = link_chain(program, kernels, names, diagnostics);
  if (!links) return std::nullopt;
  const std::string text = Deriver(program, *links, names, spec_folder).run();
  if (!resolves(program, text, links->back().kernel.tree->name.where, diagnostics)) return std::nullopt;
  return format_spec(std::make_shared<const SourceFile>(SourceFile{"derived", text}), diagnostics);
}

}  // namespace epifuse::chain
