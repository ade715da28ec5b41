// What a graph means, evaluated as directly as it can be written: one element at a time, recursively, by names. It is
// the check of the interpreter, from which it takes nothing but the type of a host buffer; `grad` is evaluated by
// carrying derivatives along (forward mode), so it checks symbolic differentiation as well.
//
// For sizes of a few thousand elements.
#pragma once

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/interpreter/host_tensor.h"
#include "tests/support/naive_arithmetic.h"

namespace epifuse::test {

// Numbers of a graph's dimensions: sizes, and where groups lie.
class NaiveSizes {
 public:
  NaiveSizes(const ir::Graph& graph, const interpreter::Buffers& inputs);

  int64_t size(const ir::Extent& extent) const;
  struct Group {
    int64_t start, end, gap_end;  // rows [end, gap_end) are its gap
  };
  // Of a grouped or an aligned dimension; no groups of another.
  const std::vector<Group>& groups(ir::DimId dim) const { return groups_.at(static_cast<size_t>(dim)); }
  bool is_grouped(const ir::Extent& name) const;  // M itself
  // The group of a row of a grouped dimension; -1: of none.
  int64_t group_of(ir::DimId dim, int64_t row) const;

 private:
  const ir::Graph& graph_;
  std::map<int, int64_t> sizes_;
  std::vector<std::vector<Group>> groups_;
};

// Indices by name: a place for each name of a graph, in the order of NaiveEvaluation::name; -1 where there is none.
using Indices = std::array<int64_t, 12>;

struct IndicesHash {
  size_t operator()(const Indices& at) const;
};

class NaiveEvaluation {
 public:
  NaiveEvaluation(const ir::Graph& graph, const interpreter::Buffers& inputs,
                  std::map<std::string, double> params = {});

  const ir::Graph& graph() const { return graph_; }
  const NaiveSizes& sizes() const { return sizes_; }
  // The value of a node, or of an input, where its names (and perhaps more) have these indices. Throws std::logic_error
  // for what is no value of a graph.
  Estimate value(ir::NodeId node, const Indices& at);
  Estimate input(const std::string& name, const Indices& at);
  const interpreter::HostTensor& input_buffer(const std::string& name) const { return inputs_.at(name); }
  // The index of a name at these indices: its own, or the group of a row. Throws if there is none.
  int64_t index_of(const ir::Extent& name, const Indices& at) const { return index_of(this->name(name), at); }
  // The number of a name, an aligned dimension taken as the one it aligns.
  size_t name(const ir::Extent& extent) const;
  static Indices nowhere();

 private:
  using Memory = std::unordered_map<Indices, Estimate, IndicesHash>;  // of one node
  struct Target {                                                     // what a derivative is taken by
    ir::NodeId node;
    Indices at;
    std::vector<bool> reached;  // nodes that hang on it
    std::vector<Memory> known;
  };

  int64_t index_of(size_t name, const Indices& at) const;
  Indices restricted(ir::NodeId node, const Indices& at) const;
  Estimate compute(ir::NodeId node, const Indices& at);
  Estimate input(const ir::Input& declared, const Indices& at);
  Estimate dequantised(const ir::Tensor& tensor, std::vector<int64_t> place, long double code, const Indices& at);
  Estimate hadamard(const ir::Node& node, const Indices& at);
  Estimate gemm(const ir::Node& node, const Indices& at);
  Estimate gather(const ir::Node& node, const Indices& at);
  Estimate gradient(const ir::Node& node, const Indices& at);
  Estimate derivative(ir::NodeId node, const Indices& at, Target& target);
  Estimate derivative_of(const ir::Node& node, const Indices& at, Target& target);
  // The place of a part's element in the whole, or of the whole's in its part, and which part (`part`) that is.
  Indices before_split(const ir::Node& node, Indices at) const;
  Indices before_join(const ir::Node& node, Indices at, int& part) const;
  // The indices of f's element that hangs on x's element `at`.
  Indices behind_splits(ir::NodeId f, ir::NodeId x, const Indices& at) const;

  const ir::Graph& graph_;
  const interpreter::Buffers& inputs_;
  std::map<std::string, double> params_;
  NaiveSizes sizes_;
  std::vector<ir::Extent> names_;
  std::vector<std::vector<size_t>> names_of_node_;
  struct Cut {
    size_t count, rows;  // names: E, and the M that it cuts
    ir::DimId dim;
  };
  std::vector<Cut> cuts_;
  std::vector<Memory> known_;
  std::map<std::string, std::map<std::vector<int64_t>, int64_t>> scale_positions_;  // of inputs, by blocks
};

}  // namespace epifuse::test
