// Where scales lie: the published tile, matrices, groups along rows and along blocks, and what is padding.
#include "compiler/interpreter/scale_places.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"
#include "tests/support/host_data.h"
#include "tests/support/vectors.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::read_vectors;
using test::tensor_of;
using Kind = StoredRange::Kind;

// A kernel without groups: y over R x C, and its problem.
struct Matrix {
  GraphBuilder g;
  Buffers buffers;
  Result<Problem> problem = user_error("not bound");

  Matrix(const std::string& format, ir::ScaleLayout layout, int64_t rows, int64_t columns, int along = -1) {
    g.dim("R", rows), g.dim("C", columns);
    ir::TensorType type = GraphBuilder::type(format);
    type.layout = layout;
    type.along_axis = along;
    g.out("y", type, "R, C", g.in("x", "f32", "R, C"));
    buffers["x"] = make_tensor(Storage::f32, {rows, columns});
    problem = Problem::bind(g.graph, buffers, {});
    REQUIRE(problem);
  }

  const ir::Tensor& tensor() const { return g.graph.outputs[0].tensor; }
  ScalePlaces places() const { return {*problem, tensor()}; }
};

int64_t at(const ScalePlaces& places, int64_t row, int64_t column, int group = -1) {
  const int64_t place[] = {row, column};
  return places.position(place, group);
}

TEST_CASE("offsets of swizzle_128x4.json") {
  for (const auto& row : read_vectors("swizzle_128x4.json", "rows")) {
    const int64_t rows = row["rows"], columns = row["scale_cols"];
    const bool fp4 = row["name"] == "K96_nvfp4";
    const int64_t block = fp4 ? 16 : 32;
    const Matrix matrix(fp4 ? "nvfp4" : "mxfp8", ir::ScaleLayout::blocked_128x4, rows, columns * block);
    const ScalePlaces places = matrix.places();
    const std::vector<int64_t> extents = matrix.problem->scale_extents(matrix.tensor());
    CHECK(extents[0] * extents[1] * extents[2] == row["bytes"]);
    for (const auto& offset : row["offsets"])
      CHECK(at(places, offset["r"], offset["c"].get<int64_t>() * block) == offset["off"]);
  }
}

TEST_CASE("the tile and the ragged matrix of numerics/swizzle_128x4.json") {
  const auto vectors = read_vectors("numerics/swizzle_128x4.json");
  const Matrix tile("mxfp8", ir::ScaleLayout::blocked_128x4, 128, 128);
  for (int64_t row = 0; row < 128; ++row) {
    std::istringstream offsets(vectors["tile_128x4_offsets"][row].get<std::string>());
    for (int64_t column = 0; column < 4; ++column) {
      int64_t offset;
      offsets >> offset;
      CHECK(at(tile.places(), row, column * 32) == offset);
    }
  }
  const auto& ragged = vectors["example_160x5"];
  const Matrix matrix("mxfp4", ir::ScaleLayout::blocked_128x4, 160, 5 * 32);
  const std::vector<Kind> kinds = matrix.places().kinds();
  CHECK(static_cast<int64_t>(kinds.size()) == ragged["allocated_bytes"]);
  CHECK(std::count(kinds.begin(), kinds.end(), Kind::owned) == 160 * 5);
  CHECK(std::count(kinds.begin(), kinds.end(), Kind::outside) == 0);
  for (const auto& sample : ragged["samples_row_col_offset"])
    CHECK(at(matrix.places(), sample[0], sample[1].get<int64_t>() * 32) == sample[2]);
  // Blocks along the rows: the columns are the matrix's rows.
  const Matrix columnwise("mxfp8", ir::ScaleLayout::blocked_128x4, 5 * 32, 160, 0);
  for (const auto& sample : ragged["samples_row_col_offset"])
    CHECK(at(columnwise.places(), sample[1].get<int64_t>() * 32, sample[0]) == sample[2]);
}

