// The launch recipe as canonical JSON: every key is always written, in one order, and expressions as their text.
//
// A warm start writes the recipe of each plan that it looks up, into the artifact key. A tree of JSON values would be
// most of what that costs, so the text is written straight away.
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/launch_recipe_names.h"
#include "base/version.h"

namespace epifuse {
namespace {

template <class E>
std::string_view name_of(const Names<E>& names, E value) {
  for (const auto& [e, name] : names) {
    if (e == value) return name;
  }
  return "";
}

// Whether JSON writes the text as it is.
bool is_plain(std::string_view text) {
  for (const char c : text) {
    if (c < ' ' || c > '~' || c == '"' || c == '\\') return false;
  }
  return true;
}

// JSON text that grows: values one behind the other, with commas and keys between them.
class Writer {
 public:
  template <class F>
  void object(F body) {
    separate();
    text_ += '{';
    body();
    text_ += '}';
  }

  template <class List, class F>
  void list(const List& items, F each) {
    separate();
    text_ += '[';
    for (const auto& item : items) each(item);
    text_ += ']';
  }

  Writer& key(std::string_view name) {
    separate();
    text_.append("\"").append(name).append("\":");
    return *this;
  }

  void write(std::string_view value) {
    separate();
    if (is_plain(value)) {
      text_.append("\"").append(value).append("\"");
    } else {
      // Names are checked to be ASCII by validate(); what is not UTF-8 elsewhere is replaced rather than thrown upon.
      text_ += nlohmann::json(value).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    }
  }

  void write(int64_t value) {
    separate();
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  void write(bool value) {
    separate();
    text_ += value ? "true" : "false";
  }

  void write(const IntExpr& value) {
    if (const auto constant = value.constant())
      write(*constant);
    else
      write(std::string_view(value.text()));
  }

  // JSON has no infinities and no NaN; `const` arithmetic in a spec can yield them.
  void write(const std::optional<double>& value) {
    if (value && std::isnan(*value)) return write(std::string_view("nan"));
    if (value && std::isinf(*value)) return write(std::string_view(*value > 0 ? "inf" : "-inf"));
    separate();
    text_ += value ? nlohmann::json(*value).dump() : "null";
  }

  void write(const std::vector<IntExpr>& values) {
    list(values, [&](const IntExpr& value) { write(value); });
  }
  void write(const std::vector<uint32_t>& values) {
    list(values, [&](uint32_t value) { write(int64_t{value}); });
  }

  void write(const RecipeTensor& t) {
    object([&] {
      key("name").write(std::string_view(t.name));
      key("storage").write(storage_name(t.storage));
      key("role").write(name_of(role_names, t.role));
      key("extents").write(t.extents);
      key("strided").write(t.strided);
      key("alignment").write(int64_t{t.alignment});
      key("pitch_note").write(std::string_view(t.pitch_note));
      key("group_align").write(t.group_align);
      key("group_slot").write(t.group_slot);
      key("pointer_axes").write(int64_t{t.pointer_axes});
    });
  }

  void write(const RecipeSymbol& s) {
    object([&] {
      key("name").write(std::string_view(s.name));
      key("kind").write(name_of(symbol_kind_names, s.kind));
      key("multiple").write(s.multiple);
    });
  }

  void write(const RecipeParam& p) {
    object([&] {
      key("name").write(std::string_view(p.name));
      key("default").write(p.default_value);
    });
  }

  void write(const TensorMapRecipe& m) {
    object([&] {
      key("tensor").write(std::string_view(m.tensor));
      key("type").write(name_of(map_type_names, m.type));
      key("byte_offset").write(m.byte_offset);
      key("extents").write(m.extents);
      key("strides").write(m.strides);
      key("box").write(m.box);
      key("element_strides").write(m.element_strides);
      key("swizzle").write(name_of(swizzle_names, m.swizzle));
    });
  }

  void write(const ParameterField& f) {
    object([&] {
      key("name").write(std::string_view(f.name));
      key("kind").write(name_of(field_kind_names, f.kind));
      key("offset").write(int64_t{f.offset});
      key("size").write(int64_t{f.size});
      key("tensor").write(std::string_view(f.tensor));
      key("value").write(f.value);
      key("index").write(int64_t{f.index});
    });
  }

  void write(const RecipeStep& s) {
    object([&] {
      key("kind").write(name_of(step_kind_names, s.kind));
      if (s.kind == RecipeStep::Kind::memset) {
        key("workspace_offset").write(s.workspace_offset);
        key("bytes").write(s.bytes);
        return;
      }
      key("entry").write(std::string_view(s.entry));
      key("block").write(int64_t{s.block});
      key("shared_bytes").write(int64_t{s.shared_bytes});
      key("grid").write(s.grid);
      key("waits").write(s.waits);
      key("parameter_bytes").write(int64_t{s.parameter_bytes});
      key("fields").write_each(s.fields);
    });
  }

  template <class T>
  void write_each(const std::vector<T>& items) {
    list(items, [&](const T& item) { write(item); });
  }

  std::string take() { return std::move(text_); }

 private:
  // A comma, unless this is the first of an object or a list, or the value of a key.
  void separate() {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '[' && text_.back() != ':') text_ += ',';
  }

  std::string text_;
};

}  // namespace

std::string LaunchRecipe::to_json() const {
  Writer out;
  out.object([&] {
    out.key("recipe").write(int64_t{recipe_version});
    out.key("kernel").write(std::string_view(kernel));
    out.key("target").write(std::string_view(target));
    out.key("tensors").write_each(tensors);
    out.key("symbols").write_each(symbols);
    out.key("params").write_each(params);
    out.key("maps").write_each(maps);
    out.key("steps").write_each(steps);
    out.key("workspace_bytes").write(workspace_bytes);
  });
  return out.take();
}

}  // namespace epifuse
