// Specs with one mistake each: it is found where it is, told in words that name it, and nothing else is reported.
#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct BadSpec {
  std::string lines;  // of the kernel, from line 10 on; `|` stands under the mistake's first character, and is removed
  std::string message;
};

// What every one of them stands in: right without the lines.
const std::string head =
    "fn twice(x) = x * 2\n"
    "kernel k {\n"
    "  dim E = 8, K = 64, N = 48, I = 12\n"
    "  dyn S, L, T\n"
    "  group M by E\n"
    "  group P = M align 128\n"
    "  in x : bf16[M, K]\n"
    "  in w : bf16[E, N, K]\n"
    "  h = gemm(x, w)\n";
const std::string tail = "\n  out ok : bf16[M, N] = h\n}\n";

void expect_one(std::string text, const std::string& message) {
  const size_t mark = text.find('|');
  REQUIRE(mark != std::string::npos);
  text.erase(mark, 1);
  const Diagnostics diagnostics = check_text(text);
  INFO(text << "\n" << diagnostics.print());
  REQUIRE(diagnostics.all().size() == 1);
  const Diagnostic& found = diagnostics.all()[0];
  CHECK(found.message.find(message) != std::string::npos);
  Span expected = found.where;
  expected.offset = mark;
  CHECK(found.where.begin().line == expected.begin().line);
  CHECK(found.where.begin().column == expected.begin().column);
}

