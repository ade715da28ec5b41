// What right specs mean: shapes, bindings, constants, functions, groups.
#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

std::string value_shape(const ir::Graph& graph, size_t output = 0) {
  return graph.shape_text(graph.nodes[graph.outputs.at(output).value].shape);
}

// The shape of the value stored, in a kernel with a few inputs.
std::string shape_of(const std::string& expression, const std::string& tensor) {
  return value_shape(
      resolve_text("kernel k {\n dim E, K, N, I\n dyn S, L\n group M by E\n group P = M align 128\n"
                   "in x : bf16[M, K]\n in w : bf16[E, N, K]\n in xt : bf16[K, P]\n in dy : bf16[M, N]\n"
                   "in b : f32[E, N]\n in p : f32[M]\n in c : f32\n in n : f32[N]\n in s : bf16[S, N]\n"
                   "in la : bf16[L, S, K]\n in lb : bf16[L, N, K]\n in i : i32[M]\n in pre : bf16[M, 2*I]\n"
                   "out y : " +
                   tensor + " = " + expression + "\n}\n"));
}

std::string number_of(const std::string& lines, const std::string& expression) {
  const ir::Graph graph = resolve_text(lines + "\nkernel k {\n out y : f32 = " + expression + "\n}\n");
  const ir::Node& node = graph.nodes[graph.outputs[0].value];
  REQUIRE(node.op == ir::Op::number);
  return fmt::format("{}", node.number);
}

}  // namespace

TEST_CASE("values combine over the union of their names, in the order of the fuller one") {
  CHECK(shape_of("dy + p", "f32[M, N]") == "[M, N]");
  CHECK(shape_of("p * b", "f32[M, N]") == "[M, N]");  // the group count gives way to the rows it cuts
  CHECK(shape_of("b * p", "f32[N, M]") == "[M, N]");
  CHECK(shape_of("n + s", "f32[S, N]") == "[S, N]");
  CHECK(shape_of("n * c", "f32[N]") == "[N]");
  CHECK(shape_of("xt * p", "f32[M, K]") == "[K, M]");  // P counts as M
}

TEST_CASE("gemm contracts the shared name") {
  CHECK(shape_of("gemm(x, w)", "f32[M, N]") == "[M, N]");
  CHECK(shape_of("gemm(dy, x)", "f32[E, N, K]") == "[E, N, K]");  // contracting the groups leaves one result for each
  CHECK(shape_of("gemm(dy, xt)", "f32[E, N, K]") == "[E, N, K]");
  CHECK(shape_of("gemm(la, lb)", "f32[L, S, N]") == "[L, S, N]");
  CHECK(shape_of("gemm(s, n)", "f32[S]") == "[S]");
}

TEST_CASE("equal gemms are one loop") {
  const ir::Graph graph = resolve_text(
      "kernel k {\n dim N, K\n dyn S\n in x : bf16[S, K]\n in w : bf16[N, K]\n"
      "out a : bf16[S, N] = gemm(x, w)\n out b : f32[S, N] = gemm(x, w) * 2\n out c : f32[S, N] = gemm(x, w) + gemm(x, "
      "w)\n}\n");
  int gemms = 0;
  for (const ir::Node& node : graph.nodes) gemms += node.op == ir::Op::gemm;
  CHECK(gemms == 1);
}

TEST_CASE("gradients have the shape of the value and of the x, not reduced") {
  const std::string head =
      "kernel k {\n dim E, I, H\n group M by E\n in pre : bf16[M, 2*I]\n in d : bf16[M, I]\n"
      "in p : f32[M]\n in b : f32[E, 2*I]\n gate, up = split(pre + b)\n f = gate * up * p\n";
  const ir::Graph graph = resolve_text(head +
                                       "dpre, dp, db = grad(f, d, pre, p, b)\n out a : f32[M, 2*I] = dpre\n"
                                       "out c : f32[M] = sum(dp)\n out e : f32[E, 2*I] = sum(db)\n}\n");
  CHECK(value_shape(graph, 0) == "[M, 2*I]");
  CHECK(value_shape(graph, 1) == "[M, I]");
  CHECK(value_shape(graph, 2) == "[M, 2*I]");
  CHECK(graph.outputs[2].reduction == ir::Reduction::sum);
  const ir::Node& node = graph.nodes[graph.outputs[1].value];
  CHECK(node.op == ir::Op::grad);
  CHECK(node.args.size() == 5);
  CHECK(node.index == 1);
}

