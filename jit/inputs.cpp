// Sizes first (from what is given, then from counts), then a tensor for each input that is missing, then NaN into rows
// that belong to nobody.
#include "jit/inputs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

#include "base/digest.h"
#include "base/ensure.h"
#include "base/numbers.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/problem.h"
#include "compiler/interpreter/stored_ranges.h"
#include "compiler/ir/buffers.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// A generator that is a function of the place: threads share nothing, and any order gives the same numbers.
uint64_t hash(uint64_t seed, uint64_t place) {
  uint64_t x = seed + (place + 1) * 0x9E3779B97F4A7C15;  // splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32; }  // in (0, 1)
double normal(uint64_t bits) {                                                               // Box and Muller
  const double low = (static_cast<double>(bits & 0xFFFFFFFF) + 0.5) * 0x1p-32;
  return std::sqrt(-2 * std::log(uniform(bits))) * std::cos(2 * std::numbers::pi * low);
}

class InputMaker {
 public:
  InputMaker(const ir::Graph& graph, const InputOptions& options)
      : graph_(graph), options_(options), buffers_(options.given), sizes_(graph.dims.size()) {}

  Result<Buffers> run() {
    if (Status s = sizes_from_what_is_given(); !s) return s.error();
    if (Status s = check_memory(); !s) return s.error();
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      if (graph_.dims[i].kind != ir::DimKind::grouped) continue;
      if (Status s = choose_groups(static_cast<ir::DimId>(i)); !s) return s.error();
    }
    if (Status s = check_memory(); !s) return s.error();  // once more, now that the rows of the groups are known
    for (const ir::Input& input : graph_.inputs)
      if (!input.left_out) make_missing(input.tensor);
    // Everything is checked here, what is given as well.
    const Result<interpreter::Problem> problem = interpreter::Problem::bind(graph_, buffers_, any_params());
    if (!problem) return problem.error();
    for (const auto& [name, tensor] : made_) spoil_rows_outside(*problem, *tensor, buffers_.at(name));
    return std::move(buffers_);
  }

 private:
  // Params say nothing about inputs, but a problem wants them.
  interpreter::Params any_params() const {
    interpreter::Params params;
    for (const ir::Param& param : graph_.params) params[param.name] = 1;
    return params;
  }

  Status sizes_from_what_is_given() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const ir::Dimension& dim = graph_.dims[i];
      if (dim.kind == ir::DimKind::fixed) sizes_[i] = dim.value;
      EPIFUSE_ENSURE(dim.kind != ir::DimKind::fixed || dim.value, "inputs for a kernel whose dims are not bound");
    }
    for (const auto& [name, value] : options_.sizes) {
      const auto dim =
          std::find_if(graph_.dims.begin(), graph_.dims.end(), [&](const ir::Dimension& d) { return d.name == name; });
      if (dim == graph_.dims.end() || dim->kind != ir::DimKind::dynamic) {
        return user_error(fmt::format("'{}' is no dyn of kernel '{}'", name, graph_.name));
      }
      if (value < 0) return user_error(fmt::format("the size {} of '{}' is negative", value, name));
      sizes_[static_cast<size_t>(dim - graph_.dims.begin())] = value;
    }
    for (const ir::Input& input : graph_.inputs)
      if (Status s = sizes_from(input.tensor, input.left_out); !s) return s;
    for (const ir::Output& output : graph_.outputs)  // those that are added to
      if (Status s = sizes_from(output.tensor, output.left_out); !s) return s;
    if (Status s = sizes_from_slots(); !s) return s;
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      if (graph_.dims[i].kind == ir::DimKind::dynamic && !sizes_[i]) sizes_[i] = InputOptions::default_size;
    }
    return {};
  }

  // Where nothing else says how large a slot is, the rows of all slots do, if they are given.
  Status sizes_from_slots() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const ir::Dimension& dim = graph_.dims[i];
      if (!dim.slot || dim.slot->dim < 0 || !sizes_[i]) continue;
      const ir::Dimension& unit = graph_.dims[static_cast<size_t>(dim.slot->dim)];
      if (unit.kind != ir::DimKind::dynamic) continue;
      std::optional<int64_t>& size = sizes_[static_cast<size_t>(dim.slot->dim)];
      const int64_t groups = *sizes_[static_cast<size_t>(dim.cut_by)];
      if (!size) {
        size = *sizes_[i] / groups * dim.slot->over / dim.slot->times;
      } else if (options_.sizes.contains(unit.name) && static_cast<__int128>(groups) * *size * dim.slot->times !=
                                                           static_cast<__int128>(*sizes_[i]) * dim.slot->over) {
        return user_error(
            fmt::format("{} slots of {} for '{}' are not the {} rows that are given, and '{}' is asked "
                        "to be {}",
                        groups, graph_.extent_text(*dim.slot), dim.name, *sizes_[i], unit.name, *size));
      }
    }
    return {};
  }

  // The first buffer decides a size; what contradicts it in a later one, the binding of the problem finds. A size that
  // was asked for is checked here, since that binding does not know of it.
  Status sizes_from(const ir::Tensor& declared, bool left_out) {
    const auto given = buffers_.find(declared.name);
    if (left_out || given == buffers_.end()) return {};
    for (size_t axis = 0; axis < std::min(declared.shape.size(), given->second.extents.size()); ++axis) {
      const ir::Extent& extent = declared.shape[axis];
      if (extent.dim < 0) continue;
      const int64_t found = given->second.extents[axis];
      std::optional<int64_t>& size = sizes_[static_cast<size_t>(extent.dim)];
      if (!size) size = found * extent.over / extent.times;
      const std::string& name = graph_.dims[static_cast<size_t>(extent.dim)].name;
      if (options_.sizes.contains(name) &&
          static_cast<__int128>(*size) * extent.times != static_cast<__int128>(found) * extent.over)
        return user_error(fmt::format("'{}': axis {} ({}) is {}, and '{}' is asked to be {}", declared.name, axis,
                                      graph_.extent_text(extent), found, name, *size));
    }
    return {};
  }

  // Behind this, the number of elements and bytes of every buffer fits into 64 bits. Rows of groups that are not known
  // yet count as one.
  Status check_memory() const {
    const auto size_of_name = [&](std::string_view name) -> std::optional<int64_t> {
      for (size_t i = 0; i < graph_.dims.size(); ++i)
        if (graph_.dims[i].name == name) return sizes_[i].value_or(1);
      return std::nullopt;
    };
    for (const ir::Buffer& buffer : ir::buffers(graph_)) {
      int64_t bytes = 8;
      for (const IntExpr& extent : buffer.extents) {
        const Result<int64_t> size = extent.evaluate(size_of_name);
        if (!size) return user_error(fmt::format("'{}': {}", buffer.name, size.error().message));
        if (__builtin_mul_overflow(bytes, std::max<int64_t>(*size, 1), &bytes))
          return user_error(fmt::format("'{}' would be larger than any memory; see its dimensions", buffer.name));
      }
    }
    return {};
  }

  // Sizes of the groups, and the capacity that they need.
  Status choose_groups(ir::DimId id) {
    const ir::Dimension& dim = graph_.dims[static_cast<size_t>(id)];
    const int64_t groups = *sizes_[static_cast<size_t>(dim.cut_by)];
    std::optional<int64_t>& capacity = sizes_[static_cast<size_t>(id)];
    const std::string name = dim.name + (dim.sizes == ir::GroupSizes::ends ? ".ends" : ".counts");
    const auto given = buffers_.find(name);
    if (Status s = check_slots(dim, groups); !s) return s;
    std::vector<int64_t> counts;
    if (given != buffers_.end()) {
      if (capacity) return {};
      if (given->second.elements() != groups || storage_bits(given->second.storage) < 32 ||
          is_float(given->second.storage)) {
        return user_error(fmt::format("'{}' holds no integer for each of {} groups", name, groups));
      }
      int64_t end = 0;
      for (int64_t e = 0; e < groups; ++e) {
        const int64_t size = interpreter::load_integer(given->second, e);
        end = dim.sizes == ir::GroupSizes::ends ? size : round_up(end, dim.align) + size;
      }
      capacity =
          dim.slot ? slot_rows(dim, groups) : round_up(std::max<int64_t>(end, 0), dim.align) + options_.slack_rows;
      return {};
    }
    if (options_.counts) {
      counts = *options_.counts;
      if (static_cast<int64_t>(counts.size()) != groups) {
        return user_error(fmt::format("{} counts are given for the {} groups of '{}' (dimension '{}')", counts.size(),
                                      groups, dim.name, graph_.dims[static_cast<size_t>(dim.cut_by)].name));
      }
      for (const int64_t count : counts)
        if (count < 0) return user_error(fmt::format("the count {} of '{}' is negative", count, dim.name));
    } else {
      if (Status few = check_made_groups(dim.name, groups); !few) return few;
      counts = random_counts(dim, groups, capacity);
    }
    HostTensor& sizes = buffers_[name] = interpreter::make_tensor(dim.sizes_storage, {groups});
    int64_t end = 0;
    for (int64_t e = 0; e < groups; ++e) {
      const int64_t count = counts[static_cast<size_t>(e)];
      end = (dim.slot ? e * size_of(*dim.slot) : round_up(end, dim.align)) + count;
      if (end > std::numeric_limits<int32_t>::max()) {
        return user_error(fmt::format("{}; a kernel takes at most {}", too_many_rows(dim, counts, e, end),
                                      std::numeric_limits<int32_t>::max()));
      }
      interpreter::store_one(sizes, e, static_cast<double>(dim.sizes == ir::GroupSizes::ends ? end : count));
    }
    if (!capacity) capacity = dim.slot ? slot_rows(dim, groups) : round_up(end, dim.align) + options_.slack_rows;
    return {};
  }

  // Why a group ends behind all rows that a kernel takes: the counts do not say it where others decide where it begins.
  std::string too_many_rows(const ir::Dimension& dim, const std::vector<int64_t>& counts, int64_t group,
                            int64_t end) const {
    const int64_t rows = std::accumulate(counts.begin(), counts.begin() + group + 1, int64_t{0});
    if (rows == end) return fmt::format("the counts of '{}' add up to {} rows", dim.name, end);
    const std::string where = dim.slot ? fmt::format("lie in slots of {} rows", size_of(*dim.slot))
                                       : fmt::format("begin at multiples of {} rows (align)", dim.align);
    return fmt::format("groups of '{}' {}, and group {}, with {} rows, ends at row {}", dim.name, where, group,
                       counts[static_cast<size_t>(group)], end);
  }

  // Where the slot's size is given at launch, the buffer's rows say it: there is no slack.
  int64_t slot_rows(const ir::Dimension& dim, int64_t groups) const {
    const ir::DimId size = dim.slot->dim;
    const bool said_by_rows = size >= 0 && graph_.dims[static_cast<size_t>(size)].kind == ir::DimKind::dynamic;
    return groups * size_of(*dim.slot) + (said_by_rows ? 0 : options_.slack_rows);
  }

  // Behind this, rows in slots are numbers that a kernel can take.
  Status check_slots(const ir::Dimension& dim, int64_t groups) const {
    if (!dim.slot) return {};
    const std::string fault = ir::slots_fault(graph_, dim, groups, dim.slot->dim < 0 ? 1 : dim_size(dim.slot->dim));
    return fault.empty() ? Status() : user_error(fault);
  }

  std::vector<int64_t> random_counts(const ir::Dimension& dim, int64_t groups, std::optional<int64_t> capacity) const {
    constexpr int64_t most = 300;
    std::vector<int64_t> counts;
    int64_t end = 0;
    for (int64_t e = 0; e < groups; ++e) {
      const uint64_t bits = hash(options_.seed, static_cast<uint64_t>(e));
      const int64_t start = dim.slot ? e * size_of(*dim.slot) : round_up(end, dim.align);
      int64_t limit = most;
      if (capacity) limit = std::min(2 * *capacity / groups, std::max<int64_t>(0, *capacity - start));
      if (dim.slot) limit = std::min(limit, size_of(*dim.slot));
      counts.push_back(static_cast<int64_t>(bits % static_cast<uint64_t>(limit + 1)));
      end = start + counts.back();
    }
    return counts;
  }

  int64_t size_of(const ir::Extent& extent) const {
    return extent.times * (extent.dim < 0 ? 1 : dim_size(extent.dim)) / extent.over;
  }
  int64_t dim_size(ir::DimId id) const {
    const ir::Dimension& dim = graph_.dims[static_cast<size_t>(id)];
    if (sizes_[static_cast<size_t>(id)]) return *sizes_[static_cast<size_t>(id)];
    EPIFUSE_ENSURE(dim.kind == ir::DimKind::aligned, "a dimension without a size");
    // Room for every gap (language.md S6).
    const int64_t groups = dim_size(graph_.dims[static_cast<size_t>(dim.base)].cut_by);
    return (dim_size(dim.base) + groups * (dim.align - 1)) / dim.align * dim.align;
  }

  void make_missing(const ir::Tensor& declared) {
    const bool scaled = declared.type.scaled();
    if (buffers_.contains(declared.name)) return;
    std::vector<int64_t> extents;
    for (const ir::Extent& extent : declared.shape) extents.push_back(size_of(extent));
    if (scaled) {
      HostTensor& scale = buffers_[declared.name + ".scale"] =
          interpreter::make_tensor(ir::format_info(declared.type.format).scale, scale_extents(declared, extents));
      fill(scale, declared.name + ".scale", 1, /*is_scale=*/true);
      // Other layouts have no rows that could be spoilt one by one.
      if (declared.type.layout == ir::ScaleLayout::rows) made_.emplace_back(declared.name + ".scale", &declared);
    }
    HostTensor& tensor = buffers_[declared.name] = interpreter::make_tensor(declared.type.storage(), extents);
    fill(tensor, declared.name, weight_scale(declared), false);
    made_.emplace_back(declared.name, &declared);
  }

  std::vector<int64_t> scale_extents(const ir::Tensor& declared, const std::vector<int64_t>& extents) const {
    const Result<std::vector<int64_t>> result =
        ir::scale_extents(graph_, declared, extents, [&](std::string_view name) -> std::optional<int64_t> {
          for (size_t i = 0; i < graph_.dims.size(); ++i)
            if (graph_.dims[i].name == name) return dim_size(static_cast<ir::DimId>(i));
          return std::nullopt;
        });
    EPIFUSE_ENSURE(bool(result), "scales of a tensor of known sizes have no size");
    return *result;
  }

  // 1 / sqrt of the contraction for the second operand of a product, else 1.
  double weight_scale(const ir::Tensor& declared) const {
    for (const ir::Node& node : graph_.nodes) {
      if (node.op != ir::Op::gemm) continue;
      const ir::Node* operand = &graph_.nodes[static_cast<size_t>(node.args[1])];
      while (operand->op != ir::Op::input) operand = &graph_.nodes[static_cast<size_t>(operand->args[0])];
      if (&graph_.inputs[static_cast<size_t>(operand->index)].tensor == &declared) {
        return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, size_of(node.along))));
      }
    }
    return 1;
  }

  // Rows that a gather may read by this index; 0 of another input.
  int64_t gathered_rows(const std::string& name) const {
    for (const ir::Node& node : graph_.nodes) {
      if (node.op != ir::Op::gather) continue;
      const ir::Node& index = graph_.nodes[static_cast<size_t>(node.args[1])];
      if (graph_.inputs[static_cast<size_t>(index.index)].tensor.name == name) return size_of(node.along);
    }
    return 0;
  }

  void fill(HostTensor& tensor, const std::string& name, double scale, bool is_scale) const {
    if (!is_float(tensor.storage) && tensor.storage != Storage::e8m0) return fill_integers(tensor, name);
    if (is_named_by_output(&ir::TensorType::amax_input, name)) return fill_maxima(tensor, name);
    const uint64_t seed = options_.seed ^ digest(name).low;
    const int64_t columns = tensor.extents.empty() ? 1 : std::max<int64_t>(1, tensor.extents.back());
    constexpr int64_t chunk = 1 << 14;  // even: two elements of 4 bits share a byte
    const bool repeats = options_.repeat_after > 0 && options_.mode != DataMode::scaled;
    EPIFUSE_ENSURE(!repeats || options_.repeat_after % chunk == 0, "a tensor that repeats within a chunk");
    const int64_t elements = repeats ? std::min(tensor.elements(), options_.repeat_after) : tensor.elements();
    interpreter::parallel_for((elements + chunk - 1) / chunk, options_.threads, [&](int64_t task) {
      for (int64_t i = task * chunk; i < std::min(elements, (task + 1) * chunk); ++i) {
        const uint64_t bits = hash(seed, static_cast<uint64_t>(i));
        if (tensor.storage == Storage::e8m0) {
          interpreter::store_code(tensor, i, static_cast<uint32_t>(124 + bits % 7));
        } else if (is_scale) {
          interpreter::store_one(tensor, i, std::ldexp(1 + uniform(bits), static_cast<int>(bits % 7) - 3));
        } else if (options_.mode == DataMode::integers) {
          interpreter::store_one(tensor, i, static_cast<double>(bits % 5) - 2);
        } else {
          double value = normal(bits) * scale;
          if (options_.mode == DataMode::scaled) {
            value *= std::exp2(16 * uniform(hash(~seed, static_cast<uint64_t>(i / columns))) - 8);
          }
          interpreter::store_one(tensor, i, value);
        }
      }
    });
    repeat(tensor.bytes, static_cast<size_t>(storage_bytes(tensor.storage, elements)));
  }

  // Fills what is behind the first `made` bytes with them, again and again.
  static void repeat(std::vector<uint8_t>& bytes, size_t made) {
    for (size_t at = made; at < bytes.size(); at += made)
      std::copy_n(bytes.begin(), std::min(made, bytes.size() - at), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // Whether an output's type names this input in an option.
  bool is_named_by_output(std::string ir::TensorType::*option, const std::string& name) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const ir::Output& output) { return output.tensor.type.*option == name; });
  }

  // What the largest magnitude of some thousand values is, when they are normally distributed.
  void fill_maxima(HostTensor& tensor, const std::string& name) const {
    const uint64_t seed = options_.seed ^ digest(name).low;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      interpreter::store_one(tensor, i, 3 + 3 * uniform(hash(seed, static_cast<uint64_t>(i))));
  }

  // Indices of rows, now and then of none; seeds of stochastic rounding, of 64 bits; other integers are zeros.
  void fill_integers(HostTensor& tensor, const std::string& name) const {
    const uint64_t seed = options_.seed ^ digest(name).low;
    if (is_named_by_output(&ir::TensorType::seed_input, name)) {
      for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<uint8_t>(hash(seed, i));
      return;
    }
    const int64_t rows = gathered_rows(name);
    if (rows == 0) return;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const uint64_t bits = hash(seed, static_cast<uint64_t>(i));
      const auto row = static_cast<int64_t>((bits >> 8) % static_cast<uint64_t>(rows));
      interpreter::store_one(tensor, i, static_cast<double>(bits % 16 == 0 ? -1 : row));
    }
  }

  // NaN in rows of no group, along every axis that is cut into groups.
  void spoil_rows_outside(const interpreter::Problem& problem, const ir::Tensor& declared, HostTensor& tensor) const {
    for (size_t axis = 0; axis < std::min(declared.shape.size(), tensor.extents.size()); ++axis) {
      const ir::Extent& extent = declared.shape[axis];
      const interpreter::Groups* groups = extent.times == 1 && extent.over == 1 ? problem.groups(extent.dim) : nullptr;
      if (!groups || tensor.extents[axis] != problem.size(extent)) continue;
      int64_t end = 0;
      const auto spoil = [&](int64_t from, int64_t to) {
        if (from >= to) return;
        const bool is_integer = tensor.storage == Storage::i32 || tensor.storage == Storage::i64;
        const int bits = storage_bits(tensor.storage);
        interpreter::for_each_stretch(
            tensor, axis, {interpreter::StoredRange::Kind::outside, from, to}, [&](int64_t first, int64_t count) {
              std::fill_n(tensor.bytes.begin() + first * bits / 8, count * bits / 8, is_integer ? 0x7F : 0xFF);
            });
      };
      for (size_t e = 0; e < groups->start.size(); ++e) {
        if (groups->start[e] == groups->end[e]) continue;
        spoil(end, groups->start[e]);
        end = groups->end[e];
      }
      spoil(end, tensor.extents[axis]);
    }
  }

  const ir::Graph& graph_;
  const InputOptions& options_;
  Buffers buffers_;
  std::vector<std::optional<int64_t>> sizes_;  // by dimension; an aligned one may have none
  std::vector<std::pair<std::string, const ir::Tensor*>> made_;
};

}  // namespace

Status check_made_groups(const std::string& dimension, int64_t groups) {
  if (groups <= most_made_groups) return {};
  return user_error(
      fmt::format("'{}' has {} groups; sizes are made up for {} at most", dimension, groups, most_made_groups));
}

Result<Buffers> make_inputs(const ir::Graph& graph, const InputOptions& options) {
  return InputMaker(graph, options).run();
}

}  // namespace epifuse::jit