// Rules by the numbers of docs/language.md.
const BadSpec in_kernel[] = {
    // Grammar
    {"y =|", "expected an expression, found the end of the line"},
    {"y = h +|", "expected an expression"},
    {"y = (h + 1|", "expected ')' or an operator"},
    {"y = twice(h|", "expected ',' or ')'"},
    {"y = h |h", "expected the end of the line, found 'h'"},
    {"y = 1 < h < |2", "comparisons do not chain"},
    {"y |+= h", "expected '=', found '+='"},
    {"y = - |- h", "expected an expression, found '-'"},
    {"y = h[|2]", "expected the name of an index tensor"},
    {"y = |2K", "'2K' is not a number"},
    {"y = |1e99", "1e99 is out of the range of f32"},
    {"y = h |$ 2", "'$' has no meaning here"},
    {"y = |\xCE\xB1", "only comments may hold characters outside ASCII"},
    {"in |out : f32", "'out' is a keyword, expected the input's name"},
    {"in y |f32[M]", "expected ':', found 'f32'"},
    {"in y : f32[|]", "expected a dimension"},
    {"in y : f32[K|*2]", "expected ',' or ']'"},
    {"in y : f32[|0]", "a size is at least 1"},
    {"in y : f32[K/|M]", "expected a whole number"},
    {"in y : f32[M] = |h", "expected a number"},
    {"out y : f32[M, N]|", "expected '=' or '+='"},
    {"out y : f32 =|", "expected an expression"},
    {"dim Q = |0", "a dimension is at least 1"},
    {"dim Q = |1.5", "expected a whole number"},
    {"dim Q = |99999999999999999999", "does not fit 64 bits"},
    {"dyn Q |= 4", "expected ',' or the end of the line"},
    {"group Q |of E", "expected 'by' or '='"},
    {"group Q by E i32 |counts", "expected the end of the line"},
    {"group Q by E align |0", "an alignment is at least 1"},
    {"language |2", "expected '='"},
    // N1 to N4: names
    {"in y : f32[|Q]", "'Q' is not a dimension"},
    {"in y : f32[|x]", "'x' is not a dimension"},
    {"in y : f32[N, |N]", "'N' stands twice in the shape"},
    {"in y : f32[M, |P]", "'P' stands twice in the shape"},
    {"in y : f32[N, |K/7]", "K/7 is not whole: K = 64"},
    {"in y : f32[|9223372036854775807*K]", "does not fit 64 bits"},
    {"in y : f32[|2*M]", "'M' is cut into groups of any size and stands alone"},
    {"in |x : f32", "'x' is an input already (line 7)"},
    {"|h = x", "'h' is defined already (line 9)"},
    {"a, |a = split(h)", "'a' is defined already (line 10)"},
    {"|K = h", "'K' is a dimension already"},
    {"|f32 = h", "'f32' is a type"},
    {"|exp = h", "'exp' is a function of the language"},
    {"|twice = h", "'twice' is a function (spec.epi:1)"},
    {"y = |hh", "'hh' is not defined"},
    {"y = |K * h", "'K' is a dimension, not a value"},
    {"y = |twice", "'twice' is a function, not a value"},
    {"y = |bf16", "'bf16' is a type, not a value"},
    {"y = |z\nz = h", "'z' is defined below, in line 11"},
    {"out y : f32[M, N] = h\nz = |y", "'y' is an output, which cannot be read"},
    {"in y : bf16[|M][N, K]", "there is a buffer for each 'M'"},
    // V1 to V8: values
    {"in y : f32[|E, M]", "'E' counts the groups of 'M'"},
    {"in y : i32[M]\nz = h * |y", "'y' holds integers"},
    {"in y : bf16[E, N, I]\nz = |gemm(x, y)", "share none"},
    {"in y : bf16[E, N, I]\nz = |gemm(y, w)", "not [M, N] and [E, I, K]"},
    {"in y : bf16[M, K]\nz = |gemm(x, y)", "cut into groups and cannot be the batch"},
    {"in a : bf16[L, S, K]\nin b : bf16[S, L, K]\nz = |gemm(a, b)", "gemm contracts one, and a second is the batch"},
    {"in a : bf16[S, L]\nin b : bf16[N, S, L]\nz = |gemm(a, b)", "neither leads both"},
    {"in a : bf16[T, K]\nz = |gemm(x, a)", "the rows 'M' and the columns 'T' both get their size at launch"},
    {"in a : bf16[M, K]\nz = gemm(|a * 2, w)", "an operand of gemm is an input"},
    {"in a : bf16[M, K] = 1\nz = gemm(|a, w)", "the operand 'a' has a default"},
    {"z = gemm(x, w, |1.5)", "gemm's n is a whole number"},
    {"z = |gemm(x, w, -1)", "gemm's n is 0 (never) or more"},
    {"z = |gemm(x)", "'gemm' takes 2 to 3 arguments, not 1"},
    {"in a : bf16[M, N]\nz = |gemm(a, x)", "the two gemms of a kernel have the same dimensions"},
    {"in a : bf16[M, K]\nin b : bf16[M, K]\nu = gemm(a, w)\nz = |gemm(b, w)", "a kernel has one GEMM loop"},
    {"a = |split(h)", "split gives two values"},
    {"a, b, c = |split(h)", "split gives 2 values here, and 3 names are given"},
    {"a, b = |h + 1", "this is one value, and 2 names are given"},
    {"a, b = split(h, |4)", "a piece has 1 element or a multiple of 8, not 4"},
    {"a, b = |split(h, 32)", "'N' = 48 cannot be dealt out in pairs of 32 elements"},
    {"in a : f32[M]\nb, c = |split(a)", "'M' is not fixed at compile time"},
    {"in a : f32\nb, c = |split(a)", "a scalar has no dimension to split"},
    {"in a : f32[I/4]\nb, c = |split(a)", "'I/4' = 3 has no halves"},
    {"in a : f32[I, 2*I]\nb, c = |split(a)", "half of '2*I' is 'I'"},
    {"in a : f32[M]\nb = |join(a, h)", "join takes two values over the same dimensions"},
    {"a, b = |grad(h, h)", "'grad' takes at least 3 arguments, not 2"},
    {"a = grad(h, h, |x)", "would have to pass 'gemm'"},
    {"in b : f32[N]\na = grad(h, h, |b)", "'h' does not depend on 'b'"},
    {"a = grad(h, h, |2)", "'2' is a number"},
    {"in b : f32\na, c = |grad(h + b, h, h)", "grad gives 1 values here, and 2 names are given"},
    {"in b : f32\na = |grad(h + b, h, h, b)", "grad gives 2 values, here one is needed"},
    {"a = cast(h, |mxfp8)", "cast cannot round to 'mxfp8'"},
    {"a = cast(h, |i32)", "cast cannot round to 'i32'"},
    {"a = cast(h, |2)", "cast rounds to a type"},
    {"a = hadamard(h, |K)", "the value [M, N] has no dimension 'K'"},
    {"a = hadamard(h, |2)", "hadamard's second argument is a dimension"},
    {"a = hadamard(h, N, |0x10000)", "the signs are a number of 16 bits"},
    {"a = |min(h, 1, 2)", "'min' takes 2 arguments, not 3"},
    {"a = |twice(h, 2)", "'twice' takes 1 argument, not 2"},
    {"a = |nothing(h)", "there is no function 'nothing'"},
    {"in i : i32[M]\na = |h[i]", "'h' is not an input"},
    {"in i : f32[M]\na = x[|i]", "the index 'i' holds no integers"},
    {"in i : i32[K]\na = |x[i]", "both have the name 'K'"},
    {"in i : i32[M]\nin a : f32[T] = 1\nb = |a[i]", "'a' has a default"},
    // S1 to S6: stores and groups
    {"a = |sum(h)", "'sum' stands only directly behind the '=' of an out"},
    {"out a : f32[M] = 2 * |amax(h)", "'amax' stands only directly behind the '=' of an out"},
    {"out a : |f32[M] = h", "the output is [M], and the value stored is [M, N]"},
    {"out a : |f32[M, K] = h", "the output is [M, K], and the value stored is [M, N]"},
    {"out a : |f32[M, I] = sum(h)", "the value that is reduced is [M, N], without 'I'"},
    {"out a : f32[E] |+= amax(h)", "'+=' adds plain values and sums, not an amax"},
    {"out a : mxfp8[M, N] |+= h", "'+=' adds to f32, bf16 and f16, not to 'mxfp8'"},
    {"out a : |i32[M, N] = h", "a value is not stored as 'i32'"},
    {"out |x : bf16[M, N] = h", "'x' is an input already"},
    {"y = h + 1\nout |y : f32[M, N] = h", "'y' is a value (line 10), and this output stores another one"},
    {"out a : f32[M, N] = h\nout |a : f32[M, N] = h", "'a' is an output already (line 10)"},
    {"out |K : f32[M, N] = h", "'K' is a dimension already"},
    {"out a : i32[E] = |M.ends", "'M.ends' is nothing to store"},
    {"out a : i32[E] = |P.starts", "'P.starts' is nothing to store"},
    {"out a : |i64[E] = P.ends", "the ends are stored as i32[E]"},
    {"a = |P.ends", "'P.ends' is not a value"},
    {"in a : f32[K, I]\nout |b : f32[K, I] = a", "'K' is not among the gemm's dimensions [M, N]"},
    {"group Q by |S", "groups are counted by a dim, and 'S' is a dyn"},
    {"group Q by |J", "'J' is not a dim"},
    {"group Q by E slot |M", "a slot has as many rows in every group"},
    {"group Q = |K align 8", "only tokens in groups are aligned: a group, and 'K' is a dim"},
    {"group Q = |P align 8", "only tokens in groups are aligned"},
    // S7 to S11: types
    {"in a : |bf15[M]", "there is no type 'bf15'"},
    {"out a : |mxfp8[N, M] = h", "blocks of 32 along 'M' may meet two groups"},
    {"out a : |fp8_128x128[M, N] = h", "blocks of 128 along 'M' may meet two groups"},
    {"in a : |mxfp8", "has blocks along a dimension, and the shape has none"},
    {"in a : |mxfp8_32x32[K]", "the blocks of 'mxfp8_32x32' span two dimensions"},
    {"in a : mxfp8(along = |K)[M, N]", "'K' is not a dimension of [M, N]"},
    {"in a : bf16(|elem = e4m3)[M]", "'bf16' is a plain type, which has no options"},
    {"in a : mxfp8(|rule = up)[M, N]", "'rule' says how to quantise"},
    {"in a : mxfp8(|seed = x)[M, N]", "'seed' says how to quantise"},
    {"in a : mxfp8(|lay = rows)[M, N]", "there is no option 'lay'"},
    {"in a : mxfp8(layout = rows, |layout = rows)[M, N]", "the option 'layout' stands twice"},
    {"in a : mxfp8(layout = |row)[M, N]", "'row' is not one of rows, columns_tma, blocked_128x4"},
    {"in a : fp8_1x128(layout = |blocked_128x4)[M, N]", "'fp8_1x128' has f32 scales"},
    {"in a : mxfp4(elem = |e4m3)[M, N]", "'mxfp4' has 4-bit elements"},
    {"in a : mxfp8(elem = |f16)[M, N]", "'f16' is not one of e4m3, e5m2"},
    {"out a : mxfp8(rule = |vllm)[M, N] = h", "the rule 'vllm' does not belong to 'mxfp8'"},
    {"out a : mxfp8(nonfinite = |inf)[M, N] = h", "'inf' is not one of propagate, te"},
    {"in s : f32\nout a : mxfp8(|amax = s)[M, N] = h", "'amax' belongs to nvfp4"},
    {"out a : nvfp4(amax = |h)[M, N] = h", "'h' is not an input"},
    {"in s : f32[N, K]\nout a : nvfp4(amax = |s)[M, N] = h", "is not an f32, scalar or over the groups"},
    {"in s : i64[4]\nout a : nvfp4(seed = |s)[M, N] = h", "the seed 's' is not i64[2]"},
    {"in a : i32[M] = |1", "an input of integers has no default"},
    // Constants and params
    {"const c = |h", "'h' is not a constant"},
    {"const c = |1 / 0", "the constant is inf"},
    {"param c = |x", "'x' is not a constant"},
    {"const c = |gemm(1, 2)", "'gemm' has no constant result"},
    // What a launch calls its own
    {"in |workspace : f32[M]", "no tensor can be called 'workspace'"},
    {"out |workspace : bf16[M, N] = h", "no tensor can be called 'workspace'"},
    {"dim |sm_count = 2", "no dimension can be called 'sm_count'"},
    {"dim A = 2, B = 2, C = 2, D = 2, F = 2, G = 2\nin |a : f32[A, B, C, D, F, G, K, N, I]",
     "'a' has 9 dimensions, and a tensor has at most 8"},
};

