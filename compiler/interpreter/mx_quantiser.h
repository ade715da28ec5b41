// The OCP microscaling formats: a power of two for each block (numerics.md §3, §4.4, §4.5).
#pragma once

#include <memory>

#include "compiler/interpreter/quantiser.h"

namespace epifuse::interpreter {

// Null where the type's rule has no power of two.
std::unique_ptr<Quantiser> make_mx_quantiser(const ir::TensorType& type);

// The exponent of the scale for a positive finite largest magnitude, not yet clamped to what e8m0 can hold.
int scale_exponent(ir::ScaleRule rule, Storage element, double amax);

}  // namespace epifuse::interpreter
