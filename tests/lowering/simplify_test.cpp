// The passes change no result: small graphs by their text, and random ones by running both through the interpreter.
#include "compiler/lowering/simplify.h"

#include "compiler/interpreter/compare.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/differentiate.h"
#include "tests/lowering/lowering_support.h"
#include "tests/support/host_data.h"
#include "tests/support/random_spec.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// The values of a kernel behind the passes, as ir::print has them.
std::string values_of_spec(const std::string& body, std::set<std::string> left_out = {}) {
  ResolveOptions options;
  options.left_out = std::move(left_out);
  const ir::Graph graph = simplified(resolve_text(ragged_spec(body), options));
  CHECK(ir::verify(graph).empty());
  const std::string text = ir::print(graph);
  return text.substr(text.find("  %0"));
}

const std::string operands =
    "  %0 = input x : [M, K]\n  %1 = input w : [E, N, K]\n  %2 = gemm over K promote 128 %0, %1 : [M, N]\n";

bool is_added_to(const ir::Graph& graph, const std::string& name) {
  for (const ir::Output& output : graph.outputs)
    if (output.tensor.name == name) return output.accumulate;
  return false;
}

}  // namespace

TEST_CASE("what does nothing goes away") {
  for (const char* value :
       {"h * 1", "1 * h", "h / 1", "-(-h)", "select(1, h, 2 * h)", "select(2 - 2, exp(h), h)", "h - 0", "h + -0.0",
        "select(h < 1, h, h)", "max(h, h)", "(-h) * -1", "(-h) / -1", "h * (3 - 2)", "h / (abs(-4) * 0.25)"}) {
    INFO(value);
    CHECK(values_of_spec(std::string("h = gemm(x, w)\nout y : bf16[M, N] = ") + value) ==
          operands + "  out y : bf16[M, N] = %2\n");
  }
}

TEST_CASE("what is rotated keeps the dimension, though it became the same along it") {
  const std::string body =
      "in b : f32[E, N] = {}\nin c : f32[E, N]\nh = gemm(x, w)\nout y : bf16[M, N] = h + c + hadamard(b, N)";
  const auto values = [&](const std::string& number) {
    std::string text = body;
    return values_of_spec(text.replace(text.find("{}"), 2, number), {"b"});
  };
  CHECK(values("2").find("hadamard along N") != std::string::npos);
  // Of zeros there are only zeros.
  CHECK(values("0").find("hadamard") == std::string::npos);
}

TEST_CASE("what looks as if it did nothing stays where it does something") {
  // 0 + h turns -0 to +0, as 0 - h does not turn +0 to -0; h - h is NaN for infinity, 0 * h for NaN.
  for (const char* value :
       {"h + 0", "0 - h", "h - h", "0 * h", "h - -0.0", "h / 3 * 3", "0.5 * (2 * h)", "h + h - h"}) {
    INFO(value);
    CHECK(values_of_spec(std::string("h = gemm(x, w)\nout y : bf16[M, N] = ") + value) !=
          operands + "  out y : bf16[M, N] = %2\n");
  }
}

TEST_CASE("signs and powers of two move to where they cost nothing") {
  const std::pair<const char*, const char*> rows[] = {
      {"-(h * 3)", "  %3 = number -3 : []\n  %4 = mul %3, %2 : [M, N]\n"},
      {"3 * -h", "  %3 = number -3 : []\n  %4 = mul %3, %2 : [M, N]\n"},
      {"h / -8", "  %3 = number -0.125 : []\n  %4 = mul %2, %3 : [M, N]\n"},
      {"4 * (2 * h)", "  %3 = number 8 : []\n  %4 = mul %3, %2 : [M, N]\n"},
      {"h * -1", "  %3 = neg %2 : [M, N]\n"},
      {"1 - -h", "  %3 = number 1 : []\n  %4 = add %3, %2 : [M, N]\n"},
      {"-h + 1", "  %3 = number 1 : []\n  %4 = sub %3, %2 : [M, N]\n"},
      {"abs(-h)", "  %3 = abs %2 : [M, N]\n"},
      // Not exact: 1/3 has no f32, and the inner product may be subnormal or rounded.
      {"h / 3", "  %3 = number 3 : []\n  %4 = div %2, %3 : [M, N]\n"},
      {"2 * (3 * h)",
       "  %3 = number 2 : []\n  %4 = number 3 : []\n  %5 = mul %4, %2 : [M, N]\n  %6 = mul %3, %5 : [M, N]\n"},
  };
  for (const auto& [value, expected] : rows) {
    const std::string text = values_of_spec(std::string("h = gemm(x, w)\nout y : bf16[M, N] = ") + value);
    INFO(value << "\n" << text);
    CHECK(text.starts_with(operands + expected + "  out"));
  }
}

