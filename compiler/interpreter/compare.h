// Judges what a kernel stored against what the graph means.
//
// Every element must lie in [round(low), round(high)], where [low, high] is the interval that the device's f32 value
// may lie in (map_ops.h; of a gemm, gemm.h): numerics.md §11.3. With exact arithmetic the interval is a point and the
// test is equality. Of a scaled type the scale must lie between those of the smallest and the largest possible
// magnitude, and each code between those of the interval's ends under the stored scale (with the element's own random
// bits, where the rounding is stochastic). Beside that, the norm of the
// error per group and per strip of columns is bounded (a systematic error can hide inside intervals that bound the
// worst case), gaps and the padding of layouts must be zero, and what the language does not write must still hold what
// it held before.
//
// Elements whose cast or comparison may go either way (Lane::jumps) have a norm of their own: one step of a cast, which
// nothing forbids, is more than the others' limit. So many may take it as random errors would (jumps.h).
//
// Of a sum, the norm's limit is relative to the sums of the magnitudes of the terms where those cancel: no f32 sum is
// better than that, and the result's own norm may be as small as one likes.
//
// Codes are compared as numbers: -0 and +0 are the same, any NaN is NaN.
#pragma once

#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"

namespace epifuse::interpreter {

// What the buffers of an output held before the launch.
struct Before {
  const Buffers* buffers = nullptr;  // null: every byte was `poison`
  uint8_t poison = 0xFF;
};

struct WorstElement {
  bool found = false;
  bool is_scale = false;
  std::vector<std::pair<std::string, int64_t>> place;  // by dimension, places of the base dimension
  int group = -1;
  double stored = 0, reference = 0, low = 0, high = 0;
  double excess = 0;      // how far outside the rounded interval, relative to the reference
  int64_t position = -1;  // of a scale: where it lies in its buffer
};

// Counts of elements and scales. `different`, of elements whose code is not the reference's (allowed inside the
// interval), is `one_step` to a neighbouring code and `more_steps` beyond; codes are compared under the stored scale.
struct Counts {
  int64_t elements = 0;
  int64_t outside = 0;  // elements outside their interval
  int64_t different = 0, one_step = 0, more_steps = 0;
  int64_t scales = 0, scales_outside = 0;
  int64_t scales_different = 0, scales_one_step = 0, scales_more_steps = 0;
  int64_t scales_uncertain = 0;  // of the different ones, those whose interval spans more than two scales
  int64_t nan_reference = 0, nan_stored = 0;
  int64_t saturated = 0;   // stored at the largest finite number of an 8-bit or smaller type
  int64_t zero_signs = 0;  // zeros of the other sign, where the value is exact

  void add(const Counts& other);
};

// What lies in one group of an output.
struct GroupVerdict : Counts {
  int group = -1;  // -1: everything that no group holds
  double error_norm = 0;
  bool norm_exceeded = false;
  WorstElement worst;
};

struct Verdict : Counts {
  std::string output;
  bool ok = true;
  std::string cause;  // why not; empty when ok
  WorstElement worst;
  std::vector<GroupVerdict> groups;  // in their order; one when nothing is grouped

  int64_t touched = 0;  // bytes changed that belong to nobody
  int64_t gap = 0;      // bytes of codes and scales in gaps and padding that are not zero

  double error_norm = 0;  // of everything, relative
  double worst_group_norm = 0;
  int worst_group = -1;
  double worst_strip_norm = 0;
  int64_t worst_strip_column = -1;
  int worst_strip_group = -1;
  int64_t norms_exceeded = 0;  // groups and strips over their limit
  double norm_limit = 0;       // of the type, see the table in compare.cpp

  std::string print() const;
  std::string to_json() const;  // keys are those of the fields
};

// Columns of a strip.
inline constexpr int64_t strip_width = 16;

// Judges one output of the reference's graph; `stored` holds its buffers as copied back from the device. Only these
// buffers are read, so a caller can copy, judge and free one output after the other.
Result<Verdict> judge(const Reference& reference, const ir::Output& output, const Buffers& stored,
                      const Before& before = {});

// The same for several runs on the same inputs: what the elements may be is computed once. Verdicts in the order of the
// runs.
struct Run {
  const Buffers* stored = nullptr;
  Before before;
};
Result<std::vector<Verdict>> judge_runs(const Reference& reference, const ir::Output& output,
                                        const std::vector<Run>& runs);

}  // namespace epifuse::interpreter
