#include "compiler/interpreter/compare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

#include "base/ensure.h"
#include "base/numbers.h"
#include "compiler/interpreter/element_judge.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/rounding.h"
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

// Blocks whose scale may differ from the reference's, inside the interval (numerics.md §11.3). Where the interval
// itself spans several scales (what is left of a block after a cancellation, or below f32) a difference says nothing.
constexpr double different_scales = 1e-3;

class OutputJudge {
 public:
  OutputJudge(const Reference& reference, const ir::Output& output, const Run& run)
      : reference_(reference),
        graph_(reference.problem().graph()),
        output_(output),
        stored_(*run.stored),
        before_(run.before),
        type_(output.tensor.type) {
    verdict_.output = output_.tensor.name;
  }

  // An output like `P.ends`, which has no elements of a value.
  Verdict ends() {
    count_ends();
    conclude();
    return std::move(verdict_);
  }

  Tally judge_tile(const OutputWalk& walk, const Tile& tile) const {
    Tally tally;
    if (walk.scaled())
      scaled(walk, tile, tally);
    else
      plain(walk, tile, tally);
    return tally;
  }

  Verdict verdict(const OutputWalk& walk, const std::vector<Tally>& tallies) {
    add_up(tallies);
    untouched(walk);
    if (type_.scaled()) untouched_scales(walk);
    conclude();
    return std::move(verdict_);
  }

