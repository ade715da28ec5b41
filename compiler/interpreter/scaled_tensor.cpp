#include "compiler/interpreter/scaled_tensor.h"

#include <fmt/format.h>

namespace epifuse::interpreter {
namespace {

ir::InputId find_input(const ir::Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].tensor.name == name) return static_cast<ir::InputId>(i);
  return -1;
}

}  // namespace

Result<ScaledTensor> ScaledTensor::make(const Problem& problem, const ir::Tensor& tensor, int ordinal) {
  ScaledTensor made(problem, tensor);
  Result<std::unique_ptr<Quantiser>> quantiser = make_quantiser(tensor.type);
  if (!quantiser) return quantiser.error();
  made.quantiser_ = *std::move(quantiser);
  if (Status status = made.bind_maximum(problem); !status) return status.error();
  if (Status status = made.bind_seed(problem, ordinal); !status) return status.error();
  return made;
}

Status ScaledTensor::bind_maximum(const Problem& problem) {
  const std::string& name = tensor_->type.amax_input;
  if (name.empty()) return {};
  const ir::Graph& graph = problem.graph();
  const ir::InputId id = find_input(graph, name);
  if (id < 0) return user_error(fmt::format("'{}': the maximum '{}' is no input", tensor_->name, name));
  const ir::Input& input = graph.inputs[id];
  const HostTensor* given = problem.input(id);
  maximum_of_ = MaximumOf::everything;
  if (!given) {
    maxima_ = {static_cast<float>(*input.default_value)};
    return {};
  }
  for (int64_t i = 0; i < given->elements(); ++i) maxima_.push_back(static_cast<float>(load_one(*given, i)));
  if (input.tensor.shape.empty()) return {};
  const ir::Extent& over = input.tensor.shape[0];
  const int grouped = places_.grouped_axis();
  if (grouped >= 0) {
    const ir::DimId dim = graph.base_name(tensor_->shape[grouped]).dim;
    if (over == ir::Extent{1, graph.dims[dim].cut_by, 1}) {
      maximum_of_ = MaximumOf::group;
      return {};
    }
  }
  const int rank = static_cast<int>(tensor_->shape.size());
  for (int axis = 0; axis < rank; ++axis) {
    if (!(tensor_->shape[axis] == over)) continue;
    const bool is_blocked = axis == ir::along_axis(tensor_->type, rank) ||
                            (quantiser_->info().block_rows > 1 && axis == ir::across_axis(tensor_->type, rank));
    if (is_blocked)
      return user_error(fmt::format("'{}': the maximum '{}' differs within a block, which runs along '{}'",
                                    tensor_->name, name, graph.extent_text(over)));
    maximum_of_ = MaximumOf::axis;
    maximum_axis_ = axis;
    return {};
  }
  return user_error(fmt::format("'{}': the maximum '{}' is over '{}', which the tensor does not have", tensor_->name,
                                name, graph.extent_text(over)));
}

Status ScaledTensor::bind_seed(const Problem& problem, int ordinal) {
  const std::string& name = tensor_->type.seed_input;
  if (name.empty()) return {};
  const ir::InputId id = find_input(problem.graph(), name);
  if (id < 0) return user_error(fmt::format("'{}': the seed '{}' is no input", tensor_->name, name));
  if (const HostTensor* given = problem.input(id)) {
    random_.emplace(load_integer(*given, 0), load_integer(*given, 1), ordinal);
  } else {
    const auto number = static_cast<int64_t>(*problem.graph().inputs[id].default_value);
    random_.emplace(number, number, ordinal);
  }
  return {};
}

double ScaledTensor::value(const HostTensor& codes, const HostTensor& scales, int64_t position,
                           const int64_t* place) const {
  const std::optional<int> group = places_.group_of(place);
  if (!group) return 0;
  const uint32_t scale = load_code(scales, places_.position(place, *group));
  return quantiser_->value(load_code(codes, position), scale, maximum(place, *group));
}

GroupMaximum ScaledTensor::maximum(const int64_t* place, int group) const {
  switch (maximum_of_) {
    case MaximumOf::nothing: return {};
    case MaximumOf::everything: return maxima_[0];
    case MaximumOf::group: return maxima_[static_cast<size_t>(group)];
    case MaximumOf::axis: return maxima_[static_cast<size_t>(place[maximum_axis_])];
  }
  return {};
}

std::optional<uint32_t> ScaledTensor::random(const int64_t* place, int group) const {
  if (!random_) return std::nullopt;
  const int rank = static_cast<int>(extents_.size()), grouped = places_.grouped_axis();
  const auto from_start = [&](int axis) {
    return place[axis] - (axis == grouped ? places_.groups()->start[static_cast<size_t>(group)] : 0);
  };
  RandomPlace at;
  at.column = from_start(rank - 1);
  if (rank > 1) at.row = from_start(rank - 2);
  if (grouped >= 0 && grouped >= rank - 2) {
    at.matrix = group;
  } else {
    for (int axis = 0; axis < rank - 2; ++axis) at.matrix = at.matrix * extents_[axis] + place[axis];
  }
  return random_->at(at);
}

}  // namespace epifuse::interpreter
