// Dims that are as large as a launch can pass them, and one step larger.
#include "compiler/lowering/check_sizes.h"

#include <fmt/format.h>

#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr int64_t most = int64_t{1} << 31;  // the first that is too large

const std::string gated =
    "kernel k {\n  dim E = 8, K = 64, I = 64\n  group M by E\n  group P = M align 128\n  in x : bf16[M, K]\n"
    "  in w : bf16[E, 2*I, K]\n  a, b = split(gemm(x, w))\n  out y : bf16[M, I] = a * b\n"
    "  out yt : bf16[I, P] = a * b\n}\n";
const std::string pointwise = "kernel k {\n  dim N = 8\n  in x : f32[N]\n  out y : f32 = sum(x)\n}\n";

LoweredText lowered(const std::string& text, const std::map<std::string, int64_t>& dims) {
  ResolveOptions options;
  options.dims = dims;
  options.require_bound = true;
  return lower_graph(resolve_text(text, options));
}

// What is said, as an error of sizes; empty: there are plans.
std::string refusal(const std::string& text, const std::map<std::string, int64_t>& dims) {
  const LoweredText result = lowered(text, dims);
  CHECK(result.lowered.plans.empty() == result.diagnostics.has_errors());
  for (const Diagnostic& diagnostic : result.diagnostics.all()) CHECK(diagnostic.of_sizes);
  return result.diagnostics.print();
}

}  // namespace

TEST_CASE("a dim has 31 bits") {
  CHECK(refusal(gated, {{"K", most - 8}}) == "");
  CHECK(contains(refusal(gated, {{"K", most}}), "the dimension 'K' is 2147483648, and can be 2147483647 at most"));
  CHECK(contains(refusal(gated, {{"K", int64_t{1} << 40}, {"I", int64_t{1} << 40}}), "the dimension 'I'"));
  CHECK(refusal(pointwise, {{"N", most - 1}}) == "");
  CHECK(contains(refusal(pointwise, {{"N", most}}), "the dimension 'N'"));
}

TEST_CASE("what follows from dims has 31 bits too, and the message has the number and the dim") {
  // Columns of both halves.
  CHECK(refusal(gated, {{"E", 1}, {"I", most / 2 - 32}}) == "");
  const std::string columns = refusal(gated, {{"E", 1}, {"I", most / 2}});
  CHECK(contains(columns,
                 "too large for a launch: a number that launches pass (I * 2) would be 2147483648, and can be "
                 "2147483647 at most"));
  CHECK(contains(columns, "'I' is 1073741824"));
  // The rows of all groups, which no number has and every copy counts.
  CHECK(refusal(gated, {{"E", 64}, {"I", most / 128 - 32}}) == "");
  CHECK(contains(refusal(gated, {{"E", 64}, {"I", most / 128}}), "the rows of w (E * (I * 2)) would be 2147483648"));
  // The room for the gaps of groups without rows.
  CHECK(refusal(gated, {{"E", most / 128}, {"I", 32}}) == "");
  CHECK(contains(refusal(gated, {{"E", most / 127 + 2}, {"I", 32}}), "a number that launches pass (yt.stride0)"));
}

TEST_CASE("a message has no function of the recipe") {
  // Rows of a weight come by 32.
  const std::string plain =
      "kernel k {\n  dim E = 8, K = 64, N = 128\n  group M by E\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n"
      "  out y : bf16[M, N] = gemm(x, w)\n}\n";
  CHECK(contains(refusal(plain, {{"E", most - 1}}),
                 "an extent of w (E * N / 32) would be 8589934588, and can be 4294967296 at most"));
}

TEST_CASE("slots of dims have 31 bits of rows between them") {
  const auto slots = [](const std::string& slot) {
    return "kernel k {\n  dim E = 8, K = 64, N = 64, C = 128\n  group M by E counts slot " + slot +
           "\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  out y : f32[M, N] = gemm(x, w)\n}\n";
  };
  CHECK(refusal(slots("C"), {{"C", most / 8 - 1}}) == "");
  CHECK(contains(refusal(slots("C"), {{"C", most / 8}}),
                 "8 slots of C for 'M' are more rows than the 2147483647 that a kernel takes"));
  CHECK(contains(refusal(slots("2*C"), {{"C", most / 16}}), "8 slots of 2*C for 'M' are more rows"));
  CHECK(contains(refusal(slots("1000000000"), {}), "8 slots of 1000000000 for 'M' are more rows"));
  CHECK(refusal(slots("1000000000"), {{"E", 2}}) == "");
}

TEST_CASE("what only a launch knows is not judged") {
  CHECK(refusal("kernel k {\n  dim N = 8\n  dyn T\n  in x : f32[T, N]\n  out y : f32[T, N] = x\n}\n",
                {{"N", most / 2}}) == "");
}

TEST_CASE("plans asked for by name are judged alike") {
  ResolveOptions options;
  options.dims = {{"I", most / 2}};
  for (const char* name : {"", "pingpong 128x128", "cooperative 128x256 stages 2"}) {
    const LoweredText result = lower_graph(resolve_text(gated, options), name);
    CHECK(result.lowered.plans.empty());
    CHECK(contains(result.diagnostics.print(), "too large for a launch"));
  }
}
