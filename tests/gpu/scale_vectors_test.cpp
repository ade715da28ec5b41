// The published places of scales in tiles of 128 rows by 4 blocks: each block of a matrix gets a scale of its own
// through both forms of a kernel, and the bytes of the buffer must have it where the vectors say, and zeros elsewhere.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "tests/gpu/support/blocks.h"
#include "tests/gpu/support/two_forms.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;
using nlohmann::json;

namespace {

const char* const text =
    "kernel scales {\n  dim E, K = 64, N\n  group M by E\n  group P = M align 32\n  in x : bf16[M, K]\n"
    "  in w : bf16[E, N, K]\n  in r : f32[M, N]\n  v = select(gemm(x, w) == 0, r, 1)\n"
    "  out mx : mxfp8(layout = blocked_128x4)[M, N] = v\n  out turned : mxfp8(layout = blocked_128x4)[N, P] = v\n"
    "  out nv : nvfp4(layout = blocked_128x4)[M, N] = v\n}\n";

const TwoForms& forms(int64_t groups, int64_t columns) {
  using Key = std::pair<int64_t, int64_t>;
  static const std::map<Key, TwoForms> all = [] {
    const std::vector<Key> keys = {{1, 128}, {1, 160}, {1, 2880}, {5, 96}, {4, 256}};
    std::vector<FormSpec> specs;
    for (const auto& [e, n] : keys) specs.push_back({text, {{"E", e}, {"N", n}}});
    auto compiled = compile_forms(specs);
    std::map<Key, TwoForms> by_key;
    for (size_t i = 0; i < keys.size(); ++i) by_key.emplace(keys[i], std::move(compiled[i]));
    return by_key;
  }();
  return all.at({groups, columns});
}

// The code of the scale of a block, never 0: an exponent of e8m0, or a number of e4m3. Neighbours differ.
uint32_t code_of(const std::string& output, int64_t row, int64_t block) {
  const int64_t number = row * 7 + block * 29;
  return static_cast<uint32_t>(output == "nv" ? 0x10 + number % 97 : 90 + number % 101);
}

// The largest number of a block under that scale.
double amax_of(const std::string& output, uint32_t code) {
  return output == "nv" ? 6 * decode(Storage::e4m3, code) : 448 * decode_e8m0(static_cast<uint8_t>(code));
}

// Rows of all groups, whose blocks lie along columns, or (turned) along rows: row and block are the scale's, counted
// from the group's start.
Buffers inputs_of(const std::string& output, const std::vector<int64_t>& counts, int64_t columns) {
  const bool is_turned = output == "turned";
  const int64_t size = output == "nv" ? 16 : 32;
  int64_t rows = 0;
  std::vector<double> ends;
  for (const int64_t count : counts) ends.push_back(static_cast<double>(rows += count));
  const auto groups = static_cast<int64_t>(counts.size());
  Buffers inputs;
  inputs["x"] = interpreter::make_tensor(Storage::bf16, {rows, 64});
  inputs["w"] = interpreter::make_tensor(Storage::bf16, {groups, columns, 64});
  inputs["M.ends"] = tensor_of(Storage::i32, {groups}, ends);
  HostTensor& r = inputs["r"] = interpreter::make_tensor(Storage::f32, {rows, columns});
  int64_t start = 0;
  for (const int64_t count : counts) {
    for (int64_t m = 0; m < count; ++m)
      for (int64_t n = 0; n < columns; ++n) {
        const uint32_t code = is_turned ? code_of(output, n, m / size) : code_of(output, m, n / size);
        interpreter::store_one(r, (start + m) * columns + n, amax_of(output, code));
      }
    start += count;
  }
  return inputs;
}

// That the matrix of scales that begins at `start` holds each block's code where `place` says, and zeros elsewhere in
// its `bytes`.
void check_tiles(const HostTensor& scales, const std::string& output, int64_t start, int64_t bytes, int64_t rows,
                 int64_t blocks, const std::function<int64_t(int64_t, int64_t)>& place) {
  std::vector<uint32_t> wanted(static_cast<size_t>(bytes));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t block = 0; block < blocks; ++block)
      wanted[static_cast<size_t>(place(row, block))] = code_of(output, row, block);
  REQUIRE(start + bytes <= static_cast<int64_t>(scales.bytes.size()));
  for (int64_t i = 0; i < bytes; ++i) {
    const uint32_t stored = scales.bytes[static_cast<size_t>(start + i)];
    if (stored == wanted[static_cast<size_t>(i)]) continue;
    INFO(fmt::format("{}: byte {} behind {} of {} x {} scales", output, i, start, rows, blocks));
    CHECK(stored == wanted[static_cast<size_t>(i)]);
  }
}

