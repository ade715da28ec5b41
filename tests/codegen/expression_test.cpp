// How numbers and operations are spelled.
#include "compiler/codegen/expression.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#include "compiler/lowering/value_clusters.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The f32 that a C++ compiler makes of a spelling.
uint32_t bits_of(std::string text) {
  INFO(text);
  constexpr std::string_view call = "__uint_as_float(0x";
  if (text.starts_with(call)) {
    REQUIRE(text.size() == call.size() + 9);
    return static_cast<uint32_t>(std::stoul(text.substr(call.size(), 8), nullptr, 16));
  }
  if (text.front() == '(') {
    REQUIRE(text.back() == ')');
    text = text.substr(1, text.size() - 2);
  } else {
    REQUIRE(text.front() != '-');  // so that "-x" of it is no "--"
  }
  REQUIRE(text.back() == 'f');
  REQUIRE(text.find_first_of(".e") != std::string::npos);  // "3f" is no number
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  REQUIRE(end == text.c_str() + text.size() - 1);
  return std::bit_cast<uint32_t>(value);
}

std::string spell(ir::Op op, const std::vector<std::string>& arguments, Storage to = Storage::f32) {
  lowering::EpilogueNode node;
  node.kind = lowering::EpilogueNode::Kind::map;
  node.op = op;
  node.to = to;
  return codegen::spell_map(node, arguments);
}

}  // namespace

TEST_CASE("a number reads back as the same f32, bit for bit") {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = random();
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;  // a signalling one would not survive the way through a double
    REQUIRE(bits_of(codegen::spell_number(value)) == bits);
  }
  for (const uint32_t bits : {0u, 0x80000000u, 1u, 0x80000001u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0xff7fffffu,
                              0x7f800000u, 0xff800000u, 0x3f800000u, 0x4b800001u})
    CHECK(bits_of(codegen::spell_number(std::bit_cast<float>(bits))) == bits);
  CHECK(std::isnan(std::bit_cast<float>(bits_of(codegen::spell_number(std::nan(""))))));
}

TEST_CASE("a number that is no f32 is rounded once") {
  CHECK(codegen::spell_number(0.1) == "0.100000001f");
  CHECK(codegen::spell_number(3) == "3.f");
  CHECK(codegen::spell_number(-3) == "(-3.f)");
  CHECK(codegen::spell_number(-0.0) == "(-0.f)");
  CHECK(codegen::spell_number(1e300) == "__uint_as_float(0x7f800000)");
  CHECK(codegen::spell_number(1e20) == "1.00000002e+20f");
}

