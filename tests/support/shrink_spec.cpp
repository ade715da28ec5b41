#include "tests/support/shrink_spec.h"

#include <algorithm>

#include "compiler/parser/program.h"
#include "compiler/semantics/resolve.h"

namespace epifuse::test {
namespace {

using ast::Expr;
using ast::Statement;

// Every expression of a file's kernel, outer before inner.
void collect(Expr& expr, std::vector<Expr*>& into) {
  into.push_back(&expr);
  for (Expr& arg : expr.args) collect(arg, into);
}
std::vector<Expr*> expressions(ast::File& file) {
  std::vector<Expr*> all;
  for (Statement& statement : file.kernels[0].statements) {
    if (auto* let = std::get_if<ast::Let>(&statement)) collect(let->value, all);
    if (auto* out = std::get_if<ast::Out>(&statement)) collect(out->value, all);
  }
  return all;
}

// Names that a kernel's statements use, of values and of dimensions.
class UsedNames {
 public:
  explicit UsedNames(const ast::File& file) {
    for (const ast::Function& function : file.functions) add(function.body);
    for (const Statement& statement : file.kernels[0].statements)
      std::visit([this](const auto& one) { add_statement(one); }, statement);
  }
  bool has(const ast::Name& name) const { return used_.contains(name.text); }

 private:
  void add(const Expr& expr) {
    used_.insert(expr.name.text);
    used_.insert(expr.second.text);
    for (const Expr& arg : expr.args) add(arg);
  }
  void add(const ast::Tensor& tensor) {
    for (const ast::Option& option : tensor.options) used_.insert(option.value.text);
    for (const auto* sizes : {&tensor.pointers, &tensor.shape})
      for (const ast::Size& size : *sizes)
        if (size.name) used_.insert(size.name->text);
  }
  void add_statement(const ast::Let& let) { add(let.value); }
  void add_statement(const ast::In& in) { add(in.tensor); }
  void add_statement(const ast::Out& out) {
    add(out.tensor);
    add(out.value);
  }
  void add_statement(const ast::Group& group) {
    used_.insert(group.by.text);
    if (group.slot && group.slot->name) used_.insert(group.slot->name->text);
  }
  void add_statement(const ast::Aligned& aligned) { used_.insert(aligned.base.text); }
  void add_statement(const ast::Dim&) {}
  void add_statement(const ast::Param&) {}
  void add_statement(const ast::Const&) {}
  void add_statement(const ast::Broken&) {}

  std::set<std::string> used_;
};

bool is_unused(Statement& statement, const UsedNames& used) {
  const auto unused = [&](const ast::Name& name) { return !used.has(name); };
  if (const auto* let = std::get_if<ast::Let>(&statement))
    return std::all_of(let->names.begin(), let->names.end(), unused);
  if (const auto* in = std::get_if<ast::In>(&statement)) return unused(in->name);
  if (const auto* param = std::get_if<ast::Param>(&statement)) return unused(param->name);
  if (const auto* constant = std::get_if<ast::Const>(&statement)) return unused(constant->name);
  if (const auto* group = std::get_if<ast::Group>(&statement)) return unused(group->name);
  if (const auto* aligned = std::get_if<ast::Aligned>(&statement)) return unused(aligned->name);
  if (auto* dim = std::get_if<ast::Dim>(&statement)) {
    std::erase_if(dim->items, [&](const ast::Dim::Item& item) { return unused(item.name); });
    return dim->items.empty();
  }
  return false;
}

void drop_unused(ast::File& file) {
  for (size_t before = 0; before != file.kernels[0].statements.size();) {
    std::vector<Statement>& statements = file.kernels[0].statements;
    before = statements.size();
    const UsedNames used(file);
    std::erase_if(statements, [&](Statement& statement) { return is_unused(statement, used); });
    std::erase_if(file.functions, [&](const ast::Function& function) { return !used.has(function.name); });
  }
}

class Shrinker {
 public:
  Shrinker(const RandomSpec& spec, const ShowsFailure& fails, int most_tries)
      : best_(spec), fails_(fails), tries_(most_tries) {
    parse();
  }

  RandomSpec run() {
    for (bool smaller = true; smaller && tries_ > 0;) {
      smaller = drop_options();
      smaller = drop_outputs() || smaller;
      smaller = shrink_sizes() || smaller;
      smaller = replace_expressions() || smaller;
      smaller = plainer_declarations() || smaller;
    }
    return best_;
  }

 private:
  void parse() {
    Diagnostics diagnostics;
    MemorySource no_files({});
    file_ = load_program("spec.epi", best_.text, no_files, diagnostics).main();
  }

