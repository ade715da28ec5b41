// Reading a launch recipe from the JSON of launch_recipe_writer.cpp, strictly: a key that is missing, unknown, or of
// another type is an error that names its place. What the numbers mean is judged afterwards, by validate()
// (launch_recipe_check.cpp).
#include "base/launch_recipe.h"

#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/launch_recipe_names.h"
#include "base/version.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

// One JSON object being read. The first mistake is kept, later reads yield defaults, so that callers read all keys in
// a row and ask once. `done` refuses keys that nobody asked for.
class Reader {
 public:
  Reader(const Json& object, std::string place, std::optional<Error>& error)
      : object_(object), place_(std::move(place)), error_(error) {
    if (!object_.is_object()) fail("the whole", "an object");
  }

  std::string text(const char* key) {
    const Json* value = get(key);
    if (!value) return "";
    if (!value->is_string()) return fail(key, "a string"), "";
    return value->get<std::string>();
  }

  bool boolean(const char* key) {
    const Json* value = get(key);
    if (!value) return false;
    if (!value->is_boolean()) return fail(key, "true or false"), false;
    return value->get<bool>();
  }

  template <class I>
  I integer(const char* key) {
    const Json* value = get(key);
    return value ? integer_of<I>(key, *value) : I{};
  }

  template <class E>
  E one_of(const char* key, const Names<E>& names) {
    const std::string word = text(key);
    for (const auto& [e, name] : names) {
      if (name == word) return e;
    }
    fail(key, "a known name");
    return names.front().first;
  }

  IntExpr expression(const char* key) {
    const Json* value = get(key);
    return value ? expression_of(key, *value) : IntExpr(0);
  }

  std::vector<IntExpr> expressions(const char* key) {
    std::vector<IntExpr> list;
    for_each(key, [&](const Json& value) { list.push_back(expression_of(key, value)); });
    return list;
  }

  std::vector<uint32_t> integers(const char* key) {
    std::vector<uint32_t> list;
    for_each(key, [&](const Json& value) { list.push_back(integer_of<uint32_t>(key, value)); });
    return list;
  }

  std::optional<double> number_or_none(const char* key) {
    const Json* value = get(key);
    if (!value || value->is_null()) return std::nullopt;
    if (value->is_number()) return value->get<double>();
    const std::string word = value->is_string() ? value->get<std::string>() : "";
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
    fail(key, "a number or null");
    return std::nullopt;
  }

  // Reads each element of the list `key` with `read(Reader&)`.
  template <class T, class F>
  std::vector<T> objects(const char* key, F read) {
    std::vector<T> list;
    for_each(key, [&](const Json& value) {
      Reader item(value, fmt::format("{}{}[{}].", place_, key, list.size()), error_);
      list.push_back(read(item));
      item.done();
    });
    return list;
  }

  void done() {
    if (!error_ && object_.size() != asked_) fail("the whole", fmt::format("{} keys, not {}", asked_, object_.size()));
  }

  void fail(const std::string& key, std::string_view expected) {
    if (!error_) error_ = user_error(fmt::format("launch recipe: {}{} must be {}", place_, key, expected));
  }

 private:
  const Json* get(const char* key) {
    ++asked_;
    if (error_) return nullptr;
    const auto it = object_.find(key);
    if (it != object_.end()) return &*it;
    fail(key, "present");
    return nullptr;
  }

  template <class F>
  void for_each(const char* key, F read) {
    const Json* list = get(key);
    if (!list) return;
    if (!list->is_array()) return fail(key, "a list");
    for (const Json& value : *list) {
      if (error_) return;
      read(value);
    }
  }

  template <class I>
  I integer_of(const char* key, const Json& value) {
    if (value.is_number_unsigned()) {
      const auto wide = value.get<uint64_t>();
      if (wide <= static_cast<uint64_t>(std::numeric_limits<I>::max())) return static_cast<I>(wide);
    } else if (value.is_number_integer()) {
      const auto wide = value.get<int64_t>();
      if (std::numeric_limits<I>::is_signed && wide >= static_cast<int64_t>(std::numeric_limits<I>::min())) {
        return static_cast<I>(wide);
      }
    }
    fail(key, "a whole number in range");
    return I{};
  }

