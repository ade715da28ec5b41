// Inputs from a seed: the same everywhere, fitting what is given, and NaN where nobody may look.
#include "jit/inputs.h"

#include <cmath>

#include "compiler/interpreter/problem.h"
#include "compiler/semantics/resolve.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::load_integer;
using interpreter::load_one;
using jit::DataMode;
using jit::InputOptions;

namespace {

ir::Graph graph_of(const std::string& text) {
  Diagnostics diagnostics;
  const Program program = program_of(text, diagnostics);
  ResolveOptions options;
  options.require_bound = true;
  const auto graph = resolve(program, "", options, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(graph);
  return *graph;
}

Buffers make(const ir::Graph& graph, const InputOptions& options) {
  const auto made = jit::make_inputs(graph, options);
  INFO((made ? std::string() : made.error().message));
  REQUIRE(made);
  return *made;
}

std::string error_of(const ir::Graph& graph, const InputOptions& options) {
  const auto made = jit::make_inputs(graph, options);
  REQUIRE_FALSE(made);
  CHECK(made.error().kind == ErrorKind::user);
  return made.error().message;
}

std::vector<int64_t> integers(const interpreter::HostTensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(load_integer(tensor, i));
  return values;
}

std::string grouped(const std::string& clause) {
  return "kernel k {\n  dim E = 3, K = 64, N = 64\n  group M by E " + clause +
         "\n  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in p : f32[M]\n  out y : f32[M, N] = gemm(x, w) * p\n}\n";
}

}  // namespace

TEST_CASE("a seed decides every byte, the number of threads none") {
  const ir::Graph graph = graph_of(grouped(""));
  InputOptions options;
  options.seed = 5;
  options.threads = 1;
  const Buffers one = make(graph, options);
  options.threads = 7;
  const Buffers seven = make(graph, options);
  REQUIRE(one.size() == 4);
  for (const auto& [name, tensor] : one) CHECK(seven.at(name).bytes == tensor.bytes);
  options.seed = 6;
  CHECK(make(graph, options).at("w").bytes != one.at("w").bytes);
}

TEST_CASE("counts become ends or counts, with the alignment of the group") {
  InputOptions options;
  options.counts = {{5, 0, 7}};
  CHECK(integers(make(graph_of(grouped("")), options).at("M.ends")) == std::vector<int64_t>{5, 5, 12});
  CHECK(integers(make(graph_of(grouped("align 8")), options).at("M.ends")) == std::vector<int64_t>{5, 8, 15});
  const Buffers counts = make(graph_of(grouped("counts i64")), options);
  CHECK(integers(counts.at("M.counts")) == *options.counts);
  CHECK(counts.at("M.counts").storage == Storage::i64);
  CHECK(counts.at("x").extents == std::vector<int64_t>{12, 64});
  options.slack_rows = 3;
  CHECK(make(graph_of(grouped("")), options).at("x").extents == std::vector<int64_t>{15, 64});
}

TEST_CASE("rows that are too many are those of the counts, or of the alignment") {
  InputOptions options;
  options.counts = {{1, 2, 3}};
  CHECK(error_of(graph_of(grouped("align 4294967296")), options) ==
        "groups of 'M' begin at multiples of 4294967296 rows (align), and group 1, with 2 rows, ends at row "
        "4294967298; a "
        "kernel takes at most 2147483647");
  options.counts = {{2147483647, 2, 3}};
  CHECK(error_of(graph_of(grouped("")), options) ==
        "the counts of 'M' add up to 2147483649 rows; a kernel takes at most 2147483647");
}

TEST_CASE("rows of no group hold NaN, all others numbers") {
  InputOptions options;
  options.counts = {{5, 0, 7}};
  options.slack_rows = 4;
  const Buffers made = make(graph_of(grouped("align 8")), options);
  const auto inside = [](int64_t row) { return row < 5 || (row >= 8 && row < 15); };
  REQUIRE(made.at("x").extents[0] == 20);
  for (int64_t row = 0; row < 20; ++row) {
    INFO("row " << row);
    CHECK(std::isnan(load_one(made.at("p"), row)) != inside(row));
    for (int64_t k = 0; k < 64; ++k) CHECK(std::isnan(load_one(made.at("x"), row * 64 + k)) != inside(row));
  }
}

TEST_CASE("whole numbers are small, and normal ones have the variance they should") {
  const ir::Graph graph = graph_of(grouped(""));
  InputOptions options;
  options.counts = {{200, 100, 50}};
  options.mode = DataMode::integers;
  const Buffers whole = make(graph, options);
  for (int64_t i = 0; i < whole.at("w").elements(); ++i) {
    const double value = load_one(whole.at("w"), i);
    REQUIRE((value == std::floor(value) && std::fabs(value) <= 2));
  }
  options.mode = DataMode::normal;
  const Buffers normal = make(graph, options);
  const auto variance = [](const interpreter::HostTensor& tensor) {
    double sum = 0;
    for (int64_t i = 0; i < tensor.elements(); ++i) sum += load_one(tensor, i) * load_one(tensor, i);
    return sum / static_cast<double>(tensor.elements());
  };
  CHECK(variance(normal.at("x")) == Approx(1).epsilon(0.05));
  CHECK(variance(normal.at("w")) == Approx(1.0 / 64).epsilon(0.05));  // of a product then 1
  options.mode = DataMode::scaled;
  CHECK(variance(make(graph, options).at("x")) > 10);
}

TEST_CASE("what is given is kept, and decides sizes") {
  const ir::Graph graph = graph_of(grouped(""));
  InputOptions options;
  options.given["x"] = interpreter::make_tensor(Storage::bf16, {100, 64}, 0x3C);
  const Buffers made = make(graph, options);
  CHECK(made.at("x").bytes == options.given["x"].bytes);
  CHECK(made.at("p").extents == std::vector<int64_t>{100});
  CHECK(integers(made.at("M.ends")).back() <= 100);
  SECTION("group sizes too") {
    options.given.erase("x");
    options.given["M.ends"] = interpreter::make_tensor(Storage::i32, {3});
    for (int64_t e = 0; e < 3; ++e)
      interpreter::store_one(options.given["M.ends"], e, 10.0 * (static_cast<double>(e) + 1));
    CHECK(make(graph, options).at("x").extents[0] == 30);
  }
}

TEST_CASE("dyns have the size that is asked for") {
  const ir::Graph graph = graph_of(
      "kernel d {\n  dim K = 64, N = 64\n  dyn S\n  in x : bf16[S, K]\n  in w : bf16[N, K]\n"
      "  out y : f32[S, N] = gemm(x, w)\n}\n");
  InputOptions options;
  CHECK(make(graph, options).at("x").extents[0] == InputOptions::default_size);
  options.sizes = {{"S", 17}};
  CHECK(make(graph, options).at("x").extents[0] == 17);
  options.sizes = {{"T", 17}};
  CHECK(contains(error_of(graph, options), "'T' is no dyn"));
}

TEST_CASE("what does not fit is refused by name") {
  const ir::Graph graph = graph_of(grouped(""));
  InputOptions options;
  options.counts = {{1, 2}};
  CHECK(contains(error_of(graph, options), "2 counts are given for the 3 groups of 'M'"));
  options.counts = {{1, -2, 3}};
  CHECK(contains(error_of(graph, options), "negative"));
  options.counts = {{1, 2, 3}};
  options.given["w"] = interpreter::make_tensor(Storage::f32, {3, 64, 64});
  CHECK(contains(error_of(graph, options), "'w'"));
  options.given = {{"M.ends", interpreter::make_tensor(Storage::f32, {3})}};
  CHECK(contains(error_of(graph, options), "'M.ends'"));
}

TEST_CASE("several sizes of the launch in one tensor") {
  const ir::Graph dense = graph_of("kernel k {\n  dyn S, K\n  in x : bf16[S, K]\n  out y : f32[S, K] = x * 2\n}\n");
  InputOptions options;
  CHECK(make(dense, options).at("x").extents == std::vector<int64_t>{1000, 1000});
  options.sizes = {{"S", 5}, {"K", 24}};
  CHECK(make(dense, options).at("x").extents == std::vector<int64_t>{5, 24});
  const ir::Graph ragged = graph_of(
      "kernel k {\n  dim E = 2\n  dyn K\n  group M by E\n  in x : bf16[M, K]\n  out y : f32[M, K] = x * 2\n}\n");
  options.sizes = {{"K", 24}};
  options.counts = {{3, 4}};
  CHECK(make(ragged, options).at("x").extents == std::vector<int64_t>{7, 24});
  options.sizes = {{"K", int64_t{1} << 61}};
  CHECK(error_of(ragged, options).starts_with("'x' would be larger than any memory"));
  options.slack_rows = int64_t{1} << 40;
  options.sizes = {{"K", int64_t{1} << 30}};
  CHECK(error_of(ragged, options).starts_with("'x' would be larger than any memory"));
}

TEST_CASE("a size that is asked for, and a given buffer that contradicts it") {
  const ir::Graph graph =
      graph_of("kernel k {\n  dim N = 8\n  dyn S\n  in x : f32[2*S, N]\n  out y : f32[2*S, N] += x\n}\n");
  for (const char* name : {"x", "y"}) {
    InputOptions options;
    options.given[name] = interpreter::make_tensor(Storage::f32, {74, 8});
    CHECK(make(graph, options).at("x").extents == std::vector<int64_t>{74, 8});
    options.sizes = {{"S", 37}};
    CHECK(make(graph, options).at("x").extents == std::vector<int64_t>{74, 8});
    options.sizes = {{"S", 7}};
    CHECK(error_of(graph, options) == std::string("'") + name + "': axis 0 (2*S) is 74, and 'S' is asked to be 7");
  }
}

TEST_CASE("the rows of a slot that nothing else says are those of the rows that are given, or what is asked for") {
  const ir::Graph graph = graph_of(grouped("slot C\n  dyn C"));
  InputOptions options;
  options.given["x"] = interpreter::make_tensor(Storage::bf16, {120, 64}, 0x3C);
  options.counts = {{40, 0, 7}};
  CHECK(integers(make(graph, options).at("M.ends")) == std::vector<int64_t>{40, 40, 87});
  options.counts.reset();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    options.seed = seed;
    const std::vector<int64_t> ends = integers(make(graph, options).at("M.ends"));
    for (int64_t e = 0; e < 3; ++e) CHECK((ends[e] >= 40 * e && ends[e] <= 40 * (e + 1)));
  }
  options.sizes["C"] = 41;
  CHECK(contains(error_of(graph, options), "3 slots of C for 'M' are not the 120 rows that are given"));
  options.sizes.clear();
  options.given["x"] = interpreter::make_tensor(Storage::bf16, {121, 64}, 0x3C);
  CHECK(contains(error_of(graph, options), "'M' has 121 rows, which are not 3 whole slots of C"));
  options.given.clear();
  options.sizes["C"] = 50;
  options.counts = {{50, 1, 0}};
  options.slack_rows = 9;  // there is none: it would make the slots larger
  const Buffers made = make(graph, options);
  CHECK(made.at("x").extents[0] == 150);
  CHECK(integers(made.at("M.ends")) == std::vector<int64_t>{50, 51, 100});
  options.counts = {{51, 1, 0}};
  CHECK(contains(error_of(graph, options), "'M.ends': group 0 would be rows 0 to 51 of 150"));
}