  // Before anything else.
  Status check_buffers() {
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
      const std::vector<int64_t> of_scales = reference_.problem().scale_extents(output_.tensor);
      if (Status s = check(*buffers, output_.tensor.name + ".scale", scale, of_scales); !s) return s;
    }
    if (output_.accumulate && !before_.buffers)
      return user_error("'" + output_.tensor.name + "' is added to: what it held before is needed");
    codes_ = &stored_.at(output_.tensor.name);
    if (type_.scaled()) scales_ = &stored_.at(output_.tensor.name + ".scale");
    return {};
  }

 private:
  const HostTensor& codes() const { return *codes_; }
  const HostTensor& scales() const { return *scales_; }

  void count_ends() {
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
                        infinity,
                        -1};
    }
  }

  static Expected expected(const Tile& tile, int64_t i) {
    const double low = tile.low[i], high = tile.high[i];
    return {tile.value[i], low, high, tile.slack.empty() ? share_of_worst_case * (high - low) / 2 : tile.slack[i],
            !tile.jumps.empty() && tile.jumps[i] != 0};
  }

  void plain(const OutputWalk& walk, const Tile& tile, Tally& tally) const {
    const PlainRounding rounding(type_.storage());
    const bool small = storage_bits(type_.storage()) <= 8;
    ElementJudge judge(tile, walk, graph_, tally, small ? rounding.value(rounding.format().largest) : infinity);
    const HostTensor* old = output_.accumulate ? &before_.buffers->at(output_.tensor.name) : nullptr;
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.cols; ++c) {
        const int64_t at = walk.position(tile, r, c);
        Expected wanted = expected(tile, r * Tile::pitch + c);
        if (old) {
          // The sum is rounded to f32 before the store, unless the compiler rounds it to the storage at once.
          const double prior = load_one(*old, at);
          const double low = wanted.low + prior, high = wanted.high + prior;
          wanted.value += prior;
          wanted.low = std::min<double>(low, static_cast<float>(low));
          wanted.high = std::max<double>(high, static_cast<float>(high));
        }
        const uint32_t code = load_code(codes(), at);
        judge.element(r, c, wanted, code, rounding.value(code), rounding);
      }
  }

  void scaled(const OutputWalk& walk, const Tile& tile, Tally& tally) const {
    const Quantiser& quantiser = walk.scaled()->quantiser();
    const FloatFormat& format = quantiser.element_format();
    ElementJudge judge(tile, walk, graph_, tally, infinity);
    std::vector<double> values;
    for_each_block(walk, tile, [&](const TileBlock& block) {
      values.clear();
      double least = 0, most = 0;  // the largest magnitude is at least and at most so much
      bool unknown = false;
      block.for_each_element([&](int64_t, int64_t, int64_t from) {
        const double low = tile.low[from], high = tile.high[from];
        values.push_back(tile.value[from]);
        unknown = unknown || is_unknown(tile.value[from], low, high);
        least = std::max(least, low > 0 ? low : high < 0 ? -high : 0);
        most = std::max({most, std::fabs(low), std::fabs(high)});
      });
      const double amax = quantiser.amax(values.data(), static_cast<int64_t>(values.size()));
      const BlockScale reference = quantiser.block_scale(amax, block.maximum);
      // A NaN that is certain decides the scale, unless the type's policy drops it.
      const ScaleInterval allowed = is_nan(amax) || std::isinf(amax)
                                        ? ScaleInterval(reference.code)
                                        : ScaleInterval(quantiser, block.maximum, least, most);
      const uint32_t scale = load_code(scales(), block.scale);
      ++tally.scales;
      // Nor does it say much where all of the block may have become zero, which some types give another scale.
      if (scale != reference.code)
        judge.scale_differs(reference.code, scale, least == 0 || says_nothing(quantiser, allowed));
      if (!unknown && !allowed.holds(scale))
        judge.scale_outside(block.row, block.col, block.scale,
                            {quantiser.scale_value(reference.code), quantiser.scale_value(allowed.lowest()),
                             quantiser.scale_value(allowed.highest()), 0, false},
                            quantiser.scale_value(scale));
      const bool is_certain = !unknown && static_cast<float>(least) == static_cast<float>(most);
      BlockRounding rounding(quantiser, scale, block.maximum, reference, is_certain);
      block.for_each_element([&](int64_t r, int64_t c, int64_t from) {
        const uint32_t code = load_code(codes(), walk.position(tile, r, c));
        tally.saturated += (code & (format.sign - 1)) == format.largest;
        rounding.set_random(random_of(walk, tile, r, c));
        if (!rounding.is_nan_scale())
          return judge.element(r, c, expected(tile, from), code, rounding.value(code), rounding);
        // Under a NaN scale every value rounds to NaN, so a NaN code is right and nothing else is.
        constexpr double nan = std::numeric_limits<double>::quiet_NaN();
        const double stored = code == format.nan ? nan : decode(format, code);
        judge.element(r, c, {nan, nan, nan, 0, false}, code, stored, rounding);
      });
    });
  }

  // Whether the interval is so wide that a scale in it that is not the reference's is nothing to count: of f32 scales
  // any that is no point, of others one of three scales and more.
  static bool says_nothing(const Quantiser& quantiser, const ScaleInterval& allowed) {
    return allowed.highest() > allowed.lowest() + (quantiser.info().scale == Storage::f32 ? 0 : 1);
  }

  void add_up(const std::vector<Tally>& tallies) {
    std::map<int, GroupVerdict> groups;
    std::map<int, Norms> group_norms;
    std::map<std::pair<int, int64_t>, Norms> strips;
    Norms all;
    for (const Tally& tally : tallies) {
      GroupVerdict& group = groups[tally.group];
      verdict_.add(tally);
      group.add(tally);
      for (WorstElement* worst : {&verdict_.worst, &group.worst})
        if (tally.worst.found && (!worst->found || tally.worst.excess > worst->excess)) *worst = tally.worst;
      for (size_t i = 0; i < tally.strips.size(); ++i) {
        all.add(tally.strips[i]);
        group_norms[tally.group].add(tally.strips[i]);
        strips[{tally.group, tally.first_column + static_cast<int64_t>(i) * strip_width}].add(tally.strips[i]);
      }
    }
    const double limit = verdict_.norm_limit = norm_limit(type_.storage());
    verdict_.error_norm = all.relative();
    for (auto& [number, group] : groups) {
      const Norms& norms = group_norms[number];
      group.group = number;
      group.error_norm = norms.relative();
      group.norm_exceeded = !norms.within(limit);
      verdict_.norms_exceeded += group.norm_exceeded;
      if (group.error_norm > verdict_.worst_group_norm) {
        verdict_.worst_group_norm = group.error_norm;
        verdict_.worst_group = number;
      }
      verdict_.groups.push_back(std::move(group));
    }
    for (const auto& [key, norms] : strips) {
      verdict_.norms_exceeded += !norms.within(limit);
      if (norms.relative() <= verdict_.worst_strip_norm) continue;
      verdict_.worst_strip_norm = norms.relative();
      verdict_.worst_strip_group = key.first;
      verdict_.worst_strip_column = key.second;
    }
  }

  // What belongs to nobody still holds what it held, and gaps are zero.
  void untouched(const OutputWalk& walk) {
    const HostTensor* old = before_.buffers ? &before_.buffers->at(output_.tensor.name) : nullptr;
    for (const OutputWalk::CutAxis& cut : walk.cut_axes())
      for (const StoredRange& range : cut.ranges)
        if (range.kind != StoredRange::Kind::owned)
          for_each_stretch(codes(), cut.axis, range, [&](int64_t first, int64_t count) {
            for (int64_t i = first; i < first + count; ++i) unowned(codes(), old, i, range.kind);
          });
  }

  void untouched_scales(const OutputWalk& walk) {
    const HostTensor* old = before_.buffers ? &before_.buffers->at(output_.tensor.name + ".scale") : nullptr;
    const std::vector<StoredRange::Kind> kinds = walk.scaled()->places().kinds();
    for (size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] != StoredRange::Kind::owned) unowned(scales(), old, static_cast<int64_t>(i), kinds[i]);
  }

  // Counts the bytes of an element that are not what they should be; half a byte counts as one.
  void unowned(const HostTensor& tensor, const HostTensor* old, int64_t at, StoredRange::Kind kind) {
    int64_t& count = kind == StoredRange::Kind::gap ? verdict_.gap : verdict_.touched;
    const int bits = storage_bits(tensor.storage);
    if (bits < 8) {
      const uint32_t poison = at % 2 == 0 ? before_.poison & 0xF : before_.poison >> 4;
      const uint32_t wanted = kind == StoredRange::Kind::gap ? 0 : old ? load_code(*old, at) : poison;
      count += load_code(tensor, at) != wanted;
      return;
    }
    for (int64_t i = at * bits / 8; i < (at + 1) * bits / 8; ++i) {
      const uint8_t wanted = kind == StoredRange::Kind::gap ? 0 : old ? old->bytes[i] : before_.poison;
      count += tensor.bytes[i] != wanted;
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
    cause(v.gap, fmt::format("{} bytes in gaps and padding are not zero", v.gap));
    cause(v.norms_exceeded, fmt::format("the error's norm exceeds its limit in {} groups or strips", v.norms_exceeded));
    // One scale may always differ: a thousandth of a few blocks is none.
    const double allowed = std::max(1.0, different_scales * static_cast<double>(v.scales));
    const int64_t unexplained = v.scales_different - v.scales_uncertain;
    cause(static_cast<double>(unexplained) > allowed,
          fmt::format("{} of {} scales differ from the reference", unexplained, v.scales));
    for (const std::string& text : causes) v.cause += (v.cause.empty() ? "" : "; ") + text;
    v.ok = causes.empty();
  }

  const Reference& reference_;
  const ir::Graph& graph_;
  const ir::Output& output_;
  const Buffers& stored_;
  const Before before_;
  const ir::TensorType& type_;
  const HostTensor *codes_ = nullptr, *scales_ = nullptr;
  Verdict verdict_;
};

}  // namespace