TEST_CASE("split, join and index name what they work on") {
  CHECK(shape_of("join(dy, dy * 2)", "f32[M, 2*N]") == "[M, 2*N]");
  CHECK(shape_of("join(dy, dy * 2, 8)", "f32[M, 2*N]") == "[M, 2*N]");
  CHECK(shape_of("s[i]", "f32[M, N]") == "[M, N]");
  CHECK(shape_of("hadamard(dy, N, 0xD7E8)", "f32[M, N]") == "[M, N]");
  CHECK(shape_of("hadamard(pre, 2*I)", "f32[M, 2*I]") == "[M, 2*I]");
}

TEST_CASE("> and >= are < and <= with the sides exchanged") {
  const ir::Graph graph =
      resolve_text("kernel k {\n in a : f32\n in b : f32\n out y : f32 = a > b\n out z : f32 = a >= b\n}\n");
  const ir::Node& y = graph.nodes[graph.outputs[0].value];
  const ir::Node& z = graph.nodes[graph.outputs[1].value];
  CHECK(y.op == ir::Op::less);
  CHECK(z.op == ir::Op::less_equal);
  CHECK(graph.nodes[y.args[0]].index == 1);
  CHECK(graph.nodes[z.args[1]].index == 0);
}

TEST_CASE("chains group from the left, products before sums") {
  const ir::Graph graph =
      resolve_text("kernel k {\n in a : f32\n in b : f32\n in c : f32\n out y : f32 = a - b * c - -a / b\n}\n");
  CHECK(ir::print(graph).find("%3 = mul %1, %2") != std::string::npos);
  CHECK(ir::print(graph).find("%4 = sub %0, %3") != std::string::npos);
  CHECK(ir::print(graph).find("%6 = div %5, %1") != std::string::npos);
  CHECK(ir::print(graph).find("%7 = sub %4, %6") != std::string::npos);
}

TEST_CASE("constants are numbers afterwards") {
  CHECK(number_of("const a = 3", "a") == "3");
  CHECK(number_of("const a = 3\nconst b = -(a + 1) * 2 / 4", "b") == "-2");
  CHECK(number_of("fn twice(x) = x * 2\nconst a = twice(max(1, 0x10)) > 31", "a") == "1");
  CHECK(number_of("fn twice(x) = x * n\nconst n = 2\nconst a = twice(4)", "a") == "8");
  const ir::Graph graph = resolve_text(
      "const a = 2\nkernel k {\n const b = a * a\n param p = b + 1\n param q\n"
      "out y : f32 = p * q\n}\n");
  CHECK(graph.params[0].default_value == 5.0);
  CHECK_FALSE(graph.params[1].default_value);
}

TEST_CASE("functions are inlined, and their parameters hide nothing outside") {
  const ir::Graph graph = resolve_text(
      "fn f(amax, x) = select(amax > 0, x / amax, 0)\nfn g(x) = f(x, x)\n"
      "kernel k {\n in x : f32\n out y : f32 = g(x * 2)\n}\n");
  CHECK(ir::print(graph).find("select") != std::string::npos);
  CHECK(graph.nodes.back().where.text() == "g(x * 2)");
}

