// Takes the graph behind the GEMM apart into the scalar values, inputs and sinks of an epilogue (kernel_plan.h). A
// split disappears here: a node over both halves becomes one value for each half.
#pragma once

#include <optional>

#include "base/diagnostics.h"
#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {

struct EpilogueAndPlaces {
  Epilogue epilogue;
  std::vector<Place> places;
};

// Nothing when something was refused.
std::optional<EpilogueAndPlaces> build_epilogue(const ir::Graph& graph, const Gemm& gemm, Diagnostics& diagnostics);

}  // namespace epifuse::lowering