// Whole files.
const BadSpec files[] = {
    {"language |2\nkernel k {\n out y : f32 = 1\n}\n", "language 2 is not known"},
    {"|hello\nkernel k {\n out y : f32 = 1\n}\n", "expected 'use', 'fn', 'const' or 'kernel', found 'hello'"},
    {"|in x : f32\nkernel k {\n out y : f32 = 1\n}\n", "expected 'use', 'fn', 'const' or 'kernel'"},
    {"kernel k {\n out y : f32 = 1\n|", "expected '}', found the end of the file"},
    {"kernel a {\n out y : f32 = 1\n|kernel b {\n out y : f32 = 1\n}\n", "expected '}'"},
    {"kernel |k {\n}\n", "kernel 'k' has no out"},
    {"kernel k {\n out y : f32 = 1\n}\nkernel |k {\n out y : f32 = 1\n}\n", "'k' is a kernel already (line 1)"},
    {"kernel |{\n out y : f32 = 1\n}\n", "expected the kernel's name"},
    {"fn f(x) = x\nfn |f(x) = x + 1\nkernel k {\n out y : f32 = 1\n}\n", "'f' is defined already, in spec.epi:1"},
    {"fn |exp(x) = x\nkernel k {\n out y : f32 = 1\n}\n", "'exp' is a function of the language"},
    {"fn |f32(x) = x\nkernel k {\n out y : f32 = 1\n}\n", "'f32' is a type"},
    {"fn |f16(x) = x\nkernel k {\n out y : f32 = f16(1)\n}\n", "'f16' is a type"},
    {"fn f(x, |x) = x\nkernel k {\n out y : f32 = 1\n}\n", "'x' is a parameter already"},
    {"fn f(x) = x + |z\nkernel k {\n out y : f32 = f(1)\n}\n", "'z' is neither a parameter of 'f' nor a constant"},
    {"fn f(x) = |g(x)\nkernel k {\n out y : f32 = f(1)\n}\n", "there is no function 'g'"},
    {"fn |f(x) = f(x)\nkernel k {\n out y : f32 = f(1)\n}\n", "the function 'f' calls itself"},
    {"fn f(x) = |sum(x)\nkernel k {\n out y : f32 = f(1)\n}\n", "'sum' cannot stand in a function"},
    {"fn f(x) = |exp(x, 1)\nkernel k {\n out y : f32 = f(1)\n}\n", "'exp' takes 1 argument, not 2"},
    {"fn f(|) = 1\nkernel k {\n out y : f32 = 1\n}\n", "expected a parameter"},
    {"const a = |b\nconst b = 1\nkernel k {\n out y : f32 = a\n}\n", "'b' is not a constant"},
    {"const a = 1\nconst |a = 2\nkernel k {\n out y : f32 = a\n}\n", "'a' is defined already"},
    {"use |nothing\nkernel k {\n out y : f32 = 1\n}\n", "expected a file name in quotes"},
    {"use |\"nothing.epi\"\nkernel k {\n out y : f32 = 1\n}\n",
     "'nothing.epi' is neither beside this file nor in the library"},
    {"use |\"nothing\nkernel k {\n out y : f32 = 1\n}\n", "the string is not closed"},
    {"kernel k {\n out y : f32 = 1\n}\n|}\n", "expected 'use', 'fn', 'const' or 'kernel', found '}'"},
};

