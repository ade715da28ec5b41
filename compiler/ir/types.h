// Types of the language (language.md S8, S9): how a tensor is stored. Values have no type: each is f32.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"

namespace epifuse::ir {

enum class Format {
  f32,
  bf16,
  f16,
  e4m3,
  e5m2,
  i32,
  i64,  // plain
  fp8_1x128,
  fp8_128x128,
  mxfp8,
  mxfp8_32x32,
  mxfp4,
  nvfp4,
  nvfp4_16x16,  // scaled
};

// How the scale of a block follows from the block's largest magnitude (numerics.md §3, §4).
enum class ScaleRule { up, floor, even, ceil, te_f32, deepgemm, torchao, vllm };
enum class ScaleLayout { rows, columns_tma, blocked_128x4 };
enum class NonFinite { propagate, te };

struct FormatInfo {
  Format format;
  std::string_view name;
  bool scaled;
  Storage element;    // default element of the codes
  Storage scale;      // scaled types only
  int block_rows;     // block size across `along`: 1, 16, 32 or 128
  int block_columns;  // block size along `along`
};

const FormatInfo& format_info(Format format);
std::optional<Format> parse_format(std::string_view name);
const std::vector<FormatInfo>& all_formats();

std::string_view rule_name(ScaleRule rule);
std::optional<ScaleRule> parse_rule(std::string_view name);
std::string_view layout_name(ScaleLayout layout);
std::optional<ScaleLayout> parse_layout(std::string_view name);

struct TensorType {
  Format format = Format::f32;
  // Scaled types only:
  Storage element = Storage::e4m3;
  ScaleRule rule = ScaleRule::up;
  ScaleLayout layout = ScaleLayout::rows;
  NonFinite nonfinite = NonFinite::propagate;
  int along_axis = -1;     // axis of the stored shape that the blocks run along; -1: the last
  std::string amax_input;  // nvfp4: name of the input with the maximum; empty: none
  std::string seed_input;  // stochastic rounding: name of the i64[2] input; empty: round to nearest even

  bool scaled() const { return format_info(format).scaled; }
  // The storage of the codes, or of the elements of a plain type.
  Storage storage() const;
  bool operator==(const TensorType&) const = default;
};

// Axes of a stored shape of a scaled type: the one that its blocks run along, and the one across, which only blocks of
// two dimensions and layouts other than `rows` look at (-1 of a shape of one dimension).
int along_axis(const TensorType& type, int rank);
int across_axis(const TensorType& type, int rank);

// "mxfp8(elem = e5m2, layout = blocked_128x4)": only what differs from the default is printed.
std::string print_type(const TensorType& type);

}  // namespace epifuse::ir
