// The launch recipe as canonical JSON: every key is always written, in one order, and expressions as their text.
//
// Reading is strict: a key that is missing, unknown, or of another type is an error that names its place. What the
// numbers mean is judged afterwards, by validate() (launch_recipe_check.cpp).
#include "base/launch_recipe.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/version.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

template <class E>
using Names = std::vector<std::pair<E, std::string_view>>;

const Names<TensorRole> role_names = {
    {TensorRole::input, "input"}, {TensorRole::output, "output"}, {TensorRole::group_sizes, "group_sizes"}};
const Names<SymbolKind> symbol_kind_names = {{SymbolKind::fixed, "fixed"}, {SymbolKind::launch, "launch"}};
const Names<Swizzle> swizzle_names = {
    {Swizzle::none, "none"}, {Swizzle::b32, "32B"}, {Swizzle::b64, "64B"}, {Swizzle::b128, "128B"}};
const Names<TensorMapType> map_type_names = {
    {TensorMapType::u8, "u8"}, {TensorMapType::f16, "f16"}, {TensorMapType::bf16, "bf16"}, {TensorMapType::f32, "f32"}};
const Names<FieldKind> field_kind_names = {{FieldKind::tensor_map, "tensor_map"},
                                           {FieldKind::address, "address"},
                                           {FieldKind::integer32, "integer32"},
                                           {FieldKind::integer64, "integer64"},
                                           {FieldKind::param, "param"}};
const Names<RecipeStep::Kind> step_kind_names = {{RecipeStep::Kind::launch, "launch"},
                                                 {RecipeStep::Kind::memset, "memset"}};

template <class E>
std::string_view name_of(const Names<E>& names, E value) {
  for (const auto& [e, name] : names) {
    if (e == value) return name;
  }
  return "";
}

// ---- writing

Json write(const IntExpr& e) {
  if (const auto value = e.constant()) return *value;
  return e.text();
}

Json write(const std::vector<IntExpr>& list) {
  Json out = Json::array();
  for (const IntExpr& e : list) out.push_back(write(e));
  return out;
}

// JSON has no infinities and no NaN; `const` arithmetic in a spec can yield them.
Json write(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isnan(*value)) return "nan";
  if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
  return *value;
}

Json write(const RecipeTensor& t) {
  return {{"name", t.name},
          {"storage", storage_name(t.storage)},
          {"role", name_of(role_names, t.role)},
          {"extents", write(t.extents)},
          {"strided", t.strided},
          {"alignment", t.alignment},
          {"pitch_note", t.pitch_note},
          {"group_align", t.group_align},
          {"group_slot", write(t.group_slot)},
          {"pointer_axes", t.pointer_axes}};
}

Json write(const TensorMapRecipe& m) {
  return {{"tensor", m.tensor},
          {"type", name_of(map_type_names, m.type)},
          {"byte_offset", write(m.byte_offset)},
          {"extents", write(m.extents)},
          {"strides", write(m.strides)},
          {"box", m.box},
          {"element_strides", m.element_strides},
          {"swizzle", name_of(swizzle_names, m.swizzle)}};
}

Json write(const ParameterField& f) {
  return {{"name", f.name},     {"kind", name_of(field_kind_names, f.kind)},
          {"offset", f.offset}, {"size", f.size},
          {"tensor", f.tensor}, {"value", write(f.value)},
          {"index", f.index}};
}

Json write(const RecipeStep& s) {
  if (s.kind == RecipeStep::Kind::memset) {
    return {{"kind", name_of(step_kind_names, s.kind)},
            {"workspace_offset", write(s.workspace_offset)},
            {"bytes", write(s.bytes)}};
  }
  Json fields = Json::array();
  for (const ParameterField& f : s.fields) fields.push_back(write(f));
  return {{"kind", name_of(step_kind_names, s.kind)},
          {"entry", s.entry},
          {"block", s.block},
          {"shared_bytes", s.shared_bytes},
          {"grid", write(s.grid)},
          {"parameter_bytes", s.parameter_bytes},
          {"fields", std::move(fields)}};
}

// ---- reading

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

std::string LaunchRecipe::to_json() const {
  Json out = {{"recipe", recipe_version}, {"kernel", kernel}, {"target", target}};
  out["tensors"] = Json::array();
  for (const RecipeTensor& t : tensors) out["tensors"].push_back(write(t));
  out["symbols"] = Json::array();
  for (const RecipeSymbol& s : symbols) {
    out["symbols"].push_back(
        {{"name", s.name}, {"kind", name_of(symbol_kind_names, s.kind)}, {"multiple", s.multiple}});
  }
  out["params"] = Json::array();
  for (const RecipeParam& p : params) {
    out["params"].push_back({{"name", p.name}, {"default", write(p.default_value)}});
  }
  out["maps"] = Json::array();
  for (const TensorMapRecipe& m : maps) out["maps"].push_back(write(m));
  out["steps"] = Json::array();
  for (const RecipeStep& s : steps) out["steps"].push_back(write(s));
  out["workspace_bytes"] = write(workspace_bytes);
  // Names are checked to be ASCII by validate(); what is not UTF-8 elsewhere is replaced rather than thrown upon.
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<LaunchRecipe> LaunchRecipe::from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return user_error("launch recipe: not JSON");
  std::optional<Error> error;
  Reader in(json, "", error);
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
