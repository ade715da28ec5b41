// One launch of a kernel without gemm as it is spelled: what all kinds of launches have in common, from the parameter
// struct to the places of an item, and the words that their bodies are written with.
#pragma once

#include <fmt/format.h>
#include <map>
#include <string>

#include "compiler/codegen/pointwise/value.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::codegen {

// Bodies are in the kernel's loop over items: s0, s1, … are an item's first places along the kept axes as stored, row0
// says which row lies there where rows lie in groups, a0 (and the group g0) is where values have it.
class LaunchText {
 public:
  LaunchText(const ir::Graph& graph, const lowering::PointwiseLaunch& launch, const RecipeStep& step,
             std::string suffix)
      : graph(graph), launch(launch), step_(step), suffix_(std::move(suffix)) {}

  // Up to the body, and behind it.
  void begin();
  void end() { line("  }}\n}}"); }
  std::string take() { return std::move(text_); }

  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    text_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  const std::string& dim(ir::DimId id) const { return graph.dims[static_cast<size_t>(id)].name; }
  const lowering::PointwiseAxis& axis(int i) const { return launch.axes[static_cast<size_t>(i)]; }
  const ir::Output& output() const { return graph.outputs[static_cast<size_t>(launch.output)]; }
  std::string tag() const { return std::string(storage_name(output().tensor.type.storage())); }
  int64_t groups_of(ir::DimId grouped) const;

  // Whether the rows along the kept axes exist; empty where they always do. Not of the axes from `end` on.
  std::string exists(int end) const;
  // ... and the item is not zero because it lies in an empty group that was contracted.
  std::string exists() const;

  // Places other than the item's first: by axis.
  using Moved = std::map<int, std::string>;

  // Whether the contracted groups that kept axes count have rows; empty where there are none. Not those along
  // `without`.
  std::string has_terms(const Moved& moved = {}, int without = -1) const;

  // A call of the value into `v`. `lanes`: how many of the width exist.
  std::string call(const std::string& lanes, const Moved& moved = {}) const;
  SpelledPlace out_place(const Moved& moved = {}) const;

  // The rows, or places, of the split axis that a partial has: `terms` from `begin` on.
  void rows_of_partial();
  // Adds what the buffer held to v, where the condition holds (empty: always): a gap is zero.
  void accumulate(const SpelledPlace& at, const std::string& condition);

  const ir::Graph& graph;
  const lowering::PointwiseLaunch& launch;

 private:
  void parameters();
  void groups_struct();
  void lay_out();
  void walk();

  const RecipeStep& step_;
  const std::string suffix_;
  std::string text_;
};

// "starts_P", "partials_M" or "tiles_P": the list of a table of groups.
std::string place_name(const ir::Graph& graph, const lowering::PointwiseTable& table,
                       const lowering::PointwiseTable::Place& place);

}  // namespace epifuse::codegen
