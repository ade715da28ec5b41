// The buffers of a kernel and their sizes.
#include "compiler/ir/buffers.h"

#include "tests/semantics/spec_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

const std::map<std::string, int64_t> sizes = {{"E", 5}, {"M", 300}, {"N", 200}, {"K", 96}, {"S", 77}};

// "name storage [extents]" for the sizes above, in order.
std::vector<std::string> list(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::Buffer& buffer : ir::buffers(graph)) {
    std::vector<int64_t> extents;
    for (const IntExpr& extent : buffer.extents) {
      const Result<int64_t> value = extent.evaluate([&](std::string_view name) -> std::optional<int64_t> {
        const auto size = sizes.find(std::string(name));
        return size == sizes.end() ? std::nullopt : std::optional(size->second);
      });
      REQUIRE(value);
      extents.push_back(*value);
    }
    lines.push_back(fmt::format("{} {} [{}]", buffer.name, storage_name(buffer.storage), fmt::join(extents, ", ")));
  }
  return lines;
}

std::vector<std::string> list_of(const std::string& outputs, const std::string& group = "group M by E") {
  std::vector<std::string> lines = list(resolve_text("kernel k {\n dim E, N, K\n" + group +
                                                     "\n group P = M align 128\n group Q = M align 32\n"
                                                     "in x : f32[M, N]\n" +
                                                     outputs + "\n}\n"));
  REQUIRE(lines.size() > 2);
  CHECK(lines[0] == "x f32 [300, 200]");
  return {lines.begin() + 1, lines.end()};
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("sizes of groups are bound by what they are") {
  CHECK(list_of("out y : f32[M, N] = x") == Lines{"M.ends i32 [5]", "y f32 [300, 200]"});
  CHECK(list_of("out y : f32[M, N] = x", "group M by E counts i64") == Lines{"M.counts i64 [5]", "y f32 [300, 200]"});
}

TEST_CASE("an aligned dimension has room for every split into groups") {
  // 300 + 5 * 127 = 935, down to 896; 300 + 5 * 31 = 455, down to 448.
  CHECK(list_of("out y : mxfp8[N, P] = x\n out ends : i32[E] = P.ends") ==
        Lines{"M.ends i32 [5]", "y e4m3 [200, 896]", "y.scale e8m0 [200, 28]", "ends i32 [5]"});
  CHECK(list_of("out y : bf16[Q, N] = x") == Lines{"M.ends i32 [5]", "y bf16 [448, 200]"});
}

TEST_CASE("scales in rows have the blocked dimensions divided, rounded up") {
  CHECK(list_of("out y : mxfp8[M, N] = x")[2] == "y.scale e8m0 [300, 7]");
  CHECK(list_of("out y : mxfp8(along = P)[P, N] = x")[2] == "y.scale e8m0 [28, 200]");
  CHECK(list_of("out y : fp8_1x128[M, N] = x")[2] == "y.scale f32 [300, 2]");
  CHECK(list_of("out y : fp8_128x128[P, N] = x")[2] == "y.scale f32 [7, 2]");
  CHECK(list_of("out y : nvfp4[M, N] = x") == Lines{"M.ends i32 [5]", "y e2m1 [300, 200]", "y.scale e4m3 [300, 13]"});
}

TEST_CASE("columns_tma swaps the last two, with a pitch that is a multiple of 4") {
  CHECK(list_of("out y : fp8_1x128(layout = columns_tma)[M, N] = x")[2] == "y.scale f32 [2, 300]");
  CHECK(list_of("out y : fp8_1x128(layout = columns_tma)[N, P] = x")[2] == "y.scale f32 [7, 200]");
  const ir::Graph dense = resolve_text(
      "kernel k {\n dim N\n dyn S\n in x : f32[S, N]\n"
      "out y : fp8_1x128(layout = columns_tma)[S, N] = x\n}\n");
  CHECK(list(dense)[2] == "y.scale f32 [2, 80]");
}

TEST_CASE("blocked scales come in tiles of 512 bytes, groups apart") {
  // Rows in groups: at most (300 + 5 * 127) / 128 = 7 tile rows; ceil(200 / 128) tile columns.
  CHECK(list_of("out y : mxfp8(layout = blocked_128x4)[M, N] = x")[2] == "y.scale e8m0 [7, 2, 512]");
  // Tokens along the blocks: matrices of 2 tile rows, 896 / 128 tile columns in all.
  CHECK(list_of("out y : mxfp8(layout = blocked_128x4)[N, P] = x")[2] == "y.scale e8m0 [7, 2, 512]");
  CHECK(list_of("out y : mxfp8(layout = blocked_128x4, along = P)[P, N] = x")[2] == "y.scale e8m0 [7, 2, 512]");
  // 4 blocks of 16: tiles of 64 tokens. Groups from multiples of 32 still begin tiles of their own: (300 + 5 * 63)
  // / 64.
  CHECK(list_of("out y : nvfp4(layout = blocked_128x4)[N, P] = x")[2] == "y.scale e4m3 [14, 2, 512]");
  CHECK(list_of("out y : nvfp4(layout = blocked_128x4)[N, Q] = x")[2] == "y.scale e4m3 [9, 2, 512]");
  const ir::Graph weights = resolve_text(
      "kernel k {\n dim E, N, K\n in w : f32[E, N, K]\n"
      "out q : mxfp8(layout = blocked_128x4)[E, N, K] = w\n}\n");
  CHECK(list(weights)[2] == "q.scale e8m0 [5, 2, 1, 512]");
}

TEST_CASE("the bound on tiles of groups is one that some sizes reach, and none pass") {
  // Tile rows that `groups` sizes with the sum `tokens` can need, by trying all.
  const std::function<int64_t(int64_t, int64_t)> most = [&](int64_t groups, int64_t tokens) -> int64_t {
    if (groups == 1) return (tokens + 127) / 128;
    int64_t best = 0;
    for (int64_t size = 0; size <= tokens; ++size)
      best = std::max(best, (size + 127) / 128 + most(groups - 1, tokens - size));
    return best;
  };
  const ir::Graph graph = resolve_text(
      "kernel k {\n dim E, N\n group M by E\n in x : f32[M, N]\n"
      "out y : mxfp8(layout = blocked_128x4)[M, N] = x\n}\n");
  const IntExpr rows = ir::buffers(graph).back().extents[0];
  for (const int64_t groups : {1, 2, 3})
    for (const int64_t tokens : {3, 100, 127, 128, 129, 257, 384, 400}) {
      const Result<int64_t> value =
          rows.evaluate([&](std::string_view name) -> std::optional<int64_t> { return name == "M" ? tokens : groups; });
      REQUIRE(value);
      CHECK(*value == most(groups, tokens));
    }
}

TEST_CASE("roles, pointers, and what may be left out") {
  ResolveOptions options;
  options.left_out = {"b"};
  const ir::Graph graph = resolve_text(
      "kernel k {\n dim E, N, K\n group M by E\n in x : bf16[M, K]\n in w : bf16[E][N, K]\n"
      "in b : f32[N] = 0\n out y : f32[M, N] = gemm(x, w) + b\n}\n",
      options);
  const std::vector<ir::Buffer> all = ir::buffers(graph);
  REQUIRE(all.size() == 4);  // b is left out, and not listed
  CHECK(all[1].name == "w");
  CHECK(all[1].pointer_axes == 1);
  CHECK_FALSE(all[0].optional);
  CHECK(all[2].role == TensorRole::group_sizes);
  CHECK(all[2].name == "M.ends");
  CHECK(all[2].tensor == "M");
  CHECK(all[3].role == TensorRole::output);
  CHECK(all[3].optional);
  CHECK(all[3].tensor == "y");
}
