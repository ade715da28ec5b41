#include "compiler/interpreter/output_walk.h"

#include <algorithm>

#include "base/ensure.h"

namespace epifuse::interpreter {
namespace {

using ir::Extent;

bool is_plain_name(const Extent& name) { return name.dim >= 0 && name.times == 1 && name.over == 1; }

// The grouped dimensions of whose rows an element of the output is a sum (by a gemm or by the output's own reduction).
std::vector<ir::DimId> summed_groups(const ir::Graph& graph, const ir::Output& output) {
  std::vector<ir::DimId> summed = graph.contracted_groups(output);
  if (output.reduction == ir::Reduction::none) return summed;
  for (const Extent& e : graph.nodes[static_cast<size_t>(output.value)].shape) {
    const Extent name = graph.base_name(e);
    if (is_plain_name(name) && graph.dims[name.dim].kind == ir::DimKind::grouped &&
        !graph.has_name(output.tensor.shape, name))
      summed.push_back(name.dim);
  }
  return summed;
}

}  // namespace

Result<OutputWalk> OutputWalk::make(const Problem& problem, const GemmResults& gemms, const ir::Output& output,
                                    bool bounds, int threads) {
  OutputWalk walk(problem, output);
  const ir::Graph& graph = problem.graph();
  walk.bounds_ = bounds;
  walk.summed_ = summed_groups(graph, output);
  // A reduced value keeps the order in which it is stored. Any other keeps the one in which it is computed, behind the
  // names along which it is the same; the count of the groups of a stored row is no name of the domain.
  const bool reduced = output.reduction != ir::Reduction::none;
  const ir::Shape &kept = output.tensor.shape, &value = graph.nodes[output.value].shape;
  for (const Extent& e : kept)
    if (reduced || !graph.has_name(value, e)) walk.domain_.push_back(graph.base_name(e));
  if (!reduced)
    for (const Extent& e : value)
      if (graph.has_name(kept, e)) walk.domain_.push_back(graph.base_name(e));
  if (output.tensor.type.scaled()) {
    Result<ScaledTensor> scaled = ScaledTensor::make(problem, output.tensor, graph.ordinal(output));
    if (!scaled) return scaled.error();
    walk.scaled_ = std::make_shared<const ScaledTensor>(*std::move(scaled));
  }
  walk.lay_out();
  walk.choose_axes();
  walk.cut_into_ranges();
  if (reduced) {
    Result<Reduced> values = reduce(problem, gemms, output, bounds, threads);
    if (!values) return values.error();
    walk.reduced_ = std::make_shared<const Reduced>(*std::move(values));
  } else {
    Result<ValueProgram> program =
        ValueProgram::compile(problem, gemms, output.value, walk.domain_, walk.col_axis_, bounds);
    if (!program) return program.error();
    walk.program_ = std::make_shared<const ValueProgram>(*std::move(program));
  }
  return walk;
}

void OutputWalk::lay_out() {
  const ir::Graph& graph = problem_->graph();
  const ir::Tensor& tensor = output_->tensor;
  const std::vector<int64_t> strides = HostTensor{tensor.type.storage(), problem_->extents(tensor), {}}.strides();
  const int rank = static_cast<int>(tensor.shape.size());
  int along = -1, across = -1;
  if (scaled_) {
    const ir::FormatInfo& info = scaled_->quantiser().info();
    along = ir::along_axis(tensor.type, rank);
    along_block_ = info.block_columns;
    across_block_ = info.block_rows;
    if (across_block_ > 1) across = ir::across_axis(tensor.type, rank);
  }
  for (const Extent& name : domain_) {
    sizes_.push_back(problem_->size(name));
    const auto axis = std::find_if(tensor.shape.begin(), tensor.shape.end(),
                                   [&](const Extent& e) { return graph.same_name(e, name); });
    EPIFUSE_ENSURE(axis != tensor.shape.end(), "an output that lacks a name of its domain");
    const int i = static_cast<int>(axis - tensor.shape.begin());
    if (i == along) along_ = static_cast<int>(strides_.size());
    if (i == across) across_ = static_cast<int>(strides_.size());
    stored_axes_.push_back(i);
    strides_.push_back(strides[i]);
  }
}

void OutputWalk::choose_axes() {
  const int rank = static_cast<int>(domain_.size());
  col_axis_ = rank - 1;
  if (rank < 2) return;
  if (across_ >= 0) {
    row_axis_ = std::min(along_, across_);
    col_axis_ = std::max(along_, across_);
    return;
  }
  // Rows are what the blocks run along, else what is contiguous in the buffer, else the next dimension.
  const auto contiguous = std::find(strides_.begin(), strides_.end(), 1) - strides_.begin();
  row_axis_ = rank - 2;
  if (contiguous < col_axis_) row_axis_ = static_cast<int>(contiguous);
  if (along_ >= 0 && along_ != col_axis_) row_axis_ = along_;
}

// Whether the name counts the groups of a grouped dimension.
bool OutputWalk::is_group_count(const Extent& name) const {
  const std::vector<ir::Dimension>& dims = problem_->graph().dims;
  return is_plain_name(name) && std::any_of(dims.begin(), dims.end(), [&](const ir::Dimension& dim) {
           return dim.kind == ir::DimKind::grouped && dim.cut_by == name.dim;
         });
}

// Whether elements at this place along a name are sums over the rows of a group without any.
bool OutputWalk::has_no_terms(const Extent& name, int64_t place) const {
  return is_plain_name(name) && std::any_of(summed_.begin(), summed_.end(), [&](ir::DimId grouped) {
           return problem_->graph().dims[grouped].cut_by == name.dim &&
                  problem_->groups(grouped)->count(static_cast<size_t>(place)) == 0;
         });
}

std::vector<DomainRange> OutputWalk::ranges_of(size_t axis) const {
  std::vector<DomainRange> ranges;
  const Extent& name = domain_[axis];
  if (const Groups* groups = is_plain_name(name) ? problem_->groups(name.dim) : nullptr) {
    for (size_t e = 0; e < groups->start.size(); ++e)
      ranges.push_back({groups->start[e], groups->end[e], static_cast<int>(e)});
  } else if (is_group_count(name) && block_of(static_cast<int>(axis)) == 1) {
    for (int64_t e = 0; e < sizes_[axis]; ++e) {
      const bool empty = has_no_terms(name, e);
      if (!empty || !output_->accumulate) ranges.push_back({e, e + 1, static_cast<int>(e), empty});
    }
  } else {
    ranges.push_back({0, sizes_[axis], -1});
  }
  return ranges;
}

void OutputWalk::cut_into_ranges() {
  tiles_ = 1;
  for (size_t axis = 0; axis < domain_.size(); ++axis) {
    const int a = static_cast<int>(axis);
    const int64_t step = a == col_axis_ ? Tile::pitch : a == row_axis_ ? Tile::most_rows : 1;
    pieces_.emplace_back();
    for (const DomainRange& range : ranges_of(axis))
      for (int64_t p = range.begin; p < range.end; p += step)
        pieces_.back().push_back({p, std::min(range.end, p + step), range.group, range.zero});
    tiles_ *= static_cast<int64_t>(pieces_.back().size());
  }
}

// How much farther along its axis a place lies in the buffer than in the domain.
int64_t OutputWalk::shift(size_t axis, int64_t place) const {
  const ir::DimId dim = output_->tensor.shape[stored_axes_[axis]].dim;
  if (dim < 0 || problem_->graph().dims[dim].kind != ir::DimKind::aligned) return 0;
  const Groups& base = *problem_->groups(domain_[axis].dim);
  const int32_t group = base.group_of[place];
  EPIFUSE_ENSURE(group >= 0, "a row outside the groups is stored");
  return problem_->groups(dim)->start[group] - base.start[group];
}

Tile OutputWalk::tile(int64_t index) const {
  Tile tile;
  tile.position.resize(domain_.size());
  tile.place.resize(domain_.size());
  bool zero = false;
  for (size_t axis = domain_.size(); axis-- > 0;) {
    const DomainRange& piece = pieces_[axis][index % static_cast<int64_t>(pieces_[axis].size())];
    index /= static_cast<int64_t>(pieces_[axis].size());
    tile.position[axis] = piece.begin;
    if (static_cast<int>(axis) == row_axis_) tile.rows = piece.end - piece.begin;
    if (static_cast<int>(axis) == col_axis_) tile.cols = piece.end - piece.begin;
    if (piece.group >= 0) tile.group = piece.group;
    zero = zero || piece.zero;
    const int64_t place = piece.begin + shift(axis, piece.begin);
    EPIFUSE_ENSURE(place % block_of(static_cast<int>(axis)) == 0, "a block would meet two groups");
    tile.place[stored_axes_[axis]] = place;
    tile.first += place * strides_[axis];
  }
  const size_t size = static_cast<size_t>(tile.rows * Tile::pitch);
  tile.value.resize(size);
  if (bounds_) tile.low.resize(size), tile.high.resize(size);
  if (bounds_) (reduced_ ? tile.slack : tile.jumps).resize(size);
  if (zero) return tile;
  if (reduced_) {
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.cols; ++c) {
        int64_t from = 0;
        for (size_t axis = 0; axis < domain_.size(); ++axis) from += tile.position[axis] * reduced_->strides[axis];
        if (row_axis_ >= 0) from += r * reduced_->strides[row_axis_];
        if (col_axis_ >= 0) from += c * reduced_->strides[col_axis_];
        const size_t to = static_cast<size_t>(r * Tile::pitch + c);
        tile.value[to] = reduced_->value[from];
        if (!bounds_) continue;
        tile.low[to] = reduced_->low[from];
        tile.high[to] = reduced_->high[from];
        tile.slack[to] = reduced_->slack[from];
      }
    clear_without_terms(tile);
    return tile;
  }
  ValueProgram::Scratch scratch(*program_);
  std::vector<int64_t> position = tile.position;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (row_axis_ >= 0) position[row_axis_] = tile.position[row_axis_] + r;
    const Lane lane = program_->run(scratch, position.data(), static_cast<int>(tile.cols));
    std::copy_n(lane.value, tile.cols, tile.value.begin() + r * Tile::pitch);
    if (!bounds_) continue;
    std::copy_n(lane.low, tile.cols, tile.low.begin() + r * Tile::pitch);
    std::copy_n(lane.high, tile.cols, tile.high.begin() + r * Tile::pitch);
    std::copy_n(lane.jumps, tile.cols, tile.jumps.begin() + r * Tile::pitch);
  }
  clear_without_terms(tile);
  return tile;
}