TEST_CASE("every operation has a spelling that uses each argument") {
  const std::vector<std::string> names = {"first", "second", "third"};
  std::set<std::string> spellings;
#define EPIFUSE_OP(name, arity, kind, meaning)                                                              \
  if (ir::OpKind::kind == ir::OpKind::map && ir::Op::name != ir::Op::cast) {                                \
    INFO(#name);                                                                                            \
    const std::string text = spell(ir::Op::name, {names.begin(), names.begin() + (arity)});                 \
    for (int i = 0; i < (arity); ++i) CHECK(text.find(names[static_cast<size_t>(i)]) != std::string::npos); \
    CHECK(spellings.insert(text).second);                                                                   \
  }
#include "compiler/ir/ops.def"
#undef EPIFUSE_OP
  CHECK(spellings.size() == 22);
  for (const Storage to : {Storage::bf16, Storage::f16, Storage::e4m3, Storage::e5m2})
    CHECK(spell(ir::Op::cast, {"x"}, to) == "math::round_" + std::string(storage_name(to)) + "(x)");
  CHECK(spell(ir::Op::cast, {"x"}, Storage::f32) == "x");
  CHECK(spell(ir::Op::neg, {codegen::spell_number(-1)}) == "-(-1.f)");
  CHECK(spell(ir::Op::sub, {"x", codegen::spell_number(-1)}) == "x - (-1.f)");
}

TEST_CASE("a value is a function of its leaves, in the order of the nodes, and computes what it needs once") {
  const LoweredText result =
      lower_text(halved_spec("param limit = 7\nin b : bf16[E, 2*I]\nin unused : f32[M]\nh = gemm(x, w) + b\nf, s = "
                             "split(h)\ng = min(f, limit)\n"
                             "out y : bf16[M, I] = g * sigmoid(g) * (s + 1)\nout z : bf16[M, I] = s * unused"));
  const lowering::Epilogue& epilogue = result.plan().epilogue;
  const int root = epilogue.sinks[0].values[0];
  CHECK(
      codegen::spell_values(result.lowered.graph, epilogue, {root}, "value_y") ==
      "  static EPIFUSE_DEVICE float value_y(float sum_0, float in0_b, float param_limit, float sum_1, float in1_b) {\n"
      "    const float v2 = sum_0 + in0_b;\n    const float v4 = math::minimum(v2, param_limit);\n"
      "    const float v5 = math::sigmoid(v4);\n    const float v6 = v4 * v5;\n    const float v9 = sum_1 + in1_b;\n"
      "    const float v11 = v9 + 1.f;\n    const float v12 = v6 * v11;\n    return v12;\n  }\n");
}

TEST_CASE("several values come out through references, and share what they need") {
  const LoweredText result = lower_text(
      ragged_spec("in r : f32[M]\nh = gemm(x, w)\ne = exp(h)\nout a : bf16[M, N] = e * r\nout b : bf16[M, N] = e + r"));
  const lowering::Epilogue& epilogue = result.plan().epilogue;
  CHECK(codegen::spell_values(result.lowered.graph, epilogue,
                              {epilogue.sinks[0].values[0], epilogue.sinks[1].values[0]}, "value_3_4") ==
        "  static EPIFUSE_DEVICE void value_3_4(float& value_3, float& value_4, float sum_0, float in_r) {\n"
        "    const float v1 = expf(sum_0);\n    const float v3 = v1 * in_r;\n    const float v4 = v1 + in_r;\n"
        "    value_3 = v3;\n    value_4 = v4;\n  }\n");
  // Of a root that is a leaf, or a number.
  const LoweredText plain =
      lower_text(ragged_spec("in p : bf16[M, 2*N]\nf, s = split(p)\n"
                             "out y : bf16[M, 2*N] = grad(f * f, gemm(x, w), p)"));
  const lowering::Sink& sink = plain.plan().epilogue.sinks[0];
  const std::string text = codegen::spell_values(plain.lowered.graph, plain.plan().epilogue, sink.values, "value");
  CHECK(text.find(" = 0.f;\n") != std::string::npos);
}

TEST_CASE("a product of which only sums are wanted comes out as its factors") {
  const LoweredText result =
      lower_text(ragged_spec("in r : f32[M]\nh = gemm(x, w)\nout s : f32[M] = sum(h * exp(r))\n"
                             "out t : f32[M] = sum(h + r)\nout u : f32[E, N] = sum(h * r)"));
  const lowering::KernelPlan& plan = result.plan();
  std::vector<int> products;
  for (const lowering::ValueCluster& cluster : lowering::value_clusters(plan.epilogue))
    for (const lowering::SinkGroup& group : cluster.groups)
      if (lowering::sums_products(plan, group)) products.push_back(group.values[0]);
  // Not the sum, and not the product whose sums run over rows.
  REQUIRE(products == std::vector<int>{plan.epilogue.sinks[0].values[0]});
  const int root = products[0];
  CHECK(codegen::spell_values(result.lowered.graph, plan.epilogue, {root}, "value", {root}) ==
        fmt::format("  static EPIFUSE_DEVICE void value(float& first_{0}, float& second_{0}, float sum_0, float in_r) "
                    "{{\n    const float v2 = expf(in_r);\n    first_{0} = sum_0;\n    second_{0} = v2;\n  }}\n",
                    root));
}

TEST_CASE("leaves of different inputs never share a name") {
  // A half of b, and an input that is called like one.
  const LoweredText result =
      lower_text(halved_spec("in b : bf16[E, 2*I]\nin b_0 : bf16[E, I]\nin b_1 : f32[M]\nin sum_0 : f32\nparam v2 = 1\n"
                             "f, s = split(gemm(x, w) + b)\nout y : bf16[M, I] = f * s + b_0 + b_1 + sum_0 + v2"));
  const lowering::Epilogue& epilogue = result.plan().epilogue;
  std::set<std::string> names;
  size_t leaves = 0;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const auto kind = epilogue.nodes[i].kind;
    if (kind == lowering::EpilogueNode::Kind::map || kind == lowering::EpilogueNode::Kind::number) continue;
    names.insert(codegen::leaf_name(result.lowered.graph, epilogue, static_cast<int>(i)));
    ++leaves;
  }
  CHECK(leaves == 8);
  CHECK(names.size() == leaves);
}