std::string hint_of(const std::string& lines) {
  const Diagnostics diagnostics = check_text(head + lines + tail);
  REQUIRE(diagnostics.all().size() == 1);
  return diagnostics.all()[0].hint;
}

}  // namespace

TEST_CASE("the frame of the bad specs is right") {
  const Diagnostics diagnostics = check_text(head + "  in sizes : f32[S, L, T]" + tail);  // each dyn is in a buffer
  INFO(diagnostics.print());
  CHECK(diagnostics.all().empty());
}

TEST_CASE("names of more than 100 characters") {
  const std::string longest(100, 'n'), longer(101, 'n'), says = "a name has at most 100 characters, this one has 101";
  CHECK(check_text("kernel " + longest + " {\n out y : f32 = 1\n}\n").all().empty());
  expect_one("kernel |" + longer + " {\n out y : f32 = 1\n}\n", says);
  const std::string sizes = "in sizes : f32[S, L, T]\n";  // each dyn is in a buffer
  CHECK(check_text(head + sizes + "in " + longest + " : f32[M]" + tail).all().empty());
  for (const char* line : {"in |{} : f32[M]", "out |{} : bf16[M, N] = h", "dim |{} = 4", "param |{}"})
    expect_one(head + fmt::format(fmt::runtime(line), longer) + tail, says);
  CHECK(check_text(head + sizes + longer + " = h + 1" + tail).all().empty());  // of a value: no launch hears of it
}

