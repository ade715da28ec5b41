#include "compiler/interpreter/output_walk.h"

#include <algorithm>

#include "base/ensure.h"

namespace epifuse::interpreter {
namespace {

using ir::Extent;

bool is_plain_name(const Extent& name) { return name.dim >= 0 && name.times == 1 && name.over == 1; }

// Whether the value has a sum over rows of groups in it: a gemm that contracts them. Arguments come before their users,
// so one sweep backwards meets every node once, however often it is used.
bool contracts_groups(const ir::Graph& graph, ir::NodeId id) {
  std::vector<bool> needed(graph.nodes.size());
  needed[id] = true;
  for (size_t at = static_cast<size_t>(id) + 1; at-- > 0;) {
    if (!needed[at]) continue;
    const ir::Node& node = graph.nodes[at];
    const Extent name = graph.base_name(node.along);
    if (node.op == ir::Op::gemm && name.dim >= 0 && graph.dims[name.dim].kind == ir::DimKind::grouped) return true;
    for (const ir::NodeId argument : node.args) needed[argument] = true;
  }
  return false;
}

// Whether the output reduces over rows of groups.
bool reduces_groups(const ir::Graph& graph, const ir::Output& output) {
  if (output.reduction == ir::Reduction::none) return false;
  const ir::Shape& shape = graph.nodes[static_cast<size_t>(output.value)].shape;
  return std::any_of(shape.begin(), shape.end(), [&](const Extent& e) {
    const Extent name = graph.base_name(e);
    return is_plain_name(name) && graph.dims[name.dim].kind == ir::DimKind::grouped &&
           !graph.has_name(output.tensor.shape, name);
  });
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Result<OutputWalk> OutputWalk::make(const Problem& problem, const GemmResults& gemms, const ir::Output& output,
                                    bool bounds, int threads) {
  OutputWalk walk(problem, output);
  const ir::Graph& graph = problem.graph();
  walk.bounds_ = bounds;
  walk.per_group_ = reduces_groups(graph, output) || contracts_groups(graph, output.value);
  // A reduced value keeps the order in which it is stored. Any other keeps the one in which it is computed, behind the
  // names along which it is the same; the count of the groups of a stored row is no name of the domain.
  const bool reduced = output.reduction != ir::Reduction::none;
  const ir::Shape &kept = output.tensor.shape, &value = graph.nodes[output.value].shape;
  for (const Extent& e : kept)
    if (reduced || !graph.has_name(value, e)) walk.domain_.push_back(graph.base_name(e));
  if (!reduced)
    for (const Extent& e : value)
      if (graph.has_name(kept, e)) walk.domain_.push_back(graph.base_name(e));
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
  const HostTensor data{tensor.type.storage(), problem_->extents(tensor), {}};
  const std::vector<int64_t> strides = data.strides();
  const int rank = static_cast<int>(tensor.shape.size());
  std::vector<int64_t> scale_strides(tensor.shape.size(), 0);
  const int along = tensor.type.scaled() ? along_axis(tensor.type, rank) : -1;
  if (tensor.type.scaled()) {
    scale_strides = HostTensor{Storage::e8m0, scale_extents(tensor.type, data.extents), {}}.strides();
    block_ = ir::format_info(tensor.type.format).block_columns;
  }
  for (const Extent& name : domain_) {
    sizes_.push_back(problem_->size(name));
    const auto axis = std::find_if(tensor.shape.begin(), tensor.shape.end(),
                                   [&](const Extent& e) { return graph.same_name(e, name); });
    EPIFUSE_ENSURE(axis != tensor.shape.end(), "an output that lacks a name of its domain");
    const size_t i = static_cast<size_t>(axis - tensor.shape.begin());
    stored_dims_.push_back(axis->dim);
    strides_.push_back(strides[i]);
    scale_strides_.push_back(scale_strides[i]);
    if (static_cast<int>(i) == along) along_ = static_cast<int>(strides_.size()) - 1;
  }
}

void OutputWalk::choose_axes() {
  const int rank = static_cast<int>(domain_.size());
  col_axis_ = rank - 1;
  if (rank < 2) return;
  // Rows are what the blocks run along, else what is contiguous in the buffer, else the next dimension.
  const auto contiguous = std::find(strides_.begin(), strides_.end(), 1) - strides_.begin();
  row_axis_ = rank - 2;
  if (contiguous < col_axis_) row_axis_ = static_cast<int>(contiguous);
  if (along_ >= 0 && along_ != col_axis_) row_axis_ = along_;
}

// Whether the name counts the groups of a grouped dimension.
bool OutputWalk::is_group_count(const Extent& name, ir::DimId& grouped) const {
  const ir::Graph& graph = problem_->graph();
  if (!is_plain_name(name)) return false;
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].kind == ir::DimKind::grouped && graph.dims[i].cut_by == name.dim) {
      grouped = static_cast<ir::DimId>(i);
      return true;
    }
  return false;
}

std::vector<DomainRange> OutputWalk::ranges_of(size_t axis) const {
  std::vector<DomainRange> ranges;
  const Extent& name = domain_[axis];
  ir::DimId grouped = -1;
  if (const Groups* groups = is_plain_name(name) ? problem_->groups(name.dim) : nullptr) {
    for (size_t e = 0; e < groups->start.size(); ++e)
      ranges.push_back({groups->start[e], groups->end[e], static_cast<int>(e)});
  } else if (is_group_count(name, grouped)) {
    for (int64_t e = 0; e < sizes_[axis]; ++e) {
      const bool empty = per_group_ && problem_->groups(grouped)->count(static_cast<size_t>(e)) == 0;
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
  const ir::DimId dim = stored_dims_[axis];
  if (dim < 0 || problem_->graph().dims[dim].kind != ir::DimKind::aligned) return 0;
  const Groups& base = *problem_->groups(domain_[axis].dim);
  const int32_t group = base.group_of[place];
  EPIFUSE_ENSURE(group >= 0, "a row outside the groups is stored");
  return problem_->groups(dim)->start[group] - base.start[group];
}

Tile OutputWalk::tile(int64_t index) const {
  Tile tile;
  tile.position.resize(domain_.size());
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
    EPIFUSE_ENSURE(static_cast<int>(axis) != along_ || place % block_ == 0, "a block would meet two groups");
    tile.first += place * strides_[axis];
    tile.first_scale += (static_cast<int>(axis) == along_ ? place / block_ : place) * scale_strides_[axis];
  }
  const size_t size = static_cast<size_t>(tile.rows * Tile::pitch);
  tile.value.resize(size);
  if (bounds_) tile.low.resize(size), tile.high.resize(size);
  if (bounds_ && reduced_) tile.slack.resize(size);
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
  }
  return tile;
}

std::vector<OutputWalk::CutAxis> OutputWalk::cut_axes(bool scales) const {
  std::vector<CutAxis> result;
  const ir::Graph& graph = problem_->graph();
  const ir::Tensor& tensor = output_->tensor;
  const int along = tensor.type.scaled() ? along_axis(tensor.type, static_cast<int>(tensor.shape.size())) : -1;
  const std::vector<int64_t> extents = problem_->extents(tensor);
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const Extent& name = tensor.shape[axis];
    const int64_t block = scales && static_cast<int>(axis) == along ? block_ : 1;
    CutAxis cut{axis, {}};
    auto add = [&](StoredRange::Kind kind, int64_t begin, int64_t end) {
      if (begin < end) cut.ranges.push_back({kind, begin, end});
    };
    ir::DimId grouped = -1;
    if (const Groups* groups = is_plain_name(name) ? problem_->groups(name.dim) : nullptr) {
      const bool has_gaps = graph.dims[name.dim].align > 1;
      int64_t done = 0;
      for (size_t e = 0; e < groups->start.size(); ++e) {
        if (groups->count(e) == 0) continue;
        add(StoredRange::Kind::outside, done, groups->start[e] / block);
        done = ceil_div(groups->end[e], block);
        add(StoredRange::Kind::owned, groups->start[e] / block, done);
        if (!has_gaps || graph.dims[name.dim].slot) continue;
        add(StoredRange::Kind::gap, done, ceil_div(groups->gap_end[e], block));
        done = std::max(done, ceil_div(groups->gap_end[e], block));
      }
      add(StoredRange::Kind::outside, done, ceil_div(extents[axis], block));
      result.push_back(std::move(cut));
    } else if (per_group_ && output_->accumulate && is_group_count(name, grouped)) {
      for (int64_t e = 0; e < extents[axis]; ++e)
        add(problem_->groups(grouped)->count(static_cast<size_t>(e)) ? StoredRange::Kind::owned
                                                                     : StoredRange::Kind::outside,
            e, e + 1);
      result.push_back(std::move(cut));
    }
  }
  return result;
}

}  // namespace epifuse::interpreter
