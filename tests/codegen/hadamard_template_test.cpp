// The rotation of blocks in registers (templates/epilogue/hadamard.cuh) on the host's block of threads, in both orders
// of rows and along both dimensions: against the exact vectors, and against the definition.
#include <bit>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/codegen/host/device.h"
#include "tests/support/catch.h"
#include "tests/support/vectors.h"
// Behind the words of CUDA.
#include "epilogue/hadamard.cuh"

using namespace epifuse;

namespace {

constexpr int rotated = 16;

// The values of a tile that is one block wide.
struct Matrix {
  float at[tile_rows][block_columns] = {};
};

template <RowOrder order, bool along_rows, u32 signs>
Matrix on_device(const Matrix& x) {
  Matrix y;
  host::launch(1, tile_rows, [&] {
    const auto lane = LaneOf<order>::now();
    Block block;
    const auto row = [&](int i) { return lane.first_row() + lane.step(i); };
    for (int i = 0; i < own_rows; ++i)
      for (int c = 0; c < own_columns; ++c) block.v[i][c] = x.at[row(i)][lane.first_column() + c];
    if constexpr (along_rows)
      hadamard_rows<signs>(block, lane);
    else
      hadamard_columns<signs>(block, lane);
    for (int i = 0; i < own_rows; ++i)
      for (int c = 0; c < own_columns; ++c) y.at[row(i)][lane.first_column() + c] = block.v[i][c];
  });
  return y;
}

// Element r of the 16 among which (row, column) lies.
float element(const Matrix& x, bool along_rows, int row, int column, int r) {
  return along_rows ? x.at[row / rotated * rotated + r][column] : x.at[row][column / rotated * rotated + r];
}

// With rows and columns that exist up to `rows` and `columns`; the others are zero.
template <RowOrder order, bool along_rows, u32 signs>
void check_against_definition(uint32_t seed, int rows, int columns) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix x;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) x.at[r][c] = normal(random);
  const Matrix y = on_device<order, along_rows, signs>(x);
  for (int row = 0; row < tile_rows; ++row)
    for (int column = 0; column < block_columns; ++column) {
      double sum = 0, magnitudes = 0;
      const int place = (along_rows ? row : column) % rotated;
      for (int r = 0; r < rotated; ++r) {
        const double value = element(x, along_rows, row, column, r);
        const bool negative = (std::popcount(static_cast<unsigned>(r & place)) + (signs >> r & 1)) % 2 != 0;
        sum += negative ? -value : value;
        magnitudes += std::abs(value);
      }
      INFO("signs " << signs << ", row " << row << ", column " << column);
      // Four additions, each of which rounds once.
      REQUIRE(std::abs(y.at[row][column] - sum / 4) <= magnitudes / 4 * 4 * 0x1p-24);
    }
}

template <u32 signs>
void check_all(uint32_t seed, int rows, int columns) {
  check_against_definition<RowOrder::consecutive, true, signs>(seed, rows, columns);
  check_against_definition<RowOrder::consecutive, false, signs>(seed, rows, columns);
  check_against_definition<RowOrder::natural, true, signs>(seed, rows, columns);
  check_against_definition<RowOrder::natural, false, signs>(seed, rows, columns);
}

std::vector<float> floats_of(const std::string& text) {
  std::vector<float> values;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(std::stoul(word, nullptr, 16))));
  REQUIRE(values.size() == rotated);
  return values;
}

// Every block of 16 holds the vector, each multiplied by a power of two of its own.
template <RowOrder order, bool along_rows>
void check_vector(const std::vector<float>& x, const std::vector<float>& expected) {
  Matrix given;
  const auto scale_at = [](int row, int column) {
    return std::ldexp(1.f, along_rows ? (row / rotated + column) % 11 : (row + column / rotated) % 11);
  };
  for (int row = 0; row < tile_rows; ++row)
    for (int column = 0; column < block_columns; ++column)
      given.at[row][column] = scale_at(row, column) * x[static_cast<size_t>((along_rows ? row : column) % rotated)];
  const Matrix y = on_device<order, along_rows, 0xD7E8>(given);
  for (int row = 0; row < tile_rows; ++row)
    for (int column = 0; column < block_columns; ++column) {
      const float want = scale_at(row, column) * expected[static_cast<size_t>((along_rows ? row : column) % rotated)];
      INFO("row " << row << ", column " << column);
      // The sums of these vectors are exact in f32.
      REQUIRE(y.at[row][column] == want);
    }
}

}  // namespace

TEST_CASE("a rotated block is what the definition says, in both orders of rows and along both dimensions") {
  check_all<0>(1, tile_rows, block_columns);
  check_all<0xD7E8>(2, tile_rows, block_columns);
  check_all<0x0001>(3, tile_rows, block_columns);
  check_all<0x8000>(4, tile_rows, block_columns);
  check_all<0xFFFF>(5, tile_rows, block_columns);
}

TEST_CASE("missing rows and columns count as zero") {
  check_all<0xD7E8>(6, 37, 24);
  check_all<0x1234>(7, 1, 8);
  check_all<0>(8, 127, 16);
}

TEST_CASE("the exact vectors, along rows and columns") {
  for (const nlohmann::json& vector : test::read_vectors("numerics/nvfp4_rht.json", "cases")) {
    INFO(vector.at("name").get<std::string>());
    const std::vector<float> x = floats_of(vector.at("x").get<std::string>()),
                             y = floats_of(vector.at("y_fp32_correctly_rounded").get<std::string>());
    check_vector<RowOrder::consecutive, true>(x, y);
    check_vector<RowOrder::consecutive, false>(x, y);
    check_vector<RowOrder::natural, true>(x, y);
    check_vector<RowOrder::natural, false>(x, y);
  }
}

TEST_CASE("zeros give +0, and what is no number stays in its block of 16") {
  Matrix zeros;
  for (auto& row : zeros.at)
    for (float& value : row) value = -0.f;
  for (const Matrix& y :
       {on_device<RowOrder::consecutive, true, 0>(zeros), on_device<RowOrder::consecutive, false, 0xFFFF>(Matrix{})})
    for (const auto& row : y.at)
      for (const float value : row) REQUIRE(std::bit_cast<uint32_t>(value) == 0);

  Matrix x;
  x.at[20][5] = std::numeric_limits<float>::quiet_NaN();
  const Matrix rows = on_device<RowOrder::natural, true, 0xD7E8>(x);
  const Matrix columns = on_device<RowOrder::consecutive, false, 0xD7E8>(x);
  for (int row = 0; row < tile_rows; ++row)
    for (int column = 0; column < block_columns; ++column) {
      REQUIRE(std::isnan(rows.at[row][column]) == (row / rotated == 1 && column == 5));
      REQUIRE(std::isnan(columns.at[row][column]) == (row == 20 && column < rotated));
    }
}