TEST_CASE("more than a launch can be given") {
  const auto spec = [](std::string_view line, int count) {
    std::string text = "kernel |k {\n";
    for (int i = 0; i < count; ++i) text += fmt::format(fmt::runtime(line), i);
    return text + " out y : f32 = 1\n}\n";
  };
  const auto is_right = [](std::string text) { return check_text(text.erase(text.find('|'), 1)).all().empty(); };
  CHECK(is_right(spec(" in x{} : f32\n", 1023)));
  expect_one(spec(" in x{} : f32\n", 1024), "1025 buffers are more than the 1024 that a kernel takes");
  CHECK(is_right(spec(" in x{} : mxfp8[64]\n", 511)));  // each with its scales
  expect_one(spec(" in x{} : mxfp8[64]\n", 512), "1025 buffers are more than the 1024 that a kernel takes");
  CHECK(is_right(spec(" param x{}\n", 1024)));
  expect_one(spec(" param x{}\n", 1025), "1025 params are more than the 1024 that a kernel takes");
  expect_one(spec(" dim D{} = 1\n", 1025), "1025 dimensions are more than the 1024 that a kernel takes");
}

TEST_CASE("one mistake in a kernel, one message at its place") {
  for (const BadSpec& bad : in_kernel) expect_one(head + bad.lines + tail, bad.message);
}

