// The walk over an output knows which elements it has and where they lie; the values are those of the two buffers.
#include "jit/stored_difference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/ensure.h"
#include "base/numbers.h"
#include "compiler/interpreter/output_walk.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/stored_ranges.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;
using interpreter::OutputWalk;
using interpreter::Tile;

// Codes of a storage in the order of their values, as sign and magnitude.
int64_t place_of(Storage storage, uint32_t code) {
  const int bits = storage_bits(storage);
  const auto magnitude = static_cast<int64_t>(code & ((uint64_t{1} << (bits - 1)) - 1));
  return (code >> (bits - 1)) != 0 ? -magnitude : magnitude;
}

struct Sums {
  int group = -1;
  double error = 0, reference = 0;
  int64_t elements = 0, different = 0, one_step = 0, scales = 0, scales_different = 0;

  void add(double a, double b, bool neighbours) {
    ++elements;
    if (std::isfinite(a) && std::isfinite(b)) error += (a - b) * (a - b), reference += b * b;
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    ++different;
    one_step += neighbours;
  }
};

double relative(double error, double reference) { return error == 0 ? 0 : std::sqrt(error / reference); }

class Comparison {
 public:
  Comparison(const OutputWalk& walk, const std::string& name, const Buffers& first, const Buffers& second)
      : walk_(walk), a_(first.at(name)), b_(second.at(name)) {
    const auto scale = first.find(name + ".scale");
    if (scale == first.end()) return;
    a_scales_ = &scale->second;
    b_scales_ = &second.at(name + ".scale");
  }

  Sums plain(int64_t index) const {
    const Tile tile = walk_.tile(index);
    Sums sums{tile.group};
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.cols; ++c) {
        const int64_t at = walk_.position(tile, r, c);
        sums.add(interpreter::load_one(a_, at), interpreter::load_one(b_, at), neighbours(at));
      }
    return sums;
  }

  Sums scaled(int64_t index) const {
    const interpreter::Quantiser& quantiser = walk_.scaled()->quantiser();
    const Tile tile = walk_.tile(index);
    Sums sums{tile.group};
    interpreter::for_each_block(walk_, tile, [&](const interpreter::TileBlock& block) {
      const uint32_t a_scale = interpreter::load_code(*a_scales_, block.scale);
      const uint32_t b_scale = interpreter::load_code(*b_scales_, block.scale);
      ++sums.scales;
      sums.scales_different += a_scale != b_scale;
      const bool same_scale = a_scale == b_scale || nearly_same(quantiser, a_scale, b_scale);
      const double a_whole = quantiser.whole_scale(a_scale, block.maximum);
      const double b_whole = quantiser.whole_scale(b_scale, block.maximum);
      block.for_each_element([&](int64_t r, int64_t c, int64_t) {
        const int64_t at = walk_.position(tile, r, c);
        sums.add(decode(a_.storage, interpreter::load_code(a_, at)) * a_whole,
                 decode(b_.storage, interpreter::load_code(b_, at)) * b_whole, same_scale && neighbours(at));
      });
    });
    return sums;
  }

 private:
  // Scales in f32 follow the largest magnitude to the last bit: two kernels seldom have the very same one.
  static bool nearly_same(const interpreter::Quantiser& quantiser, uint32_t a, uint32_t b) {
    if (quantiser.info().scale != Storage::f32) return false;
    const double first = quantiser.scale_value(a), second = quantiser.scale_value(b);
    return std::fabs(first - second) <= 0x1p-16 * std::fabs(second);
  }

  bool neighbours(int64_t at) const {
    return std::abs(place_of(a_.storage, interpreter::load_code(a_, at)) -
                    place_of(b_.storage, interpreter::load_code(b_, at))) <= 1;
  }

  const OutputWalk& walk_;
  const HostTensor &a_, &b_;
  const HostTensor *a_scales_ = nullptr, *b_scales_ = nullptr;
};

// A kernel of the same buffers whose outputs are all numbers: nothing is computed for a walk over them.
ir::Graph without_values(const ir::Graph& graph) {
  ir::Graph bare = graph;
  bare.nodes.clear();
  for (ir::Output& output : bare.outputs) {
    output.value = static_cast<ir::NodeId>(bare.nodes.size());
    output.reduction = ir::Reduction::none;
    ir::Node number;
    number.shape = output.tensor.shape;
    bare.nodes.push_back(std::move(number));
  }
  return bare;
}

StoredDifference difference_of_integers(const std::string& name, const HostTensor& a, const HostTensor& b) {
  StoredDifference result;
  result.output = name;
  Sums sums;
  for (int64_t i = 0; i < a.elements(); ++i)
    sums.add(static_cast<double>(interpreter::load_integer(a, i)), static_cast<double>(interpreter::load_integer(b, i)),
             false);
  result.norm = relative(sums.error, sums.reference);
  result.elements = sums.elements;
  result.different = sums.different;
  return result;
}

}  // namespace

double StoredDifference::worst_group_norm() const {
  return groups.empty() ? norm : *std::max_element(groups.begin(), groups.end());
}

int StoredDifference::worst_group() const {
  return groups.empty() ? -1 : static_cast<int>(std::max_element(groups.begin(), groups.end()) - groups.begin());
}

Result<StoredDifference> stored_difference(const ir::Graph& graph, const Buffers& inputs,
                                           const interpreter::Params& params, const ir::Output& output,
                                           const Buffers& first, const Buffers& second, int threads) {
  const std::string& name = output.tensor.name;
  const Storage storage = output.tensor.type.storage();
  if (storage == Storage::i32 || storage == Storage::i64)
    return difference_of_integers(name, first.at(name), second.at(name));
  const ir::Graph bare = without_values(graph);
  const Result<interpreter::Problem> problem = interpreter::Problem::bind(bare, inputs, params);
  if (!problem) return problem.error();
  const auto same = std::find_if(bare.outputs.begin(), bare.outputs.end(),
                                 [&](const ir::Output& other) { return other.tensor.name == name; });
  EPIFUSE_ENSURE(same != bare.outputs.end(), "an output of another kernel");
  const interpreter::GemmResults no_products;
  const Result<OutputWalk> walk = OutputWalk::make(*problem, no_products, *same, false, threads);
  if (!walk) return walk.error();
  const Comparison comparison(*walk, name, first, second);
  std::vector<Sums> tiles(static_cast<size_t>(walk->tiles()));
  interpreter::parallel_for(walk->tiles(), threads, [&](int64_t i) {
    tiles[static_cast<size_t>(i)] = walk->scaled() ? comparison.scaled(i) : comparison.plain(i);
  });

  StoredDifference result;
  result.output = name;
  Sums all;
  std::vector<Sums> groups;
  for (const Sums& tile : tiles) {
    all.error += tile.error, all.reference += tile.reference;
    result.elements += tile.elements;
    result.different += tile.different;
    result.one_step += tile.one_step;
    result.scales += tile.scales;
    result.scales_different += tile.scales_different;
    if (tile.group < 0) continue;
    if (groups.size() <= static_cast<size_t>(tile.group)) groups.resize(static_cast<size_t>(tile.group) + 1);
    groups[static_cast<size_t>(tile.group)].error += tile.error;
    groups[static_cast<size_t>(tile.group)].reference += tile.reference;
  }
  result.norm = relative(all.error, all.reference);
  for (const Sums& group : groups) result.groups.push_back(relative(group.error, group.reference));
  return result;
}

}  // namespace epifuse::jit
