// What is stored at each place of an output: a value, the zeros of a gap, or what was there before.
#pragma once

#include <optional>
#include <vector>

#include "tests/support/naive_evaluation.h"

namespace epifuse::test {

struct NaiveElement {
  enum class Kind { value, gap, untouched } kind = Kind::untouched;
  Estimate value;
};

class NaiveElements {
 public:
  NaiveElements(NaiveEvaluation& evaluation, const ir::Output& output)
      : evaluation_(evaluation), graph_(evaluation.graph()), sizes_(evaluation.sizes()), output_(output) {}

  NaiveElement at(const std::vector<int64_t>& place);

  // The place of an element by names, or what it is beside values. A row of the buffer belongs to a group, to the gap
  // behind one, or to nobody.
  std::optional<Indices> indices(const std::vector<int64_t>& place, NaiveElement::Kind& kind) const;

 private:
  bool in_empty_group(const Indices& at) const;
  Estimate reduced(const Indices& at);
  void add_terms(size_t next, Indices& at, Estimate& total);

  NaiveEvaluation& evaluation_;
  const ir::Graph& graph_;
  const NaiveSizes& sizes_;
  const ir::Output& output_;
};

}  // namespace epifuse::test
