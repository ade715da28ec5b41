// The launch recipe: canonical JSON, strict reading, and validation.
#include "base/launch_recipe.h"

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/sample_recipe.h"

using namespace epifuse;

namespace {

// What validate() says of the sample after a change.
std::string complaint(const std::function<void(LaunchRecipe&)>& change) {
  LaunchRecipe r = test::sample_recipe();
  change(r);
  const Status s = r.validate();
  // Reading must find what validating finds.
  CHECK(static_cast<bool>(LaunchRecipe::from_json(r.to_json())) == static_cast<bool>(s));
  return s ? "" : s.error().message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string read_error(const std::string& text) {
  const auto r = LaunchRecipe::from_json(text);
  return r ? "" : r.error().message;
}

}  // namespace

TEST_CASE("a recipe survives its JSON, byte for byte") {
  LaunchRecipe r = test::sample_recipe();
  r.steps[2].waits = true;
  REQUIRE(r.validate());
  const std::string json = r.to_json();
  const auto back = LaunchRecipe::from_json(json);
  REQUIRE(back);
  CHECK(back->to_json() == json);
  CHECK(back->tensors.size() == 5);
  CHECK(back->find_tensor("y.scale")->extents[1].text() == "ceil_div(N, 32)");
  CHECK(back->find_tensor("x")->strided);
  CHECK(back->find_tensor("nothing") == nullptr);
  CHECK(back->symbols[3].kind == SymbolKind::launch);
  CHECK(back->params[0].default_value == 1.5);
  CHECK_FALSE(back->params[1].default_value);
  CHECK(back->tensors[1].pointer_axes == 0);
  CHECK(back->maps[1].strides[1] == r.maps[1].strides[1]);
  CHECK(back->steps[1].fields[7].value.text() == "sm_count");
  CHECK(back->steps[0].kind == RecipeStep::Kind::memset);
  CHECK_FALSE(back->steps[1].waits);
  CHECK(back->steps[2].waits);
}

TEST_CASE("the text is what a JSON library writes of it: compact, ASCII, every text escaped") {
  LaunchRecipe r = test::sample_recipe();
  r.tensors[0].pitch_note = "a \"note\" with \\ and \n, \x7f, \xc3\xa9";
  r.params = {{"a", 0.1}, {"b", -0.0}, {"c", 1e300}, {"d", 7.0}, {"e", std::nullopt}};
  const std::string json = r.to_json();
  const auto parsed = nlohmann::ordered_json::parse(json);
  CHECK(parsed.dump(-1, ' ', true) == json);
  CHECK(parsed["tensors"][0]["pitch_note"].get<std::string>() == r.tensors[0].pitch_note);
  r.tensors[0].pitch_note = "not \xff UTF-8";  // is replaced, not thrown upon
  CHECK(nlohmann::ordered_json::parse(r.to_json())["tensors"][0]["pitch_note"] == "not \xef\xbf\xbd UTF-8");
}

TEST_CASE("numbers that JSON lacks survive as defaults of params") {
  LaunchRecipe r = test::sample_recipe();
  const double inf = std::numeric_limits<double>::infinity();
  r.params = {{"a", inf}, {"b", -inf}, {"c", std::nan("")}, {"d", 0.1}, {"e", -0.0}};
  for (RecipeStep& s : r.steps) s.fields.clear();
  const auto back = LaunchRecipe::from_json(r.to_json());
  REQUIRE(back);
  CHECK(back->params[0].default_value == inf);
  CHECK(back->params[1].default_value == -inf);
  CHECK(std::isnan(*back->params[2].default_value));
  CHECK(back->params[3].default_value == 0.1);
  CHECK(std::signbit(*back->params[4].default_value));
}

TEST_CASE("reading is strict and says where") {
  const std::string json = test::sample_recipe().to_json();
  CHECK(read_error("") == "launch recipe: no JSON (character 1)");
  CHECK(read_error("[]") == "launch recipe: the whole must be an object");
  CHECK(read_error(replaced(json, "\"recipe\":4", "\"recipe\":3")) == "launch recipe: version 3, this build reads 4");
  CHECK(read_error(replaced(json, "\"strided\":true", "\"strided\":1")) ==
        "launch recipe: tensors[0].strided must be true or false");
  CHECK(read_error(replaced(json, "\"storage\":\"e4m3\"", "\"storage\":\"e9m9\"")) ==
        "launch recipe: tensors[3].storage must be an element type");
  CHECK(read_error(replaced(json, "\"kind\":\"tensor_map\"", "\"kind\":\"tensor\"")) ==
        "launch recipe: steps[1].fields[0].kind must be a known name");
  CHECK(read_error(replaced(json, "\"block\":384", "\"block\":-1")) ==
        "launch recipe: steps[1].block must be a whole number in range");
  CHECK(read_error(replaced(json, "\"block\":384", "\"block\":4294967296")) ==
        "launch recipe: steps[1].block must be a whole number in range");
  CHECK(read_error(replaced(json, "\"block\":384", "\"block\":384,\"cluster\":2")) != "");
  CHECK(read_error(replaced(json, "\"block\":384,", "")) == "launch recipe: steps[1].block must be present");
  CHECK(read_error(replaced(json, "ceil_div(N, 32)", "ceil_div(N, 32")) != "");
}

TEST_CASE("a symbol that nobody declares is refused in every place of a recipe") {
  using Json = nlohmann::ordered_json;
  const Json whole = Json::parse(test::sample_recipe().to_json());
  const Json leaves = whole.flatten();
  size_t places = 0;
  for (const auto& [path, leaf] : leaves.items()) {
    if (path.ends_with("pitch_note")) continue;  // any text
    Json changed = whole;
    changed[Json::json_pointer(path)] = "nosuch + 1";
    INFO(path);
    CHECK_FALSE(LaunchRecipe::from_json(changed.dump()));
    ++places;
  }
  CHECK(places > 200);
}

TEST_CASE("validation finds what the runtime relies on") {
  CHECK(complaint([](LaunchRecipe&) {}).empty());
  CHECK(complaint([](auto& r) { r.steps[1].fields[2].offset = 252; }).find("overlaps the field before it") !=
        std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields[3].offset = 260; }).find("overlaps") != std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields[6].offset = 290; }).find("at a multiple of 4") != std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields[1].offset = 160, r.steps[1].parameter_bytes = 400; }) != "");
  CHECK(complaint([](auto& r) { r.steps[1].fields.back().offset = 316; }).find("past the parameter bytes") !=
        std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields.back().offset = 4294967288U; }) != "");
  CHECK(complaint([](auto& r) { r.steps[1].fields[0].index = 2; }).find("names no map") != std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields[8].index = -1; }).find("names no param") != std::string::npos);
  CHECK(complaint([](auto& r) { r.steps[1].fields[2].tensor = "nobody"; }).find("names no tensor: 'nobody'") !=
        std::string::npos);
  CHECK(complaint([](auto& r) { r.maps[0].tensor = "nobody"; }) == "launch recipe: maps[0] names no tensor: 'nobody'");
  CHECK(complaint([](auto& r) { r.maps[0].box = {64}; }) != "");
  CHECK(complaint([](auto& r) {
          r.maps[0].box = {128, 128};
        }).find("more than its swizzle's 128") != std::string::npos);
  CHECK(complaint([](auto& r) { r.maps[0].box = {4, 128}; }).find("multiple of 16") != std::string::npos);
  CHECK(complaint([](auto& r) { r.maps[0].element_strides = {1, 9}; }) != "");
  CHECK(complaint([](auto& r) { r.tensors[1].name = "x"; }) != "");
  CHECK(complaint([](auto& r) { r.tensors[0].name = "workspace"; }) != "");
  CHECK(complaint([](auto& r) { r.tensors[0].alignment = 12; }) != "");
  CHECK(complaint([](auto& r) { r.tensors[2].storage = Storage::f32; }).find("holds group sizes") != std::string::npos);
  CHECK(complaint([](auto& r) { r.tensors[0].extents[0] = IntExpr::symbol("T"); }) ==
        "launch recipe: tensors[0] uses 'T', which is unknown there");
  // What is known at a launch only must not decide a shape.
  CHECK(complaint([](auto& r) { r.tensors[0].extents[0] = IntExpr::symbol("sm_count"); }) != "");
  CHECK(complaint([](auto& r) { r.maps[0].extents[0] = IntExpr::symbol("sm_count"); }) != "");
  CHECK(complaint([](auto& r) { r.symbols[0].name = "x.stride0"; }) != "");
  CHECK(complaint([](auto& r) { r.symbols[0].multiple = 0; }) != "");
  CHECK(complaint([](auto& r) { r.steps.clear(); }) == "launch recipe: steps must not be empty");
  CHECK(complaint([](auto& r) { r.steps[1].block = 2048; }) != "");
  CHECK(complaint([](auto& r) { r.steps[1].entry = "a b"; }) != "");
  CHECK(complaint([](auto& r) { r.kernel = ""; }) != "");
}

