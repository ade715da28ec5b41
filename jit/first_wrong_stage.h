// Which operation of a kernel goes wrong first: the stages of its unfused form are run with every tensor between them
// kept, and judged in their order.
#pragma once

#include <optional>

#include "compiler/interpreter/compare.h"
#include "jit/unfused.h"

namespace epifuse::jit {

// The verdict on the first stage that is wrong, by the name of the tensor it makes; nothing when all are right. What
// outputs with += hold before is in `before`. Needs memory for all tensors between the stages, on the GPU and here.
Result<std::optional<interpreter::Verdict>> first_wrong_stage(Engine& engine, const CompiledUnfusedPtr& unfused,
                                                              const interpreter::Buffers& inputs,
                                                              const interpreter::Buffers& before,
                                                              const interpreter::Params& params,
                                                              interpreter::GemmProvider& gemm, int threads,
                                                              const runtime::DevicePtr& device);

}  // namespace epifuse::jit