TEST_CASE("a split of a join, and a join of both halves, are what was there") {
  const std::string body =
      "h = gemm(x, w)\nf, s = split(h, 32)\nback = join(f, s, 32)\na, b = split(join(s, f))\n"
      "out y : bf16[M, 2*I] = back\nout z : bf16[M, I] = a\n";
  const ir::Graph graph = simplified(resolve_text(halved_spec(body)));
  INFO(ir::print(graph));
  CHECK(graph.nodes[static_cast<size_t>(graph.outputs[0].value)].op == ir::Op::gemm);
  const ir::Node& half = graph.nodes[static_cast<size_t>(graph.outputs[1].value)];
  CHECK(half.op == ir::Op::split);
  CHECK(half.index == 1);
  CHECK(half.piece == 32);
  // Dealt out in other pieces, or the other way round, it is not.
  for (const char* other : {"join(f, s)", "join(s, f, 32)", "join(f, f, 32)"}) {
    const ir::Graph kept = simplified(
        resolve_text(halved_spec(std::string("h = gemm(x, w)\nf, s = split(h, 32)\nout y : bf16[M, 2*I] = ") + other)));
    CHECK(kept.nodes[static_cast<size_t>(kept.outputs[0].value)].op == ir::Op::join);
  }
}

TEST_CASE("a join and a split of what a left-out input was") {
  ResolveOptions options;
  options.left_out = {"b", "p"};
  const ir::Graph graph = simplified(resolve_text(
      halved_spec("in b : f32[2*I] = 0.5\nin p : f32[M] = 2\nin c : f32[I]\nf, s = split(b)\nh = gemm(x, w)\n"
                  "g, u = split(h)\nout y : bf16[M, I] = g * f + u * s\nout z : bf16[M, 2*I] = join(p * c, g)"),
      options));
  CHECK(ir::verify(graph).empty());
}

TEST_CASE("a sum counts every element of the names it reduces, whatever is left out") {
  ResolveOptions options;
  options.left_out = {"p"};
  const ir::Graph graph =
      simplified(resolve_text(ragged_spec("in p : f32[M] = 1\nin b : f32[N]\nh = gemm(x, w)\nout y : bf16[M, N] = h\n"
                                          "out s : f32[N] = sum(p * b)"),
                              options));
  CHECK(ir::verify(graph).empty());
  CHECK(graph.nodes[static_cast<size_t>(graph.outputs[1].value)].shape.size() == 2);
}

TEST_CASE("arithmetic on numbers is done in f32, each step rounded") {
  // In double, 1e8 + 1 - 1e8 is 1; in f32 it is 0. 0.1 is the f32 next to it.
  CHECK(values_of_spec("h = gemm(x, w)\nout y : bf16[M, N] = h + (100000000 + 1 - 100000000)") ==
        operands + "  %3 = number 0 : []\n  %4 = add %2, %3 : [M, N]\n  out y : bf16[M, N] = %4\n");
  CHECK(values_of_spec("h = gemm(x, w)\nout y : bf16[M, N] = h * (0.1 * 3)") ==
        operands + "  %3 = number 0.30000001192092896 : []\n  %4 = mul %2, %3 : [M, N]\n  out y : bf16[M, N] = %4\n");
  CHECK(values_of_spec("h = gemm(x, w)\nout y : bf16[M, N] = h + 1 / 0") ==
        operands + "  %3 = number inf : []\n  %4 = add %2, %3 : [M, N]\n  out y : bf16[M, N] = %4\n");
  // Functions that the device has to a tolerance only are left to it.
  CHECK(values_of_spec("h = gemm(x, w)\nout y : bf16[M, N] = h + exp(1)").find("exp") != std::string::npos);
}

TEST_CASE("equal operations on equal arguments become one, and what nothing needs goes") {
  const std::string text = values_of_spec(
      "h = gemm(x, w)\nunused = exp(h)\na = tanh(h) * 2\nb = tanh(h) * 2\nout y : bf16[M, N] = a + b\nout z : bf16[M, "
      "N] = b");
  CHECK(text ==
        operands +
            "  %3 = tanh %2 : [M, N]\n  %4 = number 2 : []\n  %5 = mul %3, %4 : [M, N]\n  %6 = add %5, %5 : [M, N]\n"
            "  out y : bf16[M, N] = %6\n  out z : bf16[M, N] = %5\n");
  // Not equal: the two halves, the order of a difference, the type of a cast, 0 and -0.
  const ir::Graph graph = simplified(resolve_text(halved_spec(
      "h = gemm(x, w)\nf, s = split(h)\nv = cast(f, bf16) - cast(f, f16)\nu = cast(f, f16) - cast(f, bf16)\n"
      "out y : bf16[M, I] = v * u * s * min(f, 0) * min(f, -0.0)")));
  int casts = 0, subs = 0, splits = 0, minima = 0;
  for (const ir::Node& node : graph.nodes) {
    casts += node.op == ir::Op::cast;
    subs += node.op == ir::Op::sub;
    splits += node.op == ir::Op::split;
    minima += node.op == ir::Op::min;
  }
  CHECK(casts == 2);
  CHECK(subs == 2);
  CHECK(splits == 2);
  CHECK(minima == 2);
}

