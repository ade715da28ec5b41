// NVFP4: e2m1 codes in blocks of 16 or 16x16 with e4m3 scales, under an f32 scale of the whole tensor or group that
// follows from its largest magnitude (numerics.md §4.6). Each operation is one of f32, rounded once.
#pragma once

#include <memory>

#include "compiler/interpreter/quantiser.h"

namespace epifuse::interpreter {

// Null where the type's rule is none of `up` (Transformer Engine's order of operations) and `torchao`.
std::unique_ptr<Quantiser> make_nvfp4_quantiser(const ir::TensorType& type);

}  // namespace epifuse::interpreter