void Counts::add(const Counts& other) {
  elements += other.elements;
  outside += other.outside;
  different += other.different;
  one_step += other.one_step;
  more_steps += other.more_steps;
  scales += other.scales;
  scales_outside += other.scales_outside;
  scales_different += other.scales_different;
  scales_one_step += other.scales_one_step;
  scales_more_steps += other.scales_more_steps;
  scales_uncertain += other.scales_uncertain;
  nan_reference += other.nan_reference;
  nan_stored += other.nan_stored;
  saturated += other.saturated;
  zero_signs += other.zero_signs;
}

Result<Verdict> judge(const Reference& reference, const ir::Output& output, const Buffers& stored,
                      const Before& before) {
  Result<std::vector<Verdict>> verdicts = judge_runs(reference, output, {{&stored, before}});
  if (!verdicts) return verdicts.error();
  return std::move(verdicts->front());
}

Result<std::vector<Verdict>> judge_runs(const Reference& reference, const ir::Output& output,
                                        const std::vector<Run>& runs) {
  std::vector<OutputJudge> judges;
  for (const Run& run : runs) {
    judges.emplace_back(reference, output, run);
    if (Status status = judges.back().check_buffers(); !status) return status.error();
  }
  std::vector<Verdict> verdicts;
  if (reference.problem().graph().nodes[output.value].op == ir::Op::group_ends) {
    for (OutputJudge& judge : judges) verdicts.push_back(judge.ends());
    return verdicts;
  }
  const Result<OutputWalk> walk = reference.walk(output, true);
  if (!walk) return walk.error();
  std::vector<std::vector<Tally>> tallies(runs.size(), std::vector<Tally>(static_cast<size_t>(walk->tiles())));
  parallel_for(walk->tiles(), reference.threads(), [&](int64_t i) {
    const Tile tile = walk->tile(i);
    for (size_t run = 0; run < runs.size(); ++run) tallies[run][i] = judges[run].judge_tile(*walk, tile);
  });
  for (size_t run = 0; run < runs.size(); ++run) verdicts.push_back(judges[run].verdict(*walk, tallies[run]));
  return verdicts;
}

}  // namespace epifuse::interpreter