TEST_CASE("an input that is left out is its default, and may take names with it") {
  const std::string scaled =
      "in p : f32[M] = 1\nin b : f32[E, N] = 0.5\nh = gemm(x, w)\nout y : bf16[M, N] = h * p + b";
  CHECK(values_of_spec(scaled, {"p", "b"}) ==
        "  %0 = input x : [M, K]\n  %1 = input w : [E, N, K]\n  %2 = gemm over K promote 128 %0, %1 : [M, N]\n"
        "  %3 = number 0.5 : []\n  %4 = add %2, %3 : [M, N]\n  out y : bf16[M, N] = %4\n");
  // The value that is stored no longer lies over M: it is the same in every row of a group.
  const std::string lost =
      "in p : f32[M] = 2\nin b : f32[E, N]\nh = gemm(x, w)\nout y : bf16[M, N] = p * b\nout z : bf16[M, N] = h";
  CHECK(values_of_spec(lost, {"p"}).find("mul %3, %4 : [E, N]") != std::string::npos);
  // … and so do its halves.
  ResolveOptions options;
  options.left_out = {"p"};
  const ir::Graph halves = simplified(resolve_text(
      halved_spec(
          "in p : f32[M] = 2\nin b : f32[E, 2*I]\nf, s = split(p * b)\nh = gemm(x, w)\nout z : bf16[M, 2*I] = h\n"
          "out y : bf16[M, I] = f * s"),
      options));
  CHECK(ir::verify(halves).empty());
}

TEST_CASE("an output that is left out is not computed") {
  const std::string text = values_of_spec("h = gemm(x, w)\nout y : bf16[M, N] = h\nout z : bf16[M, N] = erf(h)", {"z"});
  CHECK(text == operands + "  out y : bf16[M, N] = %2\n");
}

TEST_CASE("what is left out before it does not change an output's random bits") {
  const std::string body =
      "in rng : i64[2]\nh = gemm(x, w)\nout y : bf16[M, N] = h\nout q : mxfp4(seed = rng)[M, N] = h";
  const std::string whole = "out q : mxfp4(seed = rng)[M, N] = %2", rest = values_of_spec(body, {"y"});
  CHECK(values_of_spec(body).find(whole + "\n") != std::string::npos);
  CHECK(rest.find(whole + " ordinal 1\n") != std::string::npos);
}

TEST_CASE("random kernels mean the same behind the passes") {
  for (uint64_t seed = 1000; seed < 1060; ++seed) {
    const RandomSpec spec = random_spec(seed, SpecSize::tiny);
    INFO(spec.describe());
    ResolveOptions options;
    options.left_out = spec.left_out;
    const ir::Graph graph = lowering::differentiate(resolve_text(spec.text, options)), after = simplified(graph);
    REQUIRE(ir::verify(after).empty());

    interpreter::Buffers buffers, held;
    std::map<std::string, int64_t> sizes = spec.sizes;
    for (const ir::Dimension& dim : graph.dims)
      if (dim.value) sizes[dim.name] = *dim.value;
    sizes["M"] = 128;
    const auto lookup = [&](std::string_view name) { return std::optional(sizes.at(std::string(name))); };
    // All rows are in the first group: half of the capacity, or what fits into its slot.
    int64_t rows = 64;
    for (const ir::Dimension& dim : graph.dims) {
      if (!dim.slot) continue;
      const int64_t slot = *ir::extent_expression(graph, *dim.slot).evaluate(lookup);
      rows = std::min(rows, slot);
      sizes["M"] = slot * *ir::extent_expression(graph, {1, dim.cut_by, 1}).evaluate(lookup);
    }
    for (const ir::Buffer& buffer : ir::buffers(graph)) {
      const bool is_output = buffer.role == TensorRole::output;
      if (is_output && !is_added_to(graph, buffer.name)) continue;
      std::vector<int64_t> extents;
      for (const IntExpr& extent : buffer.extents) extents.push_back(*extent.evaluate(lookup));
      if (buffer.role == TensorRole::group_sizes) {
        const bool ends = buffer.name.ends_with("ends");
        buffers[buffer.name] = tensor_by(buffer.storage, extents,
                                         [&](int64_t i) { return ends || i == 0 ? static_cast<double>(rows) : 0.; });
      } else {
        buffers[buffer.name] =
            normal_tensor(buffer.storage, extents, seed + buffers.size(), buffer.name == "w" ? 0.1 : 1);
      }
      if (is_output) held[buffer.name] = buffers[buffer.name];
    }
    const auto gemm = interpreter::cpu_gemm(1);
    const auto reference = interpreter::Reference::make(graph, buffers, {}, *gemm, 1);
    if (!reference) FAIL(reference.error().message);
    const auto stored = interpreter::run(after, buffers, {}, nullptr, 1);
    if (!stored) FAIL(stored.error().message);
    interpreter::Before before;
    before.poison = 0;  // what run() leaves where it writes nothing
    for (const ir::Output& output : graph.outputs) {
      if (output.left_out) continue;
      before.buffers = output.accumulate ? &held : nullptr;
      const auto verdict = interpreter::judge(*reference, output, *stored, before);
      if (!verdict) FAIL(verdict.error().message);
      INFO(verdict->print());
      CHECK(verdict->ok);
    }
  }
}
