#include "compiler/interpreter/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/interpreter/exact_sums.h"
#include "compiler/interpreter/jumps.h"
#include "compiler/interpreter/parallel.h"

namespace epifuse::interpreter {
namespace {

// How many roundings an f32 sum of n terms goes through on the device at most: a tree inside a block of 32 columns or a
// tile of rows, then blocks or tiles one after the other.
double sum_depth(int64_t n) { return std::min<double>(static_cast<double>(n), 64 + static_cast<double>(n) / 32); }

// What f32 sums reach, relative to the magnitudes that they add (numerics.md §11.2), and how much of the terms' own
// errors: those are random, and an eighth of the worst case is far above what they reach.
constexpr double sum_error = 1e-5;

constexpr int64_t enough_tasks = 256;

constexpr int empty_grid = std::numeric_limits<int>::max() / 2;

struct Accumulator {
  double value = 0, low = 0, high = 0;
  double magnitude = 0;  // sum of |x|, for the rounding of the device's sum
  double spread = 0;     // sum of squares of the terms' radii
  Jumps jumps;           // terms that jump, in the place of their radii
  double slack = 0;
  int grid = empty_grid;  // exponent of the largest power of two that divides every term
  bool exact = true;      // every term is known exactly
  int64_t terms = 0;
};

class Reducer {
 public:
  Reducer(ir::Reduction kind, bool bounds) : kind_(kind), bounds_(bounds) {}

  void add(Accumulator& into, const Lane& from, int i) const {
    const double value = from.value[i];
    ++into.terms;
    if (kind_ == ir::Reduction::amax) {
      into.value = larger(into.value, std::fabs(value));
      if (!bounds_) return;
      const double low = from.low[i], high = from.high[i];
      into.low = larger(into.low, low > 0 ? low : high < 0 ? -high : low != low ? low : 0);
      into.high = larger(into.high, larger(std::fabs(low), std::fabs(high)));
      if (from.jumps[i] != 0) into.jumps.add(value, low, high);
      return;
    }
    into.value += value;
    if (!bounds_) return;
    into.low += from.low[i];
    into.high += from.high[i];
    into.magnitude += std::max(std::fabs(from.low[i]), std::fabs(from.high[i]));
    if (from.low[i] != from.high[i]) {
      into.exact = false;
      const double radius = (from.high[i] - from.low[i]) / 2;
      if (from.jumps[i] != 0)
        into.jumps.add(value, from.low[i], from.high[i]);
      else
        into.spread += radius * radius;
    } else if (into.exact && value != 0 && std::isfinite(value)) {
      into.grid = std::min(into.grid, lowest_bit(value));
    }
  }

  void merge(Accumulator& into, const Accumulator& from) const {
    into.terms += from.terms;
    into.exact = into.exact && from.exact;
    into.grid = std::min(into.grid, from.grid);
    into.jumps.add(from.jumps);
    if (kind_ == ir::Reduction::amax) {
      into.value = larger(into.value, from.value);
      into.low = larger(into.low, from.low);
      into.high = larger(into.high, from.high);
      return;
    }
    into.value += from.value;
    into.low += from.low;
    into.high += from.high;
    into.magnitude += from.magnitude;
    into.spread += from.spread;
  }

  void finish(Accumulator& x) const {
    if (!bounds_) return;
    if (kind_ == ir::Reduction::amax) {
      x.slack = share_of_worst_case * (x.high - x.low) / 2 + std::min(x.jumps.norm(), x.high - x.low);
      return;
    }
    // Whole steps of a common grid, fewer than f32 can count: every partial sum is exact in any order.
    if (x.exact && x.magnitude < std::ldexp(1.0, std::min(24 + x.grid, 1000))) return;
    x.slack = sum_error * x.magnitude + share_of_worst_case * std::sqrt(x.spread) + x.jumps.norm();
    const double error = sum_depth(x.terms) * 0x1p-24 * x.magnitude;
    x.low -= error;
    x.high += error;
  }

 private:
  // NaN wins, as in a maximum of bits.
  static double larger(double a, double b) { return b > a || b != b ? b : a; }

