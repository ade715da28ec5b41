#include "compiler/interpreter/problem.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ensure.h"
#include "compiler/interpreter/quantiser.h"
#include "compiler/ir/buffers.h"

namespace epifuse::interpreter {

namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

class Binder {
 public:
  Binder(const ir::Graph& graph, const Buffers& buffers, const Params& params)
      : graph_(graph), buffers_(buffers), params_(params) {}

  Result<Problem> run() {
    problem_.graph_ = &graph_;
    problem_.buffers_ = &buffers_;
    for (const ir::Dimension& dim : graph_.dims)
      known_.push_back(dim.kind == ir::DimKind::fixed ? dim.value : std::nullopt);
    for (const ir::Input& input : graph_.inputs) {
      const HostTensor* tensor = find(input.tensor.name);
      if (!tensor && !input.default_value) return user_error(fmt::format("input '{}' is not bound", input.tensor.name));
      if (tensor && !input.left_out)
        if (Status status = bind_sizes(input.tensor, *tensor); !status) return status.error();
    }
    for (const ir::Output& output : graph_.outputs)
      if (const HostTensor* tensor = find(output.tensor.name); tensor && !output.left_out)
        if (Status status = bind_sizes(output.tensor, *tensor); !status) return status.error();
    if (Status status = finish_sizes(); !status) return status.error();
    for (const ir::Input& input : graph_.inputs)
      if (!input.left_out && find(input.tensor.name))
        if (Status status = check(input.tensor); !status) return status.error();
    for (const ir::Output& output : graph_.outputs)
      if (!output.left_out && find(output.tensor.name))
        if (Status status = check(output.tensor); !status) return status.error();
    if (Status status = bind_groups(); !status) return status.error();
    if (Status status = bind_params(); !status) return status.error();
    return std::move(problem_);
  }

 private:
  const HostTensor* find(const std::string& name) const {
    const auto it = buffers_.find(name);
    return it == buffers_.end() ? nullptr : &it->second;
  }

  Status bind_sizes(const ir::Tensor& declared, const HostTensor& tensor) {
    if (tensor.extents.size() != declared.shape.size())
      return user_error(fmt::format("'{}' has the shape [{}], {} is expected", declared.name,
                                    fmt::join(tensor.extents, ", "), graph_.shape_text(declared.shape)));
    for (size_t i = 0; i < tensor.extents.size(); ++i) {
      const ir::Extent& extent = declared.shape[i];
      if (extent.dim < 0 || known_[extent.dim]) continue;
      const int64_t scaled = tensor.extents[i] * extent.over;
      if (scaled % extent.times != 0)
        return user_error(fmt::format("'{}': axis {} ({}) cannot be {}", declared.name, i, graph_.extent_text(extent),
                                      tensor.extents[i]));
      known_[extent.dim] = scaled / extent.times;
    }
    return {};
  }