  // Takes the candidate if it is a valid spec, another one, and still fails.
  bool take(ast::File file, RandomSpec spec) {
    if (tries_ <= 0) return false;
    drop_unused(file);
    spec.text = ast::print(file);
    if (spec.text == best_.text && spec.counts == best_.counts && spec.sizes == best_.sizes &&
        spec.slack_rows == best_.slack_rows && spec.left_out == best_.left_out)
      return false;
    Diagnostics diagnostics;
    MemorySource no_files({});
    const Program program = load_program("spec.epi", spec.text, no_files, diagnostics);
    ResolveOptions options;
    options.require_bound = true;
    const std::optional<ir::Graph> graph = resolve(program, "", options, diagnostics);
    if (!graph || !rows_stand_in_inputs(*graph, spec.left_out)) return false;
    const auto has = [&](const std::string& name) {
      return std::any_of(graph->dims.begin(), graph->dims.end(), [&](const auto& dim) { return dim.name == name; });
    };
    std::erase_if(spec.sizes, [&](const auto& size) { return !has(size.first); });
    std::erase_if(spec.left_out, [&](const std::string& name) {
      return std::none_of(graph->inputs.begin(), graph->inputs.end(),
                          [&](const ir::Input& input) { return input.tensor.name == name; });
    });
    std::erase_if(spec.given, [&](const auto& given) {
      return std::none_of(graph->inputs.begin(), graph->inputs.end(),
                          [&](const ir::Input& input) { return input.tensor.name == given.first; });
    });
    --tries_;
    if (!fails_(spec)) return false;
    best_ = std::move(spec);
    parse();
    return true;
  }

  // Whether something says how many rows there are: a problem is bound by its inputs.
  static bool rows_stand_in_inputs(const ir::Graph& graph, const std::set<std::string>& left_out) {
    const auto stands = [&](ir::DimId dim) {
      return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Input& input) {
        const ir::Shape& shape = input.tensor.shape;
        return !left_out.contains(input.tensor.name) && graph.has_name(shape, {1, dim, 1});
      });
    };
    for (ir::DimId dim = 0; dim < static_cast<ir::DimId>(graph.dims.size()); ++dim)
      if (graph.dims[static_cast<size_t>(dim)].kind == ir::DimKind::grouped && !stands(dim)) return false;
    return true;
  }

  // Options of outputs, layouts first.
  bool drop_options() {
    bool smaller = false;
    for (const bool layouts : {true, false}) {
      for (size_t i = 0; i < file_.kernels[0].statements.size(); ++i) {
        for (size_t option = 0; option < options_of(file_, i).size();) {
          ast::File candidate = file_;
          std::vector<ast::Option>& options = options_of(candidate, i);
          const bool is_layout = options[option].name.text == "layout";
          options.erase(options.begin() + static_cast<std::ptrdiff_t>(option));
          if (is_layout == layouts && take(std::move(candidate), best_))
            smaller = true;
          else
            ++option;
        }
      }
    }
    return smaller;
  }

  static std::vector<ast::Option>& options_of(ast::File& file, size_t statement) {
    static std::vector<ast::Option> none;
    std::vector<Statement>& statements = file.kernels[0].statements;
    auto* out = statement < statements.size() ? std::get_if<ast::Out>(&statements[statement]) : nullptr;
    if (out == nullptr) none.clear();
    return out == nullptr ? none : out->tensor.options;
  }

  bool drop_outputs() {
    bool smaller = false;
    for (size_t i = file_.kernels[0].statements.size(); i-- > 0;) {
      if (i >= file_.kernels[0].statements.size()) continue;
      if (!std::holds_alternative<ast::Out>(file_.kernels[0].statements[i])) continue;
      ast::File candidate = file_;
      candidate.kernels[0].statements.erase(candidate.kernels[0].statements.begin() + static_cast<std::ptrdiff_t>(i));
      smaller = take(std::move(candidate), best_) || smaller;
    }
    return smaller;
  }

  // An expression becomes one of its parts, or a number.
  bool replace_expressions() {
    bool smaller = false;
    for (size_t i = 0; i < expressions(file_).size(); ++i) {
      const Expr whole = *expressions(file_)[i];
      std::vector<Expr> parts = whole.args;
      if (whole.kind == Expr::Kind::call && whole.name.text == "hadamard" && whole.args.size() == 3) {
        parts.push_back(whole);
        parts.back().args.pop_back();  // the signs
      }
      if (whole.kind != Expr::Kind::number) {
        Expr half;
        half.number = 0.5;
        half.name.text = "0.5";
        parts.push_back(half);
      }
      for (Expr& part : parts) {
        ast::File candidate = file_;
        *expressions(candidate)[i] = std::move(part);
        if (!take(std::move(candidate), best_)) continue;
        smaller = true;
        --i;  // the part may have parts of its own
        break;
      }
    }
    return smaller;
  }