TEST_CASE("slots of more rows than a kernel takes") {
  for (const char* slot : {"C", "4*C"}) {
    const ir::Graph graph =
        graph_of(std::string("kernel k {\n  dim E = 4, N = 8\n  dyn C\n  group M by E counts slot ") + slot +
                 "\n  in x : f32[M, N]\n  out y : f32[M, N] = x * 2\n}\n");
    InputOptions options;
    options.sizes = {{"C", int64_t{1} << 62}};
    CHECK(error_of(graph, options).starts_with(std::string("4 slots of ") + slot + " for 'M' are more rows"));
  }
}

TEST_CASE("sizes are made up for so many groups, and given for any number") {
  const auto graph = [](int64_t groups) {
    return graph_of("kernel k {\n  dim E = " + std::to_string(groups) +
                    "\n  group M by E\n  in x : f32[M]\n  out y : f32[M] = x\n}\n");
  };
  InputOptions options;
  options.sizes = {};
  CHECK(contains(error_of(graph(jit::most_made_groups + 1), options),
                 "'M' has 1048577 groups; sizes are made up for 1048576 at most"));
  CHECK(contains(error_of(graph(2000000000), options), "'M' has 2000000000 groups"));
  options.counts.emplace(static_cast<size_t>(jit::most_made_groups) + 1, 0);
  options.counts->back() = 2;
  CHECK(make(graph(jit::most_made_groups + 1), options).at("x").extents == std::vector<int64_t>{2});
}

TEST_CASE("rows that stand in aligned inputs alone") {
  const ir::Graph graph = graph_of(
      "kernel k {\n  dim E = 4, H = 8\n  group M by E\n  group P = M align 16\n  in x : bf16[P, H]\n"
      "  out z : bf16[M, H] = x\n}\n");
  InputOptions options;
  options.counts = {3, 0, 5, 1};
  const Buffers made = make(graph, options);
  const auto problem = interpreter::Problem::bind(graph, made, {});
  REQUIRE(problem);
  CHECK(problem->size({1, graph.outputs[0].tensor.shape[0].dim, 1}) >= 9 + options.slack_rows);
}
