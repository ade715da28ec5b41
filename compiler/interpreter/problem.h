// A graph with all its numbers: what each dimension is, where each group lies, what each param is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/interpreter/host_tensor.h"
#include "compiler/ir/graph.h"

namespace epifuse::interpreter {

// Where the groups of a grouped dimension lie, or those of an aligned one (the same groups at other places).
struct Groups {
  std::vector<int64_t> start, end;  // rows [start, end) hold the group
  std::vector<int64_t> gap_end;     // rows [end, gap_end) are its gap
  std::vector<int32_t> group_of;    // grouped dimensions: the group of each row, -1 outside

  int64_t count(size_t group) const { return end[group] - start[group]; }
};

using Params = std::map<std::string, double>;

class Problem {
 public:
  // Takes the sizes from the extents of the bound buffers: inputs, their scales, `M.ends` or `M.counts`, and those
  // outputs that are there (their extents may say how large an aligned dimension is); a slot's size that stands in none
  // is the rows of the buffers over the groups. Everything is checked: a missing
  // input, a wrong storage or extent, group sizes that do not fit are errors that name the buffer. The graph and the
  // buffers must outlive the problem, and inputs must not change.
  static Result<Problem> bind(const ir::Graph& graph, const Buffers& buffers, const Params& params);

  const ir::Graph& graph() const { return *graph_; }
  int64_t size(const ir::Extent& extent) const { return extent.times * size_of_dim(extent.dim) / extent.over; }
  const Groups* groups(ir::DimId dim) const { return dim < 0 || !groups_[dim] ? nullptr : &*groups_[dim]; }
  double param(ir::ParamId id) const { return params_[id]; }

  // The buffer of an input; null when it is left out and its default stands for it.
  const HostTensor* input(ir::InputId id) const;
  const HostTensor* input_scale(ir::InputId id) const;

  // Extents of a tensor's buffer.
  std::vector<int64_t> extents(const ir::Tensor& tensor) const;
  // … and of the buffer of a scaled tensor's scales.
  std::vector<int64_t> scale_extents(const ir::Tensor& tensor) const;

 private:
  friend class Binder;
  int64_t size_of_dim(ir::DimId dim) const { return dim < 0 ? 1 : sizes_[dim]; }

  const ir::Graph* graph_ = nullptr;
  const Buffers* buffers_ = nullptr;
  std::vector<int64_t> sizes_;
  std::vector<std::optional<Groups>> groups_;
  std::vector<double> params_;
};

// Buffers for all outputs that are computed (and their scales), every byte `fill`.
Result<Buffers> make_outputs(const Problem& problem, uint8_t fill = 0);

}  // namespace epifuse::interpreter