  // A slot's size may stand in no tensor: the rows of the buffers are then whole slots.
  Status find_slots() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const ir::Dimension& dim = graph_.dims[i];
      if (!dim.slot || dim.slot->dim < 0 || known_[dim.slot->dim] || !known_[i]) continue;
      const int64_t groups = known_[dim.cut_by].value_or(0);
      if (groups <= 0) continue;
      const int64_t size = *known_[i] / groups * dim.slot->over / dim.slot->times;
      const ir::Extent& slot = *dim.slot;
      if (size * slot.times % slot.over != 0 || groups * (size * slot.times / slot.over) != *known_[i])
        return user_error(fmt::format("'{}' has {} rows, which are not {} whole slots of {}", dim.name, *known_[i],
                                      groups, graph_.extent_text(slot)));
      known_[slot.dim] = size;
    }
    return {};
  }

  // The rows of a grouped dimension may stand in no tensor that is bound, but those of an aligned one made of it: as
  // many as its buffers have room for (language.md S6, backwards), and at least those of the groups.
  void find_aligned_bases() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const ir::Dimension& aligned = graph_.dims[i];
      if (aligned.kind != ir::DimKind::aligned || !known_[i] || known_[aligned.base]) continue;
      const ir::Dimension& base = graph_.dims[aligned.base];
      const int64_t groups = known_[base.cut_by].value_or(0);
      const HostTensor* given = find(sizes_name(base));
      const bool sound =
          given && given->elements() == groups && (given->storage == Storage::i32 || given->storage == Storage::i64);
      if (!sound || base.slot) continue;
      int64_t end = 0;
      for (int64_t e = 0; e < groups; ++e) {
        const int64_t size = load_integer(*given, e);
        end = base.sizes == ir::GroupSizes::ends ? size : round_up(end, base.align) + size;
      }
      known_[aligned.base] =
          std::max(round_up(std::max<int64_t>(end, 0), base.align), *known_[i] - (groups - 1) * (aligned.align - 1));
    }
  }

  static std::string sizes_name(const ir::Dimension& dim) {
    return dim.name + (dim.sizes == ir::GroupSizes::ends ? ".ends" : ".counts");
  }

  Status finish_sizes() {
    if (Status status = find_slots(); !status) return status;
    find_aligned_bases();
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const ir::Dimension& dim = graph_.dims[i];
      if (!known_[i] && dim.kind == ir::DimKind::aligned && known_[dim.base]) {
        // Room for every group's gap, as language.md S6 says.
        const std::optional<int64_t> groups = known_[graph_.dims[dim.base].cut_by];
        if (groups) known_[i] = (*known_[dim.base] + *groups * (dim.align - 1)) / dim.align * dim.align;
      }
      if (!known_[i]) return user_error(fmt::format("the size of '{}' is not known from any bound buffer", dim.name));
      problem_.sizes_.push_back(*known_[i]);
    }
    for (const ir::Input& input : graph_.inputs)
      if (Status status = check_extents(input.tensor, input.left_out); !status) return status;
    for (const ir::Output& output : graph_.outputs)
      if (Status status = check_extents(output.tensor, output.left_out); !status) return status;
    return {};
  }

  Status check_extents(const ir::Tensor& tensor, bool left_out) const {
    for (const ir::Extent& extent : tensor.shape)
      if (extent.dim >= 0 && extent.times * problem_.sizes_[extent.dim] % extent.over != 0)
        return user_error(fmt::format("'{}': {} is no whole number for {} = {}", tensor.name,
                                      graph_.extent_text(extent), graph_.dims[extent.dim].name,
                                      problem_.sizes_[extent.dim]));
    if (tensor.shape.empty() || left_out) return {};
    // As a launch does (runtime/arguments.cpp).
    const ir::Extent& last = tensor.shape.back();
    const std::string odd = odd_row_fault(tensor.name, tensor.type.storage(),
                                          ir::extent_expression(graph_, last).formula(), problem_.size(last));
    return odd.empty() ? Status() : user_error(odd);
  }

  Status check_buffer(const std::string& name, Storage storage, const std::vector<int64_t>& extents) const {
    const HostTensor* tensor = find(name);
    if (!tensor) return user_error(fmt::format("'{}' is not bound", name));
    if (tensor->storage != storage || tensor->extents != extents)
      return user_error(fmt::format("'{}' is {}[{}], {}[{}] is expected", name, storage_name(tensor->storage),
                                    fmt::join(tensor->extents, ", "), storage_name(storage), fmt::join(extents, ", ")));
    if (static_cast<int64_t>(tensor->bytes.size()) != storage_bytes(storage, tensor->elements()))
      return user_error(fmt::format("'{}' holds {} bytes, not those of its shape", name, tensor->bytes.size()));
    return {};
  }

  Status check(const ir::Tensor& tensor) const {
    const std::vector<int64_t> extents = problem_.extents(tensor);
    if (Status status = check_buffer(tensor.name, tensor.type.storage(), extents); !status) return status;
    if (!tensor.type.scaled()) return {};
    if (Result<std::unique_ptr<Quantiser>> known = make_quantiser(tensor.type); !known) return known.error();
    return check_buffer(tensor.name + ".scale", ir::format_info(tensor.type.format).scale,
                        problem_.scale_extents(tensor));
  }

  Status bind_groups() {
    problem_.groups_.resize(graph_.dims.size());
    for (size_t i = 0; i < graph_.dims.size(); ++i)
      if (graph_.dims[i].kind == ir::DimKind::grouped)
        if (Status status = bind_grouped(static_cast<ir::DimId>(i)); !status) return status;
    for (size_t i = 0; i < graph_.dims.size(); ++i)
      if (graph_.dims[i].kind == ir::DimKind::aligned)
        if (Status status = bind_aligned(static_cast<ir::DimId>(i)); !status) return status;
    return {};
  }

  Status bind_grouped(ir::DimId id) {
    const ir::Dimension& dim = graph_.dims[id];
    const std::string name = sizes_name(dim);
    const int64_t count = problem_.sizes_[dim.cut_by], capacity = problem_.sizes_[id];
    if (Status status = check_buffer(name, dim.sizes_storage, {count}); !status) return status;
    const HostTensor& given = *find(name);
    Groups groups;
    groups.group_of.assign(static_cast<size_t>(capacity), -1);
    int64_t previous = 0;
    for (int64_t e = 0; e < count; ++e) {
      const int64_t start = dim.slot ? e * problem_.size(*dim.slot) : round_up(previous, dim.align);
      const int64_t size = load_integer(given, e);
      const int64_t end = dim.sizes == ir::GroupSizes::ends ? size : start + size;
      // A group without tokens may say that it ends where the one before it does.
      const bool empty = dim.sizes == ir::GroupSizes::ends && end == previous;
      if ((end < start && !empty) || end > capacity || (dim.slot && end > start + problem_.size(*dim.slot)))
        return user_error(fmt::format("'{}': group {} would be rows {} to {} of {}", name, e, start, end, capacity));
      groups.start.push_back(empty ? end : start);
      groups.end.push_back(end);
      // The last gap ends with the buffer at the latest; what is left of a slot is none.
      groups.gap_end.push_back(dim.slot ? end : std::min(round_up(end, dim.align), capacity));
      for (int64_t row = start; row < end; ++row) groups.group_of[row] = static_cast<int32_t>(e);
      previous = end;
    }
    problem_.groups_[id] = std::move(groups);
    return {};
  }

  Status bind_aligned(ir::DimId id) {
    const ir::Dimension& dim = graph_.dims[id];
    const Groups& base = *problem_.groups_[dim.base];
    Groups groups;
    int64_t start = 0;
    for (size_t e = 0; e < base.start.size(); ++e) {
      groups.start.push_back(start);
      groups.end.push_back(start + base.count(e));
      start = round_up(groups.end.back(), dim.align);
      groups.gap_end.push_back(start);
    }
    if (start > problem_.sizes_[id])
      return user_error(
          fmt::format("a buffer over '{}' has {} rows, {} are needed", dim.name, problem_.sizes_[id], start));
    problem_.groups_[id] = std::move(groups);
    return {};
  }

  Status bind_params() {
    for (const ir::Param& param : graph_.params) {
      const auto it = params_.find(param.name);
      if (it == params_.end() && !param.default_value)
        return user_error(fmt::format("param '{}' is not given", param.name));
      problem_.params_.push_back(static_cast<float>(it == params_.end() ? *param.default_value : it->second));
    }
    return {};
  }

  const ir::Graph& graph_;
  const Buffers& buffers_;
  const Params& params_;
  std::vector<std::optional<int64_t>> known_;
  Problem problem_;
};

