// Matching arguments with a recipe: sizes, strides, and what is said when they do not fit.
#include "runtime/arguments.h"

#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::runtime;
using test::sample_arguments;
using test::tensor;

namespace {

const CompiledRecipe& compiled() {
  static const CompiledRecipe recipe(test::sample_recipe());
  return recipe;
}

std::string complaint(const std::function<void(Arguments&)>& change) {
  Arguments a = sample_arguments();
  change(a);
  const auto r = resolve_arguments(compiled(), a, 132);
  return r ? "" : r.error().message;
}

std::optional<int64_t> slot(const ResolvedArguments& r, std::string_view name) {
  return r.slots[static_cast<size_t>(*compiled().slot(name))];
}

}  // namespace

TEST_CASE("launch symbols are read off the extents") {
  const Arguments a = sample_arguments();
  const auto r = resolve_arguments(compiled(), a, 132);
  REQUIRE(r);
  CHECK(slot(*r, "M") == 300);
  CHECK(slot(*r, "K") == 64);
  CHECK(slot(*r, "sm_count") == 132);
  CHECK(slot(*r, "x.stride0") == 64);
  CHECK(slot(*r, "w.stride0") == 96 * 64);
  CHECK(slot(*r, "w.stride1") == 64);
  CHECK(r->tensors[0].bytes == 300 * 64 * 2);
  CHECK(r->tensors[3].bytes == 300 * 96);
}

TEST_CASE("a launch symbol may stand inside an extent that can be inverted") {
  LaunchRecipe recipe = test::sample_recipe();
  const IntExpr s = IntExpr::symbol("S");
  recipe.symbols.push_back({"S", SymbolKind::launch, 1});
  recipe.tensors.push_back(
      {"z", Storage::f32, TensorRole::input, {ceil_div(s, 2), s * 3 + IntExpr::symbol("M")}, false, 4});
  const CompiledRecipe with_s(recipe);
  Arguments a = sample_arguments();
  a.tensors.push_back({"z", 0xc0000, {5, 3 * 9 + 300}});
  const auto r = resolve_arguments(with_s, a, 132);
  REQUIRE(r);
  CHECK(r->slots[static_cast<size_t>(*with_s.slot("S"))] == 9);
  a.tensors.back().extents[0] = 4;
  CHECK(resolve_arguments(with_s, a, 132).error().message ==
        "tensor 'z' has shape [4, 327], wanted [ceil(S / 2), S * 3 + M]: axis 0 is 4, wanted 5 (S = 9 from tensor "
        "'z')");
  a.tensors.back().extents = {5, 328};  // no whole number of S
  CHECK(resolve_arguments(with_s, a, 132).error().message ==
        "the size 'S' of kernel 'grouped' cannot be read off any tensor that is bound");
}

TEST_CASE("rows of 4-bit codes are whole bytes") {
  LaunchRecipe recipe = test::sample_recipe();
  recipe.symbols.push_back({"S", SymbolKind::launch, 1});
  recipe.tensors.push_back({"q", Storage::e2m1, TensorRole::output, {4, 3 * IntExpr::symbol("S")}, false, 1, "", 0});
  const CompiledRecipe with_codes(recipe);
  Arguments a = sample_arguments();
  a.tensors.push_back({"q", 0xc0000, {4, 15}});
  // The interpreter says the same (tests/interpreter/stores_test.cpp).
  CHECK(resolve_arguments(with_codes, a, 132).error().message ==
        "'q' has two e2m1 codes in a byte, and its last dimension, S * 3 = 15, is odd");
  a.tensors.back().extents = {4, 18};
  CHECK(resolve_arguments(with_codes, a, 132));
}

TEST_CASE("names must match") {
  CHECK(complaint([](Arguments& a) { a.tensors.pop_back(); }) ==
        "tensor 'y.scale' (e8m0[M, ceil(N / 32)]) of kernel 'grouped' is not given");
  CHECK(complaint([](Arguments& a) { tensor(a, "M.ends").name = "M.end"; }) ==
        "kernel 'grouped' has no tensor 'M.end' (did you mean 'M.ends'?); it has x, w, M.ends, y, y.scale");
  CHECK(complaint([](Arguments& a) { a.tensors.push_back(a.tensors[0]); }) == "tensor 'x' is given twice");
  CHECK(complaint([](Arguments& a) { a.dims.erase(a.dims.begin()); }) ==
        "dimension 'K' of kernel 'grouped' has no value");
}

