// FP8 with f32 scales for blocks of 1x128 or 128x128, by the rules of the libraries that have them (numerics.md §4.1 to
// §4.3): each operation is one of f32, rounded once, in the order that the library has.
#pragma once

#include <memory>

#include "compiler/interpreter/quantiser.h"

namespace epifuse::interpreter {

// Null where the type's rule is none of these.
std::unique_ptr<Quantiser> make_fp8_quantiser(const ir::TensorType& type);

}  // namespace epifuse::interpreter