  ir::Reduction kind_;
  bool bounds_;
};

class Reduction {
 public:
  Reduction(const Problem& problem, const ir::Output& output, const ValueProgram& program, bool bounds)
      : graph_(problem.graph()), problem_(problem), program_(program), reducer_(output.reduction, bounds) {
    const ir::Shape& shape = graph_.nodes[output.value].shape;
    result_.strides.resize(output.tensor.shape.size());
    int64_t elements = 1;
    for (size_t i = output.tensor.shape.size(); i-- > 0;) {
      result_.strides[i] = elements;
      elements *= problem.size(graph_.base_name(output.tensor.shape[i]));
    }
    result_.value.resize(static_cast<size_t>(elements));
    if (bounds)
      for (std::vector<double>* ends : {&result_.low, &result_.high, &result_.slack})
        ends->resize(result_.value.size());
    for (const ir::Extent& e : shape) axes_.push_back(axis(graph_.base_name(e), output.tensor.shape));
  }

  Reduced run(int threads) {
    count_cells();
    if (slices_ == 1) {
      // Cells that share the registers of a program; enough tasks are left for all cores.
      const int64_t batch = std::clamp<int64_t>(cells_ / enough_tasks, 1, 64);
      parallel_for((cells_ + batch - 1) / batch, threads, [&](int64_t task) {
        ValueProgram::Scratch scratch(program_);
        for (int64_t cell = task * batch; cell < std::min(cells_, (task + 1) * batch); ++cell) {
          std::vector<Accumulator> sums = slice(cell, 0, scratch);
          write(cell, sums);
        }
      });
      return std::move(result_);
    }
    std::vector<std::vector<Accumulator>> partial(static_cast<size_t>(cells_ * slices_));
    parallel_for(cells_ * slices_, threads, [&](int64_t task) {
      ValueProgram::Scratch scratch(program_);
      partial[task] = slice(task / slices_, task % slices_, scratch);
    });
    for (int64_t cell = 0; cell < cells_; ++cell) {
      std::vector<Accumulator>& sums = partial[cell * slices_];
      for (int64_t s = 1; s < slices_; ++s)
        for (size_t i = 0; i < sums.size(); ++i) reducer_.merge(sums[i], partial[cell * slices_ + s][i]);
      write(cell, sums);
    }
    return std::move(result_);
  }

 private:
  struct Piece {
    int64_t begin, end;
    int64_t kept;  // place along the result's axis of its first element
  };
  struct Axis {
    bool kept = false;  // each place is an element of the result, or (per group) each group is
    bool per_group = false;
    int64_t stride = 0;  // in the result
    std::vector<Piece> pieces;
  };

  // The vector axis is cut into runs; a kept axis beside it into single places; a reduced one stays in long pieces.
  Axis axis(const ir::Extent& name, const ir::Shape& kept_names) const {
    Axis result;
    const Groups* groups = name.times == 1 && name.over == 1 ? problem_.groups(name.dim) : nullptr;
    for (size_t i = 0; i < kept_names.size(); ++i) {
      const bool count = groups && kept_names[i] == ir::Extent{1, graph_.dims[name.dim].cut_by, 1};
      if (!count && !graph_.same_name(kept_names[i], name)) continue;
      result.kept = true;
      result.per_group = count;
      result.stride = result_.strides[i];
    }
    if (!groups) {
      result.pieces.push_back({0, problem_.size(name), 0});
    } else {
      for (size_t e = 0; e < groups->start.size(); ++e)
        result.pieces.push_back(
            {groups->start[e], groups->end[e], result.per_group ? static_cast<int64_t>(e) : groups->start[e]});
    }
    return result;
  }

  bool scalar() const { return axes_.empty(); }
  const Axis& last() const { return axes_.back(); }

  // A cell is one choice for every kept axis: a place, a group, or for the vector axis a run of at most chunk_size.
  // Cells with few others beside them are cut into slices of their terms, so that all cores have work.
  void count_cells() {
    cells_ = 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      choices_.emplace_back();
      const Axis& a = axes_[i];
      if (!a.kept) {
        choices_[i].push_back({0, 0, 0});
      } else if (a.per_group) {
        choices_[i] = a.pieces;
      } else {
        const int64_t step = i + 1 == axes_.size() ? chunk_size : 1;
        for (const Piece& piece : a.pieces)
          for (int64_t p = piece.begin; p < piece.end; p += step)
            choices_[i].push_back({p, std::min(piece.end, p + step), piece.kept + p - piece.begin});
      }
      cells_ *= static_cast<int64_t>(choices_[i].size());
    }
    slices_ = cells_ == 0 || cells_ >= enough_tasks ? 1 : (enough_tasks + cells_ - 1) / cells_;
  }