  IntExpr expression_of(const char* key, const Json& value) {
    if (value.is_number()) return integer_of<int64_t>(key, value);
    if (!value.is_string()) return fail(key, "an integer expression"), IntExpr(0);
    auto parsed = parse_int_expr(value.get_ref<const std::string&>());
    if (parsed) return *parsed;
    if (!error_) error_ = user_error(fmt::format("launch recipe: {}{}: {}", place_, key, parsed.error().message));
    return 0;
  }

  const Json& object_;
  std::string place_;
  std::optional<Error>& error_;
  size_t asked_ = 0;
};

RecipeTensor read_tensor(Reader& in) {
  RecipeTensor t;
  t.name = in.text("name");
  if (const auto storage = parse_storage(in.text("storage"))) {
    t.storage = *storage;
  } else {
    in.fail("storage", "an element type");
  }
  t.role = in.one_of("role", role_names);
  t.extents = in.expressions("extents");
  t.strided = in.boolean("strided");
  t.alignment = in.integer<int>("alignment");
  t.pitch_note = in.text("pitch_note");
  t.group_align = in.integer<int64_t>("group_align");
  t.group_slot = in.expression("group_slot");
  t.pointer_axes = in.integer<int>("pointer_axes");
  return t;
}

TensorMapRecipe read_map(Reader& in) {
  TensorMapRecipe m;
  m.tensor = in.text("tensor");
  m.type = in.one_of("type", map_type_names);
  m.byte_offset = in.expression("byte_offset");
  m.extents = in.expressions("extents");
  m.strides = in.expressions("strides");
  m.box = in.integers("box");
  m.element_strides = in.integers("element_strides");
  m.swizzle = in.one_of("swizzle", swizzle_names);
  return m;
}

ParameterField read_field(Reader& in) {
  ParameterField f;
  f.name = in.text("name");
  f.kind = in.one_of("kind", field_kind_names);
  f.offset = in.integer<uint32_t>("offset");
  f.size = in.integer<uint32_t>("size");
  f.tensor = in.text("tensor");
  f.value = in.expression("value");
  f.index = in.integer<int>("index");
  return f;
}

RecipeStep read_step(Reader& in) {
  RecipeStep s;
  s.kind = in.one_of("kind", step_kind_names);
  if (s.kind == RecipeStep::Kind::memset) {
    s.workspace_offset = in.expression("workspace_offset");
    s.bytes = in.expression("bytes");
    return s;
  }
  s.entry = in.text("entry");
  s.block = in.integer<uint32_t>("block");
  s.shared_bytes = in.integer<uint32_t>("shared_bytes");
  s.grid = in.expression("grid");
  s.waits = in.boolean("waits");
  s.parameter_bytes = in.integer<uint32_t>("parameter_bytes");
  s.fields = in.objects<ParameterField>("fields", read_field);
  return s;
}

}  // namespace

const RecipeTensor* LaunchRecipe::find_tensor(std::string_view name) const {
  for (const RecipeTensor& t : tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

bool LaunchRecipe::is_of_other_version(std::string_view text) {
  const Result<Json> json = read_json(text);
  if (!json) return false;
  std::optional<Error> error;
  const int version = Reader(*json, "", error).integer<int>("recipe");
  return !error && version != recipe_version;
}

Result<LaunchRecipe> LaunchRecipe::from_json(std::string_view text) {
  const Result<Json> json = read_json(text);
  if (!json) return user_error(fmt::format("launch recipe: {}", json.error().message));
  std::optional<Error> error;
  Reader in(*json, "", error);
  const int version = in.integer<int>("recipe");
  if (!error && version != recipe_version) {
    return user_error(fmt::format("launch recipe: version {}, this build reads {}", version, recipe_version));
  }
  LaunchRecipe r;
  r.kernel = in.text("kernel");
  r.target = in.text("target");
  r.tensors = in.objects<RecipeTensor>("tensors", read_tensor);
  r.symbols = in.objects<RecipeSymbol>("symbols", [](Reader& item) {
    return RecipeSymbol{item.text("name"), item.one_of("kind", symbol_kind_names), item.integer<int64_t>("multiple")};
  });
  r.params = in.objects<RecipeParam>("params", [](Reader& item) {
    return RecipeParam{item.text("name"), item.number_or_none("default")};
  });
  r.maps = in.objects<TensorMapRecipe>("maps", read_map);
  r.steps = in.objects<RecipeStep>("steps", read_step);
  r.workspace_bytes = in.expression("workspace_bytes");
  in.done();
  if (error) return *error;
  if (const Status valid = r.validate(); !valid) return valid.error();
  return r;
}

}  // namespace epifuse