  bool shrink_sizes() {
    bool smaller = false;
    for (const int64_t multiple : {32, 8}) {
      for (const std::string& name : dim_names()) {
        const auto halved = [&] {
          ast::File candidate = file_;
          ast::Dim::Item& item = find_item(candidate, name);
          const int64_t half = std::max(multiple, *item.value / 2 / multiple * multiple);
          if (half >= *item.value) return false;
          item.value = half;
          return take(std::move(candidate), best_);
        };
        while (name != "E" && name != "C" && halved()) smaller = true;
      }
    }
    while (best_.counts && best_.counts->size() > 1 && drop_group()) smaller = true;
    for (size_t e = 0; best_.counts && e < best_.counts->size(); ++e)
      while ((*best_.counts)[e] > 0 && with([&](RandomSpec& spec) { (*spec.counts)[e] /= 2; })) smaller = true;
    for (const auto& [name, size] : std::map<std::string, int64_t>(best_.sizes))
      while (name != "C" && best_.sizes.contains(name) && best_.sizes[name] > 1 &&
             with([&](RandomSpec& spec) { spec.sizes[name] /= 2; }))
        smaller = true;
    if (best_.slack_rows > 0 && with([](RandomSpec& spec) { spec.slack_rows = 0; })) smaller = true;
    return smaller;
  }

  bool drop_group() {
    for (size_t e = 0; e < best_.counts->size(); ++e) {
      ast::File candidate = file_;
      *find_item(candidate, "E").value -= 1;
      RandomSpec spec = best_;
      for (auto& [name, values] : spec.given)
        if (values.size() == spec.counts->size()) values.erase(values.begin() + static_cast<std::ptrdiff_t>(e));
      spec.counts->erase(spec.counts->begin() + static_cast<std::ptrdiff_t>(e));
      if (take(std::move(candidate), std::move(spec))) return true;
    }
    return false;
  }

  // Outputs of plainer types, inputs as f32 without defaults, groups one behind the other.
  bool plainer_declarations() {
    bool smaller = false;
    for (size_t i = 0; i < file_.kernels[0].statements.size(); ++i)
      for (const std::string type : {"f32", "mxfp8"}) smaller = plainer(i, type) || smaller;
    return smaller;
  }

  bool plainer(size_t statement, const std::string& type) {
    ast::File candidate = file_;
    RandomSpec spec = best_;
    if (statement >= candidate.kernels[0].statements.size()) return false;
    Statement& changed = candidate.kernels[0].statements[statement];
    if (auto* out = std::get_if<ast::Out>(&changed)) {
      if (out->tensor.type.text == "f32") return false;
      out->tensor.type.text = type;
      std::erase_if(out->tensor.options,
                    [&](const ast::Option& option) { return type == "f32" || option.name.text == "amax"; });
    } else if (auto* in = std::get_if<ast::In>(&changed)) {
      in->default_value.reset();
      spec.left_out.erase(in->name.text);
    } else if (auto* group = std::get_if<ast::Group>(&changed)) {
      group->sizes.reset();
      group->storage.reset();
      group->align.reset();
      group->slot.reset();
    } else {
      return false;
    }
    return take(std::move(candidate), std::move(spec));
  }

  template <class Change>
  bool with(Change change) {
    RandomSpec spec = best_;
    change(spec);
    return take(file_, std::move(spec));
  }

  std::vector<std::string> dim_names() const {
    std::vector<std::string> names;
    for (const Statement& statement : file_.kernels[0].statements)
      if (const auto* dim = std::get_if<ast::Dim>(&statement))
        for (const ast::Dim::Item& item : dim->items)
          if (item.value) names.push_back(item.name.text);
    return names;
  }

  static ast::Dim::Item& find_item(ast::File& file, const std::string& name) {
    static ast::Dim::Item none;
    for (Statement& statement : file.kernels[0].statements)
      if (auto* dim = std::get_if<ast::Dim>(&statement))
        for (ast::Dim::Item& item : dim->items)
          if (item.name.text == name) return item;
    none = {};
    none.value = 1;  // gone: nothing gets smaller
    return none;
  }

  RandomSpec best_;
  const ShowsFailure& fails_;
  int tries_;
  ast::File file_;  // of best_
};

}  // namespace

RandomSpec shrink(const RandomSpec& spec, const ShowsFailure& fails, int most_tries) {
  return Shrinker(spec, fails, most_tries).run();
}

}  // namespace epifuse::test