TEST_CASE("element types, ranks and extents must match, and the message has both") {
  CHECK(complaint([](Arguments& a) { tensor(a, "x").storage = Storage::f16; }) == "tensor 'x' is f16, wanted bf16");
  CHECK(complaint([](Arguments& a) {
          tensor(a, "w").extents = {384, 64};
        }) == "tensor 'w' has shape [384, 64], wanted [E, N, K]");
  CHECK(complaint([](Arguments& a) { tensor(a, "y").extents[0] = 299; }) ==
        "tensor 'y' has shape [299, 96], wanted [M, N]: axis 0 is 299, wanted 300 (M = 300 from tensor 'x')");
  CHECK(complaint([](Arguments& a) { tensor(a, "y.scale").extents[1] = 4; }) ==
        "tensor 'y.scale' has shape [300, 4], wanted [M, ceil(N / 32)]: axis 1 is 4, wanted 3 (N = 96)");
  CHECK(complaint([](Arguments& a) { tensor(a, "x").extents[0] = -1; }) == "tensor 'x' has a negative extent -1");
  CHECK(complaint([](Arguments& a) {
          a.dims[0].value = 60;
          tensor(a, "x").extents[1] = tensor(a, "w").extents[2] = 60;
        }) == "dimension 'K' is 60; kernel 'grouped' needs a multiple of 8");
}

TEST_CASE("sizes that overflow are refused") {
  CHECK(complaint([](Arguments& a) {
          const int64_t huge = int64_t{1} << 61;
          tensor(a, "x").extents[0] = tensor(a, "y").extents[0] = tensor(a, "y.scale").extents[0] = huge;
        }).find("too many elements") != std::string::npos);
  CHECK(complaint([](Arguments& a) {
          tensor(a, "x").strides = {(int64_t{1} << 55), 1};
        }).find("spans too much memory") != std::string::npos);
}

TEST_CASE("a strided tensor may have any pitch of the wanted alignment") {
  Arguments a = sample_arguments();
  tensor(a, "x").strides = {72, 1};
  const auto r = resolve_arguments(compiled(), a, 132);
  REQUIRE(r);
  CHECK(slot(*r, "x.stride0") == 72);
  CHECK(r->tensors[0].bytes == (299 * 72 + 64) * 2);

  CHECK(complaint([](Arguments& a) {
          tensor(a, "x").strides = {68, 1};
        }) ==
        "tensor 'x': the stride of axis 0 is 68 elements (136 bytes), wanted a multiple of 16 bytes (rows are read by "
        "TMA)");
  CHECK(complaint([](Arguments& a) {
          tensor(a, "x").strides = {64, 2};
        }).find("the stride of axis 1 is 2, wanted 1") != std::string::npos);
  CHECK(complaint([](Arguments& a) { tensor(a, "x").strides = {-64, 1}; }).find("out of range") != std::string::npos);
  CHECK(complaint([](Arguments& a) { tensor(a, "x").strides = {64}; }) == "tensor 'x' has 2 extents but 1 strides");
  CHECK(complaint([](Arguments& a) {
          tensor(a, "w").strides = {96 * 72, 72, 1};
        }) ==
        "tensor 'w' of shape [4, 96, 64] has strides [6912, 72, 1]: the stride of axis 0 is 6912, wanted 6144 (it must "
        "be contiguous)");
}

TEST_CASE("the stride of an axis of one element means nothing") {
  Arguments a = sample_arguments();
  tensor(a, "x").extents[0] = tensor(a, "y").extents[0] = tensor(a, "y.scale").extents[0] = 1;
  tensor(a, "x").strides = {3, 1};
  tensor(a, "y").strides = {7, 1};
  const auto r = resolve_arguments(compiled(), a, 132);
  REQUIRE(r);
  CHECK(slot(*r, "x.stride0") == 64);
}

TEST_CASE("an output must not fold onto itself, an input may repeat rows") {
  LaunchRecipe recipe = test::sample_recipe();
  recipe.tensors[3].strided = true;
  const CompiledRecipe strided(recipe);
  Arguments a = sample_arguments();
  tensor(a, "y").strides = {80, 1};
  const auto r = resolve_arguments(strided, a, 132);
  REQUIRE_FALSE(r);
  CHECK(r.error().message == "tensor 'y' is an output, and its strides [80, 1] put several elements in one place");
  tensor(a, "y").strides = {112, 1};
  CHECK(resolve_arguments(strided, a, 132));
  CHECK(complaint([](Arguments& b) { tensor(b, "x").strides = {0, 1}; }).empty());
}

TEST_CASE("zero rows are a size like any other") {
  Arguments a = sample_arguments();
  tensor(a, "x").extents[0] = tensor(a, "y").extents[0] = tensor(a, "y.scale").extents[0] = 0;
  tensor(a, "x").pointer = tensor(a, "y").pointer = 0;
  const auto r = resolve_arguments(compiled(), a, 132);
  REQUIRE(r);
  CHECK(slot(*r, "M") == 0);
  CHECK(r->tensors[0].bytes == 0);
}
