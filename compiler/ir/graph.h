// The IR: one kernel as a graph of values, after names, shapes and types are resolved. No positions decide anything, no
// schedule is in it, and functions are already inlined (their shapes are known only where they are called).
//
// Semantics
//   Value       an f32 for each point of its shape, a list of extents with different names. Order has no meaning for
//               pointwise operations: two values combine over the union of their names.
//   Grouping    a grouped dimension M is cut into groups by another, E. In a union that has M, E is dropped: each row
//               takes the element of its group. An aligned dimension (P = M align 128) names the same tokens at other
//               places; names are compared with P taken as M.
//   gemm        f32 accumulation in any order; operands are inputs, halves of inputs, or gathered inputs, dequantised.
//               Contracting M leaves E in its place.
//   rounding    + - * / sqrt round once to f32; a*b + c may be fused; other functions are good to 2^-20 relative.
//               cast rounds to nearest even into a plain type and back.
//   NaN         min, max, clamp: NaN if an argument is. Comparisons with NaN are 0, != is 1.
//   outputs     the only place that rounds to storage, quantises, transposes or reduces. Rows outside the groups are
//               not written; the gap behind a group is written as zero where groups are aligned (P = M align A, and M
//               itself under an align clause), up to the end of the buffer.
//   aliasing    none: an output overlaps no input and no other output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "base/storage.h"
#include "compiler/ir/types.h"

namespace epifuse::ir {

enum class Op {
#define EPIFUSE_OP(name, arity, kind, meaning) name,
#include "compiler/ir/ops.def"
#undef EPIFUSE_OP
};
enum class OpKind { leaf, product, shape, map, gradient };

struct OpInfo {
  std::string_view name;
  int arity;  // -1: any
  OpKind kind;
  std::string_view meaning;
};
const OpInfo& op_info(Op op);

using DimId = int;    // index into Graph::dims
using NodeId = int;   // index into Graph::nodes; arguments come before their users
using InputId = int;  // index into Graph::inputs
using ParamId = int;  // index into Graph::params

// times * dim / over, or the number `times` when dim is -1. Two extents are the same name exactly if all three agree.
struct Extent {
  int64_t times = 1;
  DimId dim = -1;
  int64_t over = 1;
  bool operator==(const Extent&) const = default;
};
using Shape = std::vector<Extent>;

Extent half(const Extent& extent);   // 2*I gives I, N gives N/2
Extent twice(const Extent& extent);  // the inverse

enum class DimKind { fixed, dynamic, grouped, aligned };
enum class GroupSizes { ends, counts };

struct Dimension {
  std::string name;
  DimKind kind = DimKind::fixed;
  std::optional<int64_t> value;  // fixed: once bound
  // grouped: `group M by E ends i32 align 1`
  DimId cut_by = -1;
  GroupSizes sizes = GroupSizes::ends;
  Storage sizes_storage = Storage::i32;  // i32 or i64
  int64_t align = 1;                     // also of an aligned dimension
  std::optional<Extent> slot;            // start(e) = e * slot
  // aligned: `group P = M align 128`
  DimId base = -1;
  Span where;
};

struct Param {
  std::string name;
  std::optional<double> default_value;
  Span where;
};

struct Tensor {
  std::string name;
  TensorType type;
  Shape shape;           // memory order
  int pointer_axes = 0;  // leading axes that select a buffer: bf16[E][N, K] has 1
  Span where;
};

struct Input {
  Tensor tensor;
  std::optional<double> default_value;  // may be left out, and is then this number
  bool left_out = false;                // the caller left it out (part of the request)
};

enum class Reduction { none, sum, amax };

struct Output {
  Tensor tensor;
  NodeId value = -1;
  Reduction reduction = Reduction::none;  // over the names of the value that the tensor does not list
  bool accumulate = false;                // +=
  bool left_out = false;
  // Which of the spec's outs it is, where this graph is a part of another's (random bits follow it); -1: see
  // Graph::ordinal.
  int ordinal = -1;
  // Grouped dimensions over whose rows other graphs have contracted what this one reads, where this graph is a part of
  // another's; nothing: see Graph::contracted_groups. An empty list: what is computed is stored, also of no terms.
  std::optional<std::vector<DimId>> contracted;
};

struct Node {
  Op op = Op::number;
  std::vector<NodeId> args;
  Shape shape;
  double number = 0;              // number
  int index = -1;                 // input: InputId; param: ParamId; split: which half (0, 1); grad: which x (0, 1, …)
  int64_t piece = 0;              // split, join: 0 for halves, else elements dealt out at a time
  Storage to = Storage::f32;      // cast
  Extent along;                   // gemm: the contracted name; gather, hadamard: the dimension
  int64_t promote = 128;          // gemm: FP8 partial sums move to f32 every so many elements; 0: never
  std::optional<uint32_t> signs;  // hadamard
  DimId dim = -1;                 // group_ends
  std::string name;               // of the value in the spec, if it has one: for people, means nothing
  Span where;
};

struct Graph {
  std::string name;
  std::vector<Dimension> dims;
  std::vector<Param> params;
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<Output> outputs;

  std::string extent_text(const Extent& extent) const;  // "2*I", "K/32", "7"
  std::string shape_text(const Shape& shape) const;     // "[M, 2*I]"

  // The same name with an aligned dimension taken as the one it aligns.
  Extent base_name(Extent extent) const;
  bool same_name(const Extent& a, const Extent& b) const { return base_name(a) == base_name(b); }

  bool has_name(const Shape& shape, const Extent& extent) const;
  bool same_names(const Shape& a, const Shape& b) const;  // the same set of names, in any order

  // The shape of a pointwise operation on two values: the names of `a` in their order, then those that only `b` has;
  // aligned dimensions as the ones they align; a group count dropped where the dimension it cuts stands (V1).
  Shape union_of(const Shape& a, const Shape& b) const;

  // The name that a split halves, in the shape of its argument, or that a join doubles, in its own.
  Extent whole_name(const Node& split_or_join) const;

  // Which of the spec's outs an output of this graph is: what it says, else its place among the outputs.
  int ordinal(const Output& output) const;

  // The grouped dimensions over whose rows a gemm sums what an output stores, and whose groups the output keeps apart:
  // an empty group has no terms, so its elements are zero under `=` and stay as they are under `+=`.
  std::vector<DimId> contracted_groups(const Output& output) const;

  // The number of elements of an extent whose dimension is bound or fixed by itself; nothing for launch values.
  std::optional<int64_t> fixed_value(const Extent& extent) const;
};

// The text form of a graph (--emit=ir): deterministic, without positions; it is also the canonical form in a request.
std::string print(const Graph& graph);

// Everything the header promises, checked: arity, order, shapes, indices. Empty when the graph is sound, else one line
// per fault; a fault here is a bug of ours.
std::vector<std::string> verify(const Graph& graph);

}  // namespace epifuse::ir