TEST_CASE("one mistake in a file, one message at its place") {
  for (const BadSpec& bad : files) expect_one(bad.lines, bad.message);
}

TEST_CASE("hints say what was probably meant") {
  CHECK(hint_of("in a : bf1[M]").find("'bf16'") != std::string::npos);
  CHECK(hint_of("in abc : f32\na = abd").find("'abc'") != std::string::npos);
  CHECK(hint_of("a = tanhh(h)").find("'tanh'") != std::string::npos);
  CHECK(hint_of("a = swiglu(h, h)") == "the library has it: use \"activations.epi\"");
  CHECK(hint_of("out a : mxfp8[N, M] = h").find("group P = M align 128") != std::string::npos);
  CHECK(hint_of("a = gelu(h)") == "the library has gelu_erf, gelu_tanh: use \"activations.epi\"");
  CHECK(hint_of("a = rellu(h)") == "did you mean 'relu'? The library has it: use \"activations.epi\"");
  CHECK(hint_of("a = nothing(h)").empty());
  CHECK(hint_of("out a : f32[M] = mean(h)").find("a mean is a sum of parts") != std::string::npos);
  CHECK(hint_of("a = matmul(x, w)").find("gemm(a, b)") != std::string::npos);
  CHECK(hint_of("a = max(h)").find("amax(v)") != std::string::npos);
  for (const char* power : {"a = h ** 2", "a = h ^ 2"}) CHECK(hint_of(power).find("square(v)") != std::string::npos);
  CHECK(hint_of("input a : f32[M]\nb = a * h") == "did you mean 'in'?");
  CHECK(hint_of("dims Q = 3, R = 4\nin a : f32[Q, R]") == "did you mean 'dim'?");
  CHECK(hint_of("grop Q by E\nin a : f32[Q]") == "did you mean 'group'?");
  CHECK(hint_of("output a : bf16[M, N] = h") == "did you mean 'out'?");
  CHECK(hint_of("let a = h\nb = a + 1").find("no keyword") != std::string::npos);
  CHECK(hint_of("a : f32[M]") == "a tensor is declared with in or out");
  Diagnostics diagnostics;
  check(load_text("use \"activations.epi\"\nkernel k {\n out y : f32 = gelu(1)\n}\n", diagnostics), {}, diagnostics);
  CHECK(diagnostics.print().find("there are: gelu_erf, gelu_tanh") != std::string::npos);
  diagnostics = check_text("use \"activations.epi\"\nkernel k {\n out y : f32 = rellu(1)\n}\n");
  CHECK(diagnostics.all().at(0).hint == "did you mean 'relu'?");
  diagnostics = check_text("import \"activations.epi\"\nkernel k {\n out y : f32 = relu(1)\n}\n");
  CHECK(diagnostics.all().at(0).hint == "did you mean 'use'?");
}

