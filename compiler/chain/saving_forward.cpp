#include "compiler/chain/saving_forward.h"

#include <fmt/format.h>

namespace epifuse::chain {
namespace {

class SavingForward {
 public:
  SavingForward(Link& link, Names& names, std::set<std::string>& mentioned)
      : link_(link), names_(names), mentioned_(mentioned) {}

  std::string run() {
    name_outputs();
    std::string text = fmt::format("kernel {} {{\n", link_.kernel.name());
    for (const ast::Statement& statement : link_.kernel.tree->statements) {
      if (const auto* let = std::get_if<ast::Let>(&statement)) {
        text += new_values(let->value);
        std::string names;
        for (const ast::Name& name : let->names) names += (names.empty() ? "" : ", ") + name.text;
        text += fmt::format("{} = {}\n", names, expression(let->value));
        for (const ast::Name& name : let->names) defined_.insert(name.text);
      } else if (const auto* out = std::get_if<ast::Out>(&statement)) {
        text += new_values(out->value) + new_outputs();
        text += fmt::format("out {} : {} {} {}\n", out->name.text, mention(tensor_text(out->tensor)),
                            out->accumulate ? "+=" : "=", expression(out->value));
      } else if (const auto* in = std::get_if<ast::In>(&statement)) {
        text += fmt::format("in {} : {}{}\n", in->name.text, mention(tensor_text(in->tensor)),
                            in->default_value ? fmt::format(" = {}", in->default_where.text()) : "");
      } else if (const auto* dim = std::get_if<ast::Dim>(&statement)) {
        std::string items;
        for (const ast::Dim::Item& item : dim->items)
          items += (items.empty() ? "" : ", ") + item.name.text + (item.value ? fmt::format(" = {}", *item.value) : "");
        text += (dim->dynamic ? "dyn " : "dim ") + items + "\n";
      } else {
        text += mention(declaration_text(statement)) + "\n";
      }
    }
    return text + new_outputs() + "}\n";
  }

 private:
  void name_outputs() {
    std::vector<SavedValue>& values = link_.saved.values;
    for (SavedValue& value : values) {
      if (value.named.empty()) {
        value.named = names_.make("h", link_.kernel.name());
        unnamed_[value.value] = value.named;
      }
      value.output = values.size() == 1 ? names_.make("pre", link_.kernel.name()) : value.named;
      waiting_.push_back(&value);
    }
  }

  std::string mention(const Text& text) {
    mentioned_.insert(text.names.begin(), text.names.end());
    return text.text;
  }

  std::string expression(const ast::Expr& expr) {
    return mention(expression_text(expr, [&](const ast::Expr& part) -> std::optional<std::string> {
      const auto found = unnamed_.find(link_.kernel.values.of(part));
      if (found == unnamed_.end()) return std::nullopt;
      return found->second;
    }));
  }

  // The products that the expression has and that get a name.
  std::string new_values(const ast::Expr& expr) {
    std::string text;
    for (const Product& product : link_.kernel.products) {
      const auto found = unnamed_.find(product.value);
      if (found == unnamed_.end() || !link_.kernel.values.depends(link_.kernel.values.of(expr), product.value))
        continue;
      if (!defined_.insert(found->second).second) continue;
      text += fmt::format("{} = {}\n", found->second, mention(expression_text(*product.call)));
    }
    return text;
  }

  // Outputs whose values are defined by now.
  std::string new_outputs() {
    std::string text;
    std::erase_if(waiting_, [&](const SavedValue* value) {
      if (defined_.count(value->named) == 0) return false;
      text += fmt::format("out {} : {} = {}\n", value->output, tensor_text(value->tensor).text, value->named);
      return true;
    });
    return text;
  }

  Link& link_;
  Names& names_;
  std::set<std::string>& mentioned_;
  std::map<ValueId, std::string> unnamed_;
  std::set<std::string> defined_;
  std::vector<SavedValue*> waiting_;
};

}  // namespace

std::string saving_forward(Link& link, Names& names, std::set<std::string>& mentioned) {
  return SavingForward(link, names, mentioned).run();
}

}  // namespace epifuse::chain