std::function<int64_t(int64_t, int64_t)> place_in(int64_t blocks) {
  return [tiles = (blocks + 3) / 4](int64_t row, int64_t block) {
    return (row / 128 * tiles + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
  };
}

void check_bytes(const std::string& output, const std::vector<int64_t>& counts, int64_t columns,
                 const std::function<void(const HostTensor&)>& check) {
  forms(static_cast<int64_t>(counts.size()), columns).run(inputs_of(output, counts, columns), [&](const Buffers& out) {
    check(out.at(output + ".scale"));
  });
}

}  // namespace

TEST_CASE("scales lie in tiles of 128 x 4 where the vectors have them") {
  const json reported = vectors("swizzle_128x4.json"), numeric = vectors("numerics/swizzle_128x4.json");
  for (const json& row : reported["rows"]) {
    const int64_t rows = row["rows"], blocks = row["scale_cols"], bytes = row["bytes"];
    const std::string name = row["name"], output = name.ends_with("nvfp4") ? "nv" : "mx";
    const int64_t columns = blocks * (output == "nv" ? 16 : 32);
    INFO(name);
    const std::vector<int64_t> counts = columns == 96 ? std::vector<int64_t>{rows, 0, 0, 0, 0} : std::vector{rows};
    check_bytes(output, counts, columns, [&](const HostTensor& scales) {
      CHECK(static_cast<int64_t>(scales.bytes.size()) >= bytes);
      for (const json& one : row["offsets"])
        CHECK(scales.bytes[one["off"].get<size_t>()] == code_of(output, one["r"], one["c"]));
      check_tiles(scales, output, 0, bytes, rows, blocks, place_in(blocks));
    });
  }
  check_bytes("mx", {128}, 128, [&](const HostTensor& scales) {
    std::vector<std::vector<uint32_t>> offsets;
    for (const json& line : numeric["tile_128x4_offsets"]) {
      offsets.emplace_back();
      std::istringstream stream(line.get<std::string>());
      for (uint32_t offset = 0; stream >> offset;) offsets.back().push_back(offset);
    }
    check_tiles(scales, "mx", 0, 512, 128, 4, [&](int64_t row, int64_t block) {
      return static_cast<int64_t>(offsets.at(static_cast<size_t>(row)).at(static_cast<size_t>(block)));
    });
  });
  const json& ragged = numeric["example_160x5"];
  check_bytes("mx", {ragged["rows"]}, 32 * ragged["cols"].get<int64_t>(), [&](const HostTensor& scales) {
    for (const json& sample : ragged["samples_row_col_offset"])
      CHECK(scales.bytes[sample[2].get<size_t>()] == code_of("mx", sample[0], sample[1]));
    check_tiles(scales, "mx", 0, ragged["allocated_bytes"], 160, 5, place_in(5));
  });
}

TEST_CASE("each group's scales begin on a tile of their own") {
  const json numeric = vectors("numerics/swizzle_128x4.json");
  const json &along_rows = numeric["m_groups_example"], &along_blocks = numeric["k_groups_example"];
  std::vector<int64_t> counts;
  for (const json& group : along_rows["groups"]) counts.push_back(group["rows"]);
  check_bytes("mx", counts, 96, [&](const HostTensor& scales) {
    for (const json& group : along_rows["groups"])
      check_tiles(scales, "mx", group["byte_offset"], group["padded_rows"].get<int64_t>() * 4, group["rows"], 3,
                  place_in(3));
    CHECK(static_cast<int64_t>(scales.bytes.size()) >= along_rows["total_scale_rows"].get<int64_t>() * 4);
  });
  counts.clear();
  for (const json& group : along_blocks["groups"]) counts.push_back(group["tokens"]);
  check_bytes("turned", counts, 256, [&](const HostTensor& scales) {
    for (const json& group : along_blocks["groups"])
      check_tiles(scales, "turned", group["byte_offset"], group["padded_sf_cols"].get<int64_t>() * 256, 256,
                  group["sf_cols"], place_in(group["sf_cols"]));
  });
}