TEST_CASE("each group of rows begins a row of tiles") {
  const auto example = read_vectors("numerics/swizzle_128x4.json", "m_groups_example");
  GraphBuilder g;
  g.dim("E", 5), g.dim("K", 3 * 32);
  g.group("M", "E", ir::GroupSizes::counts);
  ir::TensorType type = GraphBuilder::type("mxfp8");
  type.layout = ir::ScaleLayout::blocked_128x4;
  g.out("y", type, "M, K", g.in("x", "f32", "M, K"));
  std::vector<double> counts;
  int64_t rows = 0;
  for (const auto& group : example["groups"]) {
    counts.push_back(group["rows"]);
    rows += group["rows"].get<int64_t>();
  }
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {5}, counts);
  buffers["x"] = make_tensor(Storage::f32, {rows + 9, 3 * 32});
  const Result<Problem> problem = Problem::bind(g.graph, buffers, {});
  REQUIRE(problem);
  const ScalePlaces places(*problem, g.graph.outputs[0].tensor);
  const std::vector<Kind> kinds = places.kinds();
  int64_t start = 0, tiles = 0;
  for (int e = 0; e < 5; ++e) {
    const auto& group = example["groups"][e];
    if (group["rows"] > 0) CHECK(at(places, start, 0, e) == group["byte_offset"]);
    // The whole tiles of the group are written.
    const int64_t first = group["byte_offset"], bytes = group["padded_rows"].get<int64_t>() * 4;
    CHECK(std::count(kinds.begin() + first, kinds.begin() + first + bytes, Kind::owned) ==
          group["rows"].get<int64_t>() * 3);
    CHECK(std::count(kinds.begin() + first, kinds.begin() + first + bytes, Kind::outside) == 0);
    start += group["rows"].get<int64_t>();
    tiles += bytes / 512;
  }
  CHECK(tiles * 128 == example["total_scale_rows"]);
  CHECK(std::count(kinds.begin(), kinds.end(), Kind::outside) == static_cast<int64_t>(kinds.size()) - tiles * 512);
}

TEST_CASE("each group along the blocks is a matrix of its own") {
  const auto example = read_vectors("numerics/swizzle_128x4.json", "k_groups_example");
  GraphBuilder g;
  g.dim("E", 4), g.dim("N", 256);
  g.group("M", "E", ir::GroupSizes::counts);
  g.align("P", "M", 32);
  ir::TensorType type = GraphBuilder::type("mxfp8");
  type.layout = ir::ScaleLayout::blocked_128x4;
  g.out("yt", type, "N, P", g.in("x", "f32", "M, N"));
  std::vector<double> counts;
  int64_t rows = 0;
  for (const auto& group : example["groups"]) {
    counts.push_back(group["tokens"]);
    rows += group["tokens"].get<int64_t>();
  }
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {4}, counts);
  buffers["x"] = make_tensor(Storage::f32, {rows, 256});
  const Result<Problem> problem = Problem::bind(g.graph, buffers, {});
  REQUIRE(problem);
  const ScalePlaces places(*problem, g.graph.outputs[0].tensor);
  const std::vector<Kind> kinds = places.kinds();
  int64_t start = 0;
  for (int e = 0; e < 4; ++e) {
    const auto& group = example["groups"][e];
    const int64_t first = group["byte_offset"], columns = group["padded_sf_cols"];
    if (group["tokens"] > 0) {
      CHECK(at(places, 0, start, e) == first);
      CHECK(at(places, 129, start, e) == first + columns / 4 * 512 + 16);  // the second row of tiles
    }
    CHECK(std::count(kinds.begin() + first, kinds.begin() + first + columns * 256, Kind::owned) ==
          group["sf_cols"].get<int64_t>() * 256);
    CHECK(std::count(kinds.begin() + first, kinds.begin() + first + columns * 256, Kind::outside) == 0);
    start += group["tokens"].get<int64_t>();
  }
}

