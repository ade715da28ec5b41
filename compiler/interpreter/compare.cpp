#include "compiler/interpreter/compare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

#include "base/ensure.h"
#include "base/numbers.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/quantiser.h"
#include "compiler/interpreter/stored_ranges.h"
#include "compiler/interpreter/tally.h"

namespace epifuse::interpreter {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Relative norm of the error of what is stored against the unrounded reference, per group and per strip (numerics.md
// §11.2). For bf16 the rounding of the store is most of it; for 8-bit types these are the SQNR of 31 and 25 dB.
double norm_limit(Storage storage) {
  switch (storage) {
    case Storage::f32: return 1e-5;
    case Storage::f16: return 4e-4;
    case Storage::bf16: return 3e-3;
    case Storage::e4m3: return 0.0282;
    case Storage::e5m2: return 0.0562;
    default: return 0.126;  // 4-bit: 18 dB
  }
}

// Blocks whose scale may differ from the reference's, inside the interval (numerics.md §11.3).
constexpr double different_scales = 1e-3;

bool is_nan(double x) { return x != x; }

// Whether the device may hold anything at all here: see the meaning of NaN bounds in map_ops.h.
bool is_unknown(double value, double low, double high) {
  const bool no_bounds = is_nan(low) || is_nan(high);
  return is_nan(value) != no_bounds;
}

// One element, judged as a number; `round` is the rounding of the store.
class ElementJudge {
 public:
  ElementJudge(const Tile& tile, const OutputWalk& walk, const ir::Graph& graph, Tally& tally, double largest)
      : tile_(tile), walk_(walk), graph_(graph), tally_(tally), largest_(largest) {
    tally.strips.resize(static_cast<size_t>((tile.cols + strip_width - 1) / strip_width));
    tally.group = tile.group;
    tally.first_column = walk.col_axis() < 0 ? 0 : tile.position[walk.col_axis()];
  }

  template <class Round>
  void element(int64_t row, int64_t col, double value, double low, double high, double stored, Round round) {
    ++tally_.elements;
    tally_.nan_reference += is_nan(value);
    tally_.nan_stored += is_nan(stored);
    tally_.saturated += std::fabs(stored) == largest_;
    const double rounded = round(value);
    if (is_nan(value) || is_nan(stored)) {
      if (is_nan(value) == is_nan(stored) || is_unknown(value, low, high)) return;
      ++tally_.different;
      return outside(row, col, value, low, high, stored, infinity);
    }
    tally_.different += stored != rounded;
    tally_.zero_signs += low == high && stored == 0 && value == 0 && std::signbit(stored) != std::signbit(value);
    if (std::isfinite(value) && std::isfinite(stored)) {
      Norms& norms = tally_.strips[col / strip_width];
      const double error = stored - value, rounding = rounded - value, radius = (high - low) / 2;
      norms.error += error * error;
      norms.reference += value * value;
      if (std::isfinite(rounding)) norms.rounding += rounding * rounding;
      if (std::isfinite(radius)) norms.radius += radius * radius;
    }
    if (is_unknown(value, low, high)) return;
    // Rounding is monotone and leaves what is stored alone, so a number inside the interval is inside the rounded one.
    if (low <= stored && stored <= high) return;
    const double rounded_low = round(low), rounded_high = round(high);
    if (rounded_low <= stored && stored <= rounded_high) return;
    const double distance = stored < rounded_low ? rounded_low - stored : stored - rounded_high;
    outside(row, col, value, low, high, stored, distance / std::max(std::fabs(value), 0x1p-126));
  }

  void scale_outside(int64_t row, int64_t col, double reference, double low, double high, double stored) {
    ++tally_.scales_outside;
    note(row, col, {true, true, {}, tile_.group, stored, reference, low, high, infinity});
  }

 private:
  void outside(int64_t row, int64_t col, double value, double low, double high, double stored, double excess) {
    ++tally_.outside;
    note(row, col, {true, false, {}, tile_.group, stored, value, low, high, excess});
  }

  void note(int64_t row, int64_t col, WorstElement element) {
    if (tally_.worst.found && !(element.excess > tally_.worst.excess)) return;
    for (size_t axis = 0; axis < walk_.domain().size(); ++axis) {
      const int a = static_cast<int>(axis);
      const int64_t offset = a == walk_.row_axis() ? row : a == walk_.col_axis() ? col : 0;
      element.place.push_back({graph_.extent_text(walk_.domain()[axis]), tile_.position[axis] + offset});
    }
    tally_.worst = std::move(element);
  }

  const Tile& tile_;
  const OutputWalk& walk_;
  const ir::Graph& graph_;
  Tally& tally_;
  double largest_;
};

class OutputJudge {
 public:
  OutputJudge(const Reference& reference, const ir::Output& output, const Buffers& stored, const Before& before)
      : reference_(reference),
        graph_(reference.problem().graph()),
        output_(output),
        stored_(stored),
        before_(before),
        type_(output.tensor.type) {}

  Result<Verdict> run() {
    verdict_.output = output_.tensor.name;
    if (Status status = check_buffers(); !status) return status.error();
    if (graph_.nodes[output_.value].op == ir::Op::group_ends) return ends();
    const Result<OutputWalk> walk = reference_.walk(output_, true);
    if (!walk) return walk.error();
    const Result<std::unique_ptr<Quantiser>> quantiser =
        type_.scaled() ? make_quantiser(type_) : Result<std::unique_ptr<Quantiser>>(nullptr);
    if (!quantiser) return quantiser.error();
    std::vector<Tally> tallies(static_cast<size_t>(walk->tiles()));
    parallel_for(walk->tiles(), reference_.threads(), [&](int64_t i) {
      const Tile tile = walk->tile(i);
      if (type_.scaled())
        scaled(*walk, tile, **quantiser, tallies[i]);
      else
        plain(*walk, tile, tallies[i]);
    });
    add_up(tallies);
    untouched(*walk, false);
    if (type_.scaled()) untouched(*walk, true);
    conclude();
    return std::move(verdict_);
  }

 private:
  const HostTensor& codes() const { return stored_.at(output_.tensor.name); }
  const HostTensor& scales() const { return stored_.at(output_.tensor.name + ".scale"); }

  Status check_buffers() const {
    auto check = [&](const Buffers& buffers, const std::string& name, Storage storage,
                     const std::vector<int64_t>& extents) -> Status {
      const auto it = buffers.find(name);
      if (it == buffers.end()) return user_error("'" + name + "' is not among the buffers to compare");
      const HostTensor& tensor = it->second;
      if (tensor.storage != storage || tensor.extents != extents ||
          static_cast<int64_t>(tensor.bytes.size()) != storage_bytes(storage, tensor.elements()))
        return user_error("'" + name + "' does not have the shape of the output");
      return {};
    };
    const std::vector<int64_t> extents = reference_.problem().extents(output_.tensor);
    for (const Buffers* buffers : {&stored_, before_.buffers}) {
      if (!buffers) continue;
      if (Status s = check(*buffers, output_.tensor.name, type_.storage(), extents); !s) return s;
      if (!type_.scaled()) continue;
      const Storage scale = ir::format_info(type_.format).scale;
      if (Status s = check(*buffers, output_.tensor.name + ".scale", scale, scale_extents(type_, extents)); !s)
        return s;
    }
    if (output_.accumulate && !before_.buffers)
      return user_error("'" + output_.tensor.name + "' is added to: what it held before is needed");
    return {};
  }

  Result<Verdict> ends() {
    const std::vector<int64_t> expected = group_ends(reference_.problem(), graph_.nodes[output_.value]);
    verdict_.elements = static_cast<int64_t>(expected.size());
    for (size_t e = 0; e < expected.size(); ++e) {
      const int64_t stored = load_integer(codes(), static_cast<int64_t>(e));
      if (stored == expected[e]) continue;
      ++verdict_.outside, ++verdict_.different;
      if (verdict_.worst.found) continue;
      const double wanted = static_cast<double>(expected[e]);
      verdict_.worst = {true,
                        false,
                        {{graph_.extent_text(output_.tensor.shape[0]), static_cast<int64_t>(e)}},
                        static_cast<int>(e),
                        static_cast<double>(stored),
                        wanted,
                        wanted,
                        wanted,
                        infinity};
    }
    conclude();
    return std::move(verdict_);
  }

  void plain(const OutputWalk& walk, const Tile& tile, Tally& tally) const {
    const FloatFormat& format = float_format(type_.storage());
    const bool small = storage_bits(type_.storage()) <= 8;
    ElementJudge judge(tile, walk, graph_, tally, small ? decode(format, format.largest) : infinity);
    const HostTensor* old = output_.accumulate ? &before_.buffers->at(output_.tensor.name) : nullptr;
    const auto round = [&](double x) { return is_nan(x) ? x : decode(format, encode(format, x)); };
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.cols; ++c) {
        const int64_t at = tile.first + r * walk.row_stride() + c * walk.col_stride();
        const int64_t i = r * Tile::pitch + c;
        double value = tile.value[i], low = tile.low[i], high = tile.high[i];
        if (old) {
          // The sum is rounded to f32 before the store, unless the compiler rounds it to the storage at once.
          const double prior = load_one(*old, at);
          value += prior;
          low = std::min<double>(low + prior, static_cast<float>(low + prior));
          high = std::max<double>(high + prior, static_cast<float>(high + prior));
        }
        judge.element(r, c, value, low, high, load_one(codes(), at), round);
      }
  }

  void scaled(const OutputWalk& walk, const Tile& tile, const Quantiser& quantiser, Tally& tally) const {
    const FloatFormat& format = float_format(type_.storage());
    ElementJudge judge(tile, walk, graph_, tally, infinity);
    for_each_block(walk, tile, quantiser.info().block_columns, [&](const TileBlock& block) {
      double value[TileBlock::most], low[TileBlock::most], high[TileBlock::most];
      double least = 0, most = 0;  // the largest magnitude is at least and at most so much
      bool unknown = false;
      for (int64_t i = 0; i < block.count; ++i) {
        const int64_t from = block.index + i * block.step;
        value[i] = tile.value[from], low[i] = tile.low[from], high[i] = tile.high[from];
        unknown = unknown || is_unknown(value[i], low[i], high[i]);
        least = std::max(least, low[i] > 0 ? low[i] : high[i] < 0 ? -high[i] : 0);
        most = std::max({most, std::fabs(low[i]), std::fabs(high[i])});
      }
      const double amax = quantiser.amax(value, block.count);
      const uint32_t reference = quantiser.scale(amax);
      uint32_t lowest = quantiser.scale(least), highest = quantiser.scale(most);
      // A NaN that is certain decides the scale, unless the type's policy drops it.
      if (is_nan(amax) || std::isinf(amax)) lowest = highest = reference;
      const uint32_t scale = load_code(scales(), block.scale);
      ++tally.scales;
      tally.scales_different += scale != reference;
      if (!unknown && (scale < lowest || scale > highest))
        judge.scale_outside(block.row, block.col, reference, lowest, highest, scale);
      tally.saturated += count_saturated(format, block);
      for (int64_t i = 0; i < block.count; ++i) {
        const uint32_t code = load_code(codes(), block.first + i * block.stride);
        // Under a NaN scale every value rounds to NaN, so a NaN code is right and nothing else is.
        const auto round = [&](double x) { return quantiser.value(quantiser.element(x, scale), scale); };
        const bool all_nan = is_nan(round(0.0));
        const int64_t row = block.row + (walk.blocks_along_rows() ? i : 0);
        const int64_t col = block.col + (walk.blocks_along_rows() ? 0 : i);
        const double stored = all_nan ? decode(format, code) : quantiser.value(code, scale);
        if (all_nan)
          judge.element(row, col, round(0.0), round(0.0), round(0.0), stored, round);
        else
          judge.element(row, col, value[i], low[i], high[i], stored, round);
      }
    });
  }

  int64_t count_saturated(const FloatFormat& format, const TileBlock& block) const {
    int64_t count = 0;
    for (int64_t i = 0; i < block.count; ++i)
      count += (load_code(codes(), block.first + i * block.stride) & (format.sign - 1)) == format.largest;
    return count;
  }

  void add_up(const std::vector<Tally>& tallies) {
    std::map<int, Norms> groups;
    std::map<std::pair<int, int64_t>, Norms> strips;
    Norms all;
    for (const Tally& tally : tallies) {
      verdict_.elements += tally.elements;
      verdict_.outside += tally.outside;
      verdict_.different += tally.different;
      verdict_.scales += tally.scales;
      verdict_.scales_outside += tally.scales_outside;
      verdict_.scales_different += tally.scales_different;
      verdict_.nan_reference += tally.nan_reference;
      verdict_.nan_stored += tally.nan_stored;
      verdict_.saturated += tally.saturated;
      verdict_.zero_signs += tally.zero_signs;
      if (tally.worst.found && (!verdict_.worst.found || tally.worst.excess > verdict_.worst.excess))
        verdict_.worst = tally.worst;
      for (size_t i = 0; i < tally.strips.size(); ++i) {
        all.add(tally.strips[i]);
        groups[tally.group].add(tally.strips[i]);
        strips[{tally.group, tally.first_column + static_cast<int64_t>(i) * strip_width}].add(tally.strips[i]);
      }
    }
    const double limit = verdict_.norm_limit = norm_limit(type_.storage());
    verdict_.error_norm = all.relative();
    for (const auto& [group, norms] : groups) {
      verdict_.norms_exceeded += !norms.within(limit);
      if (norms.relative() <= verdict_.worst_group_norm) continue;
      verdict_.worst_group_norm = norms.relative();
      verdict_.worst_group = group;
    }
    for (const auto& [key, norms] : strips) {
      verdict_.norms_exceeded += !norms.within(limit);
      if (norms.relative() <= verdict_.worst_strip_norm) continue;
      verdict_.worst_strip_norm = norms.relative();
      verdict_.worst_strip_group = key.first;
      verdict_.worst_strip_column = key.second;
    }
  }

  void untouched(const OutputWalk& walk, bool is_scale) {
    const HostTensor& tensor = is_scale ? scales() : codes();
    const std::string name = output_.tensor.name + (is_scale ? ".scale" : "");
    const HostTensor* old = before_.buffers ? &before_.buffers->at(name) : nullptr;
    const int bits = storage_bits(tensor.storage);
    for (const OutputWalk::CutAxis& cut : walk.cut_axes(is_scale))
      for (const StoredRange& range : cut.ranges) {
        if (range.kind == StoredRange::Kind::owned) continue;
        for_each_stretch(tensor, cut.axis, range, [&](int64_t first, int64_t count) {
          for (int64_t i = first * bits / 8; i < (first + count) * bits / 8; ++i) {
            const uint8_t expected = range.kind == StoredRange::Kind::gap ? 0 : old ? old->bytes[i] : before_.poison;
            if (tensor.bytes[i] == expected) continue;
            ++(range.kind == StoredRange::Kind::gap ? verdict_.gap : verdict_.touched);
          }
        });
      }
  }

  void conclude() {
    std::vector<std::string> causes;
    auto cause = [&](int64_t count, std::string text) {
      if (count != 0) causes.push_back(std::move(text));
    };
    Verdict& v = verdict_;
    cause(v.scales_outside, fmt::format("{} of {} scales are outside their interval", v.scales_outside, v.scales));
    cause(v.outside, fmt::format("{} of {} elements are outside their interval", v.outside, v.elements));
    cause(v.touched, fmt::format("{} bytes were written that belong to no group", v.touched));
    cause(v.gap, fmt::format("{} bytes in the gaps behind groups are not zero", v.gap));
    cause(v.norms_exceeded, fmt::format("the error's norm exceeds its limit in {} groups or strips", v.norms_exceeded));
    // One scale may always differ: a thousandth of a few blocks is none.
    const double allowed = std::max(1.0, different_scales * static_cast<double>(v.scales));
    cause(static_cast<double>(v.scales_different) > allowed,
          fmt::format("{} of {} scales differ from the reference", v.scales_different, v.scales));
    for (const std::string& text : causes) v.cause += (v.cause.empty() ? "" : "; ") + text;
    v.ok = causes.empty();
  }

  const Reference& reference_;
  const ir::Graph& graph_;
  const ir::Output& output_;
  const Buffers& stored_;
  const Before& before_;
  const ir::TensorType& type_;
  Verdict verdict_;
};

}  // namespace

Result<Verdict> judge(const Reference& reference, const ir::Output& output, const Buffers& stored,
                      const Before& before) {
  return OutputJudge(reference, output, stored, before).run();
}

}  // namespace epifuse::interpreter