TEST_CASE("dims take the number given, then the default") {
  const std::string text = "kernel k {\n dim A = 4, B, C = 6\n in x : f32[A, B, C/3]\n out y : f32[A, B, C/3] = x\n}\n";
  ResolveOptions options;
  options.dims = {{"B", 5}, {"C", 9}};
  options.require_bound = true;
  const ir::Graph graph = resolve_text(text, options);
  CHECK(graph.dims[0].value == 4);
  CHECK(graph.dims[1].value == 5);
  CHECK(graph.fixed_value(graph.inputs[0].tensor.shape[2]) == 3);
  CHECK_FALSE(resolve_text(text).dims[1].value);

  options.dims = {{"C", 8}};
  const Diagnostics wrong = check_text(text, options);
  CHECK(wrong.print().find("'B' has no number") != std::string::npos);
  CHECK(wrong.print().find("C/3 is not whole: C = 8") != std::string::npos);
}

TEST_CASE("a dim that is none of the kernel's is refused, a dim of another kernel in the file is not") {
  const std::string two =
      "kernel a {\n dim A\n in x : f32[A]\n out y : f32[A] = x\n}\n"
      "kernel b {\n dim B\n in x : f32[B]\n out y : f32[B] = x\n}\n";
  ResolveOptions options;
  options.dims = {{"A", 4}, {"B", 5}};
  CHECK(check_text(two, options).all().empty());
  options.dims = {{"AA", 4}};
  CHECK(check_text(two, options).print().find("kernel 'a' has no dim 'AA' to set") != std::string::npos);
  options.dims = {{"A", 0}};
  CHECK(check_text(two, options).print().find("it is at least 1") != std::string::npos);
}

TEST_CASE("what is left out is marked, and only what may be") {
  const std::string text =
      "kernel k {\n dim N\n in x : f32[N]\n in b : f32[N] = 1\n out y : f32[N] = x * b\n out z : f32[N] = b\n}\n";
  ResolveOptions options;
  options.left_out = {"b", "z"};
  const ir::Graph graph = resolve_text(text, options);
  CHECK(graph.inputs[1].left_out);
  CHECK_FALSE(graph.outputs[0].left_out);
  CHECK(graph.outputs[1].left_out);
  const auto wrong = [&](std::set<std::string> left_out) {
    options.left_out = std::move(left_out);
    return check_text(text, options).print();
  };
  CHECK(wrong({"x"}).find("'x' has no default and cannot be left out") != std::string::npos);
  CHECK(wrong({"q"}).find("no input or output 'q'") != std::string::npos);
  CHECK(wrong({"y", "z"}).find("every output of kernel 'k' is left out") != std::string::npos);
}

TEST_CASE("group clauses") {
  const ir::Graph graph = resolve_text(
      "kernel k {\n dim E\n dyn C\n group A by E\n group B by E counts i64 align 16\n"
      "group D by E ends i32 slot 2*C\n group P = B align 32\n in x : f32[A]\n out y : f32[A] = x\n}\n");
  const auto& dims = graph.dims;
  CHECK(dims[2].sizes == ir::GroupSizes::ends);
  CHECK(dims[2].align == 1);
  CHECK(dims[3].sizes == ir::GroupSizes::counts);
  CHECK(dims[3].sizes_storage == Storage::i64);
  CHECK(dims[3].align == 16);
  CHECK(dims[4].slot == ir::Extent{2, 1, 1});
  CHECK(dims[5].kind == ir::DimKind::aligned);
  CHECK(dims[5].base == 3);
}

TEST_CASE("a reduction over nothing is none") {
  const ir::Graph graph =
      resolve_text("kernel k {\n dim N\n in x : f32[N]\n out s : f32[N] = sum(x)\n out a : f32[N] = amax(x)\n}\n");
  CHECK(graph.outputs[0].reduction == ir::Reduction::none);
  CHECK(graph.outputs[1].reduction == ir::Reduction::none);
  CHECK(graph.nodes[graph.outputs[1].value].op == ir::Op::abs);
}