TEST_CASE("columns_tma is transposed, and its pitch is padded") {
  const Matrix matrix("fp8_1x128", ir::ScaleLayout::columns_tma, 5, 300);
  CHECK(matrix.problem->scale_extents(matrix.tensor()) == std::vector<int64_t>{3, 8});
  const std::vector<Kind> kinds = matrix.places().kinds();
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t column = 0; column < 300; column += 64)
      CHECK(at(matrix.places(), row, column) == column / 128 * 8 + row);
  for (int64_t i = 0; i < 24; ++i) CHECK(kinds[i] == (i % 8 < 5 ? Kind::owned : Kind::gap));
  // Square blocks, and blocks along the rows.
  const Matrix square("fp8_128x128", ir::ScaleLayout::columns_tma, 300, 130);
  CHECK(square.problem->scale_extents(square.tensor()) == std::vector<int64_t>{2, 4});
  CHECK(at(square.places(), 299, 129) == 4 + 2);
  const Matrix along_rows("mxfp8", ir::ScaleLayout::columns_tma, 70, 9, 0);
  CHECK(along_rows.problem->scale_extents(along_rows.tensor()) == std::vector<int64_t>{9, 4});
  CHECK(at(along_rows.places(), 69, 8) == 8 * 4 + 2);
}

TEST_CASE("rows of no group have no scales in columns_tma either") {
  GraphBuilder g;
  g.dim("E", 2), g.dim("K", 130);
  g.group("M", "E", ir::GroupSizes::counts);
  ir::TensorType type = GraphBuilder::type("fp8_1x128");
  type.layout = ir::ScaleLayout::columns_tma;
  g.out("y", type, "M, K", g.in("x", "f32", "M, K"));
  Buffers buffers;
  buffers["M.counts"] = tensor_of(Storage::i32, {2}, {2, 3});
  buffers["x"] = make_tensor(Storage::f32, {7, 130});
  const Result<Problem> problem = Problem::bind(g.graph, buffers, {});
  REQUIRE(problem);
  const std::vector<Kind> kinds = ScalePlaces(*problem, g.graph.outputs[0].tensor).kinds();
  REQUIRE(kinds.size() == 2 * 8);
  for (int64_t i = 0; i < 16; ++i) CHECK(kinds[i] == (i % 8 < 5 ? Kind::owned : Kind::outside));
}

TEST_CASE("the scales of all elements of a block lie at one place, those of two blocks never") {
  for (const std::string format : {"mxfp8", "mxfp8_32x32", "nvfp4", "nvfp4_16x16"})
    for (ir::ScaleLayout layout : {ir::ScaleLayout::rows, ir::ScaleLayout::columns_tma, ir::ScaleLayout::blocked_128x4})
      for (int along : {-1, 1}) {
        GraphBuilder g;
        g.dim("B", 2), g.dim("R", 150), g.dim("C", 102);
        ir::TensorType type = GraphBuilder::type(format);
        type.layout = layout;
        type.along_axis = along;
        g.out("y", type, "B, R, C", g.in("x", "f32", "B, R, C"));
        Buffers buffers;
        buffers["x"] = make_tensor(Storage::f32, {2, 150, 102});
        const Result<Problem> problem = Problem::bind(g.graph, buffers, {});
        REQUIRE(problem);
        const ir::Tensor& tensor = g.graph.outputs[0].tensor;
        const ScalePlaces places(*problem, tensor);
        const std::vector<Kind> kinds = places.kinds();
        const ir::FormatInfo& info = ir::format_info(type.format);
        std::map<std::vector<int64_t>, int64_t> blocks;
        std::set<int64_t> positions;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t r = 0; r < 150; ++r)
            for (int64_t c = 0; c < 102; ++c) {
              const int64_t place[] = {b, r, c};
              const std::vector<int64_t> block =
                  along == 1 ? std::vector<int64_t>{b, r / info.block_columns, c / info.block_rows}
                             : std::vector<int64_t>{b, r / info.block_rows, c / info.block_columns};
              const int64_t position = places.position(place, -1);
              const auto [known, is_new] = blocks.emplace(block, position);
              REQUIRE(known->second == position);
              if (is_new) REQUIRE(positions.insert(position).second);
            }
        INFO(ir::print_type(type));
        CHECK(std::count(kinds.begin(), kinds.end(), Kind::owned) == static_cast<int64_t>(blocks.size()));
        for (int64_t position : positions) CHECK(kinds[position] == Kind::owned);
      }
}

}  // namespace
}  // namespace epifuse::interpreter