  // The pieces of a cell (a reduced axis has an empty one), and where its first element lies in the result.
  std::vector<Piece> choice(int64_t cell, int64_t& result) const {
    std::vector<Piece> pieces(axes_.size());
    result = 0;
    for (size_t i = axes_.size(); i-- > 0;) {
      pieces[i] = choices_[i][cell % static_cast<int64_t>(choices_[i].size())];
      cell /= static_cast<int64_t>(choices_[i].size());
      if (axes_[i].kept) result += pieces[i].kept * axes_[i].stride;
    }
    return pieces;
  }

  // The terms of a cell that fall to one slice, in their order.
  std::vector<Accumulator> slice(int64_t cell, int64_t number, ValueProgram::Scratch& scratch) const {
    int64_t unused;
    const std::vector<Piece> chosen = choice(cell, unused);
    if (scalar()) {
      std::vector<Accumulator> sum(1);
      if (number == 0) reducer_.add(sum[0], program_.run(scratch, nullptr, 1), 0);
      return sum;
    }
    // Places of the axes beside the vector axis: one of a kept axis, all of a reduced one.
    std::vector<std::vector<int64_t>> places(axes_.size() - 1);
    int64_t combinations = 1;
    for (size_t i = 0; i + 1 < axes_.size(); ++i) {
      const std::vector<Piece> whole = axes_[i].kept ? std::vector<Piece>{chosen[i]} : axes_[i].pieces;
      for (const Piece& piece : whole)
        for (int64_t p = piece.begin; p < piece.end; ++p) places[i].push_back(p);
      combinations *= static_cast<int64_t>(places[i].size());
    }
    const bool along_vector = last().kept && !last().per_group;
    const std::vector<Piece> runs = last().kept ? std::vector<Piece>{chosen.back()} : last().pieces;
    std::vector<Accumulator> sums(along_vector ? static_cast<size_t>(runs[0].end - runs[0].begin) : 1);
    std::vector<int64_t> position(axes_.size());
    const int64_t begin = combinations * number / slices_, end = combinations * (number + 1) / slices_;
    for (int64_t c = begin; c < end; ++c) {
      int64_t rest = c;
      for (size_t i = places.size(); i-- > 0;) {
        position[i] = places[i][rest % static_cast<int64_t>(places[i].size())];
        rest /= static_cast<int64_t>(places[i].size());
      }
      for (const Piece& run : runs)
        for (int64_t p = run.begin; p < run.end; p += chunk_size) {
          position.back() = p;
          const int count = static_cast<int>(std::min<int64_t>(chunk_size, run.end - p));
          const Lane lane = program_.run(scratch, position.data(), count);
          for (int i = 0; i < count; ++i) reducer_.add(sums[along_vector ? i : 0], lane, i);
        }
    }
    return sums;
  }

  void write(int64_t cell, std::vector<Accumulator>& sums) {
    int64_t at;
    choice(cell, at);
    for (size_t i = 0; i < sums.size(); ++i) {
      reducer_.finish(sums[i]);
      const int64_t place = at + static_cast<int64_t>(i) * (scalar() ? 0 : last().stride);
      result_.value[place] = sums[i].value;
      if (result_.low.empty()) continue;
      result_.low[place] = sums[i].low;
      result_.high[place] = sums[i].high;
      result_.slack[place] = sums[i].slack;
    }
  }

  const ir::Graph& graph_;
  const Problem& problem_;
  const ValueProgram& program_;
  Reducer reducer_;
  Reduced result_;
  std::vector<Axis> axes_;
  std::vector<std::vector<Piece>> choices_;
  int64_t cells_ = 0, slices_ = 1;
};

}  // namespace

Result<Reduced> reduce(const Problem& problem, const GemmResults& gemms, const ir::Output& output, bool bounds,
                       int threads) {
  ir::Shape domain;
  for (const ir::Extent& e : problem.graph().nodes[output.value].shape) domain.push_back(problem.graph().base_name(e));
  const Result<ValueProgram> program =
      ValueProgram::compile(problem, gemms, output.value, domain, static_cast<int>(domain.size()) - 1, bounds);
  if (!program) return program.error();
  return Reduction(problem, output, *program, bounds).run(threads);
}

}  // namespace epifuse::interpreter
