// One scaled tensor of a problem: its quantiser, where its scales lie, and what of its group enters into a block's
// scale and into the rounding of an element.
#pragma once

#include <memory>
#include <optional>

#include "compiler/interpreter/quantiser.h"
#include "compiler/interpreter/scale_places.h"
#include "compiler/interpreter/stochastic.h"

namespace epifuse::interpreter {

class ScaledTensor {
 public:
  // `ordinal`: which of the spec's outs it is (Graph::ordinal). Errors (user) name what the type asks for and cannot
  // have. Problem and tensor must outlive it.
  static Result<ScaledTensor> make(const Problem& problem, const ir::Tensor& tensor, int ordinal = 0);

  const Quantiser& quantiser() const { return *quantiser_; }
  const ScalePlaces& places() const { return places_; }

  // The dequantised element at a position in the codes' buffer, which is the place there; 0 outside all groups.
  double value(const HostTensor& codes, const HostTensor& scales, int64_t position, const int64_t* place) const;

  // What belongs to the element at a place (an index along each stored axis) in a group, -1 where nothing is grouped.
  GroupMaximum maximum(const int64_t* place, int group) const;
  bool is_stochastic() const { return random_.has_value(); }
  // Nothing where elements are rounded to nearest.
  std::optional<uint32_t> random(const int64_t* place, int group) const;

 private:
  ScaledTensor(const Problem& problem, const ir::Tensor& tensor)
      : tensor_(&tensor), places_(problem, tensor), extents_(problem.extents(tensor)) {}
  Status bind_maximum(const Problem& problem);
  Status bind_seed(const Problem& problem, int ordinal);

  const ir::Tensor* tensor_;
  std::shared_ptr<const Quantiser> quantiser_;
  ScalePlaces places_;
  std::vector<int64_t> extents_;

  enum class MaximumOf { nothing, everything, group, axis } maximum_of_ = MaximumOf::nothing;
  int maximum_axis_ = -1;
  std::vector<float> maxima_;
  std::optional<RandomBits> random_;
};

}  // namespace epifuse::interpreter