// A block along the count of groups has elements of many.
void OutputWalk::clear_without_terms(Tile& tile) const {
  if (summed_.empty()) return;
  const auto is_empty = [&](int axis, int64_t more) {
    return axis >= 0 && block_of(axis) > 1 && has_no_terms(domain_[axis], tile.position[axis] + more);
  };
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t c = 0; c < tile.cols; ++c) {
      if (!is_empty(row_axis_, r) && !is_empty(col_axis_, c)) continue;
      const size_t at = static_cast<size_t>(r * Tile::pitch + c);
      for (std::vector<double>* values : {&tile.value, &tile.low, &tile.high, &tile.slack, &tile.jumps})
        if (!values->empty()) (*values)[at] = 0;
    }
}

std::vector<int64_t> OutputWalk::place(const Tile& tile, int64_t row, int64_t col) const {
  std::vector<int64_t> place = tile.place;
  if (row_axis_ >= 0) place[stored_axes_[row_axis_]] += row;
  if (col_axis_ >= 0) place[stored_axes_[col_axis_]] += col;
  return place;
}

std::vector<OutputWalk::CutAxis> OutputWalk::cut_axes() const {
  std::vector<CutAxis> result;
  const ir::Tensor& tensor = output_->tensor;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const Extent& name = tensor.shape[axis];
    if (is_plain_name(name) && problem_->groups(name.dim)) {
      result.push_back({axis, stored_ranges(*problem_, name)});
    } else if (!summed_.empty() && output_->accumulate && is_group_count(name)) {
      CutAxis cut{axis, {}};
      for (int64_t e = 0; e < problem_->size(name); ++e)
        cut.ranges.push_back({has_no_terms(name, e) ? StoredRange::Kind::outside : StoredRange::Kind::owned, e, e + 1});
      result.push_back(std::move(cut));
    }
  }
  return result;
}

}  // namespace epifuse::interpreter
