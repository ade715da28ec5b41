// The pointwise operations on runs of values, with the interval that the device's value lies in.
//
// `value` is the mathematics in double, rounded nowhere but in `cast` (beyond the range of f32 it is infinite).
// [low, high] holds whatever the device may have computed, given that it rounds every + - * / sqrt once to f32 or fuses
// a multiply with an add, and that its other functions are good to 2^-20. low == high means that the device must have
// exactly this f32. NaN bounds: the device's value is NaN if `value` is, else it may be anything.
//
// A cast or a comparison of a number that the device has slightly otherwise may go either way. Then the device's value
// may lie anywhere in the interval, at either end of it, however good its arithmetic is: `jumps` is not 0.
#pragma once

#include "compiler/ir/graph.h"

namespace epifuse::interpreter {

struct Lane {
  double* value = nullptr;
  double* low = nullptr;  // null when bounds are not asked for
  double* high = nullptr;
  double* jumps = nullptr;  // with the bounds
};

// result[i] = op(a[i], b[i], c[i]) for a node of kind map; lanes that the operation does not have are ignored.
void apply_map(const ir::Node& node, int count, const Lane& result, const Lane& a, const Lane& b, const Lane& c);

// A number of the spec, which the device holds as f32: bounds are the hull of both.
void fill_number(double number, int count, const Lane& result);

}  // namespace epifuse::interpreter