TEST_CASE("all mistakes of a file are told in one run, and none that only follows") {
  const Diagnostics diagnostics = check_text(
      "fn f(x) = y\n"  // 1: y
      "kernel a {\n"
      "  dim E, N = 0, K\n"  // 3: 0
      "  group M by E\n"
      "  in x : bf61[M, K]\n"     // 5: the type; x is unknown below, without a word
      "  in w : bf16[E, N, K]\n"  // N is broken, w unknown without a word
      "  h = gemm(x, w\n"         // 7: the bracket; h unknown without a word
      "  g = f(h) + q\n"          // 8: q
      "  out g : bf16[M, N] = g\n"
      "  out e : f32[E, K] = h\n"
      "}\n"
      "kernel b {\n"
      "  in x : f32[Z]\n"             // 13: Z
      "  out y : f32 = sum(x) + 1\n"  // 14: sum
      "}\n");
  std::vector<int> lines;
  for (const Diagnostic& diagnostic : diagnostics.all()) lines.push_back(diagnostic.where.begin().line);
  std::sort(lines.begin(), lines.end());
  INFO(diagnostics.print());
  CHECK(lines == std::vector<int>{1, 3, 5, 7, 8, 13, 14});
}

TEST_CASE("functions that grow without bound are stopped") {
  std::string text = "fn g0(x) = x + x\n";
  for (int i = 1; i <= 60; ++i) text += fmt::format("fn g{}(x) = g{}(x) * g{}(x + {})\n", i, i - 1, i - 1, i);
  Diagnostics diagnostics = check_text(text + "kernel k {\n in x : f32\n out y : f32 = g60(x)\n}\n");
  CHECK(diagnostics.print().find("calls of functions") != std::string::npos);
  diagnostics = check_text(text + "const c = g60(1)\nkernel k {\n out y : f32 = c\n}\n");
  CHECK(diagnostics.print().find("calls too many functions") != std::string::npos);

  text = "fn g0(x) = x\n";
  for (int i = 1; i <= 3000; ++i) text += fmt::format("fn g{}(x) = g{}(x)\n", i, i - 1);
  diagnostics = check_text(text + "kernel k {\n in x : f32\n out y : f32 = g3000(x)\n}\n");
  CHECK(diagnostics.print().find("nested too deep") != std::string::npos);
}

TEST_CASE("hints name what was probably meant") {
  const std::pair<std::string, std::string> cases[] = {
      {"in y : f32[R]", "define it: dim R or dyn R, or for rows in groups: group R by E"},
      {"in prob : f32[M]\n  y = prb", "did you mean 'prob'?"},
      {"param alpha\n  y = h * alpa", "did you mean 'alpha'?"},
      {"y = nothing_like_it", "what can be read here: h, w, x"},
      // The operand whose dimension the output lacks; E goes with M.
      {"in b : f32[E, I]\n  in c : f32[E]\n  out a : f32[M, N] = (h + b) * c", "'b' brings I"},
      {"in b : f32[K]\n  in c : f32[2*I]\n  out a : f32[M, N] = h + b + c", "'b' brings K; 'c' brings 2*I"},
      // Of one operand alone, or of all, it is the output that is short.
      {"out a : f32[M] = h * 2", "= sum(h * 2)"},
      {"in b : f32[M, N]\n  out a : f32[M] = h + b", "= sum(h + b)"},
  };
  for (const auto& [lines, hint] : cases) {
    const Diagnostics diagnostics = check_text(head + "  " + lines + tail);
    INFO(lines << "\n" << diagnostics.print());
    REQUIRE(diagnostics.all().size() == 1);
    CHECK(diagnostics.all()[0].hint.find(hint) != std::string::npos);
  }
}