TEST_CASE("damaged JSON never crashes and never passes as another recipe silently") {
  const std::string json = test::sample_recipe().to_json();
  std::mt19937 random(11);
  for (int round = 0; round < 4000; ++round) {
    std::string text = json;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 40); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 60)); break;
        default: text.resize(at + 1);
      }
    }
    const auto r = LaunchRecipe::from_json(text);
    if (r) REQUIRE(r->validate());
  }
  CHECK_FALSE(LaunchRecipe::from_json(std::string(100000, '[')));
  CHECK_FALSE(LaunchRecipe::from_json(std::string(1000, '{')));
}

TEST_CASE("axes that select a buffer are fewer than all, survive, and have no stride") {
  LaunchRecipe r = test::sample_recipe();
  r.tensors[1].pointer_axes = 1;
  REQUIRE(r.validate());
  const auto back = LaunchRecipe::from_json(r.to_json());
  REQUIRE(back);
  CHECK(back->tensors[1].pointer_axes == 1);
  CHECK(back->to_json() == r.to_json());

  const auto with = [](int axes, const std::string& pitch) {
    return complaint([&](LaunchRecipe& changed) {
      changed.tensors[1].pointer_axes = axes;
      changed.maps[1].strides[0] = IntExpr::symbol(pitch) * 2;
    });
  };
  CHECK(with(1, "w.stride1").empty());
  CHECK(with(0, "w.stride0").empty());
  CHECK(with(1, "w.stride0") == "launch recipe: maps[1] uses 'w.stride0', which is unknown there");
  CHECK(with(2, "K").empty());
  CHECK(with(3, "K") == "launch recipe: tensors[1] must have fewer pointer axes than extents");
  CHECK(with(-1, "K") == "launch recipe: tensors[1] must have fewer pointer axes than extents");
}

TEST_CASE("a map may reach far past its tensor") {
  LaunchRecipe r = test::sample_recipe();
  const IntExpr pitch = IntExpr::symbol("x.stride0") * 2;
  const int64_t far = int64_t{1} << 30;
  r.maps[0].extents = {IntExpr::symbol("K"), far, far + 1, far + 1};
  r.maps[0].strides = {pitch, far * 16 - pitch, far * 16};
  r.maps[0].box = {64, 64, 1, 1};
  r.maps[0].element_strides = {1, 1, 1, 1};
  REQUIRE(r.validate());
  const auto back = LaunchRecipe::from_json(r.to_json());
  REQUIRE(back);
  CHECK(back->maps[0].strides[1].text() == "17179869184 - x.stride0 * 2");
  CHECK(back->maps[0].extents[3] == IntExpr(1073741825));
}