TEST_CASE("which kernel of a file") {
  const std::string two = "kernel first {\n out y : f32 = 1\n}\nkernel second {\n out y : f32 = 2\n}\n";
  const auto message = [&](const std::string& text, const std::string& name) {
    Diagnostics diagnostics;
    const Program program = load_text(text, diagnostics);
    CHECK_FALSE(resolve(program, name, {}, diagnostics));
    return diagnostics.print();
  };
  CHECK(message(two, "").find("its kernels: first, second") != std::string::npos);
  CHECK(message(two, "secnd").find("did you mean 'second'?") != std::string::npos);
  CHECK(message("fn f(x) = x\n", "").find("the file has no kernel") != std::string::npos);
  Diagnostics diagnostics;
  CHECK(resolve(load_text(two, diagnostics), "second", {}, diagnostics)->name == "second");
}

TEST_CASE("options of types") {
  const ir::Graph graph = resolve_text(
      "kernel k {\n dim E, N\n group M by E\n group P = M align 128\n in x : f32[M, N]\n in a : f32[E]\n in s : "
      "i64[2]\n"
      "out p : mxfp8(elem = e5m2, rule = even, layout = blocked_128x4, along = P, nonfinite = te)[P, N] = x\n"
      "out q : nvfp4(amax = a, seed = s)[M, N] = x\n out r : fp8_1x128(rule = deepgemm, layout = columns_tma)[M, N] = "
      "x\n"
      "out t : mxfp8(along = N)[M, N] = x\n}\n");
  const ir::TensorType& p = graph.outputs[0].tensor.type;
  CHECK(p.element == Storage::e5m2);
  CHECK(p.rule == ir::ScaleRule::even);
  CHECK(p.layout == ir::ScaleLayout::blocked_128x4);
  CHECK(p.along_axis == 0);
  CHECK(p.nonfinite == ir::NonFinite::te);
  CHECK(graph.outputs[1].tensor.type.amax_input == "a");
  CHECK(graph.outputs[1].tensor.type.seed_input == "s");
  CHECK(graph.outputs[2].tensor.type.rule == ir::ScaleRule::deepgemm);
  CHECK(graph.outputs[3].tensor.type.along_axis == -1);
}

TEST_CASE("nested gradients end in an error before they fill the memory") {
  const auto spec = [](int levels) {
    std::string text = "kernel k {\n  dim N = 64\n  dyn S\n  in s : bf16[S, N]\n  a0 = tanh(s) * sigmoid(s)\n";
    for (int i = 1; i <= levels; ++i) text += fmt::format("  a{0} = grad(a{1} * a{1}, a{1}, s)\n", i, i - 1);
    return text + fmt::format("  out y : bf16[S, N] = a{}\n}}\n", levels);
  };
  CHECK(check_text(spec(6)).all().empty());
  const Diagnostics deep = check_text(spec(60));
  INFO(deep.print());
  REQUIRE(deep.all().size() == 1);
  CHECK(deep.all()[0].message == "the gradients grow beyond 100000 operations");
  CHECK(deep.all()[0].where.text().starts_with("grad("));
}

TEST_CASE("a dyn that no buffer has is told where it stands") {
  const std::string rest = "  in x : bf16[N]\n  out y : bf16[N] = x\n}\n";
  const Diagnostics unused = check_text("kernel k {\n  dim N = 64\n  dyn S\n" + rest);
  INFO(unused.print());
  REQUIRE(unused.all().size() == 1);
  CHECK(unused.all()[0].message == "no buffer has the dyn 'S'");
  CHECK(unused.all()[0].where.begin().line == 3);
  // A slot's size is read off the rows of all slots.
  CHECK(check_text("kernel k {\n  dim E = 2, N = 64\n  dyn S\n  group M by E slot S\n  in x : bf16[M, N]\n"
                   "  out y : bf16[M, N] = x\n}\n")
            .all()
            .empty());
}