Result<Problem> Problem::bind(const ir::Graph& graph, const Buffers& buffers, const Params& params) {
  return Binder(graph, buffers, params).run();
}

const HostTensor* Problem::input(ir::InputId id) const {
  const ir::Input& input = graph_->inputs[id];
  const auto it = buffers_->find(input.tensor.name);
  return input.left_out || it == buffers_->end() ? nullptr : &it->second;
}

const HostTensor* Problem::input_scale(ir::InputId id) const {
  const auto it = buffers_->find(graph_->inputs[id].tensor.name + ".scale");
  return it == buffers_->end() ? nullptr : &it->second;
}

std::vector<int64_t> Problem::extents(const ir::Tensor& tensor) const {
  std::vector<int64_t> result;
  for (const ir::Extent& extent : tensor.shape) result.push_back(size(extent));
  return result;
}

std::vector<int64_t> Problem::scale_extents(const ir::Tensor& tensor) const {
  const Result<std::vector<int64_t>> result =
      ir::scale_extents(*graph_, tensor, extents(tensor), [&](std::string_view name) -> std::optional<int64_t> {
        for (size_t i = 0; i < graph_->dims.size(); ++i)
          if (graph_->dims[i].name == name) return sizes_[i];
        return std::nullopt;
      });
  EPIFUSE_ENSURE(bool(result), "scales of a tensor of known sizes have no size");
  return *result;
}

Result<Buffers> make_outputs(const Problem& problem, uint8_t fill) {
  Buffers buffers;
  for (const ir::Output& output : problem.graph().outputs) {
    if (output.left_out) continue;
    const ir::TensorType& type = output.tensor.type;
    const std::vector<int64_t> extents = problem.extents(output.tensor);
    if (type.scaled()) {
      if (Result<std::unique_ptr<Quantiser>> known = make_quantiser(type); !known) return known.error();
      buffers[output.tensor.name + ".scale"] =
          make_tensor(ir::format_info(type.format).scale, problem.scale_extents(output.tensor), fill);
    }
    buffers[output.tensor.name] = make_tensor(type.storage(), extents, fill);
  }
  return buffers;
}

}  // namespace epifuse::interpreter
