// Coordinates: where the elements of an inner value lie, as functions of the place in the domain that is evaluated.
//
// A value is evaluated for a run of places along one axis of its domain (the vector axis), all others fixed. Splits,
// gathers, group counts and aligned dimensions change only coordinates, so every operation in between stays pointwise.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/interpreter/problem.h"

namespace epifuse::interpreter {

// Places evaluated at once.
inline constexpr int chunk_size = 128;
// Places that hadamard mixes.
inline constexpr int rotation_size = 16;

using CoordinateId = int;

// A linear form of coordinates: a position in a buffer.
struct Address {
  struct Term {
    CoordinateId coordinate;
    int64_t stride;
  };
  std::vector<Term> terms;
};

struct Coordinate {
  enum class Kind {
    axis,      // the place along axis `axis` of the domain
    split,     // of a whole, from that of its part `part`, dealt out in pieces of `piece`
    join,      // of a part, from that of the whole
    part,      // which part (0, 1) of a whole it lies in
    gathered,  // the integer read from `index` at `address`, -1 where it is outside [0, limit)
    clamped,   // `from`, but 0 where it is negative (a gathered row that is not there)
    group,     // the group of a row of `groups`
    aligned,   // the place of a row of `groups` in the aligned dimension `aligned`
    rotated,   // place `part` of the 16 places, from the start of the group or of the dimension, that `from` is one of;
               // `from` itself where that place is beyond the group's end or `limit`
    in_rotation,  // which of those 16 places `from` is
  };
  Kind kind = Kind::axis;
  int axis = 0;
  CoordinateId from = -1;
  int64_t piece = 0;
  bool halves = false;  // one piece for each part
  int part = 0;
  const HostTensor* index = nullptr;
  int64_t limit = 0;
  Address address;
  const Groups* groups = nullptr;
  const Groups* aligned = nullptr;
  // Derived: whether it changes along the vector axis, and then whether by one from place to place.
  bool varies = false;
  bool runs = false;

  bool same_as(const Coordinate& other) const;
};

// All coordinates of a program; equal ones are made once. Each comes after those it is made from.
class CoordinateTable {
 public:
  explicit CoordinateTable(int vector_axis) : vector_axis_(vector_axis) {}

  CoordinateId add(Coordinate coordinate);
  const Coordinate& operator[](CoordinateId id) const { return all_[id]; }
  size_t size() const { return all_.size(); }
  bool varies(const Address& address) const;

 private:
  int vector_axis_;
  std::vector<Coordinate> all_;
};

// The coordinates of one run of places.
class CoordinateValues {
 public:
  // `position` has a place for each axis of the domain; that of the vector axis is the first of `count`. A run does not
  // leave the group it starts in.
  void compute(const CoordinateTable& table, const int64_t* position, int count);

  // The value of a coordinate at the i-th place.
  int64_t at(CoordinateId id, int i) const;

  struct Positions {
    int64_t first = 0;
    int64_t step = 0;               // when `each` is null
    const int64_t* each = nullptr;  // count positions
  };
  // `scratch` has room for chunk_size positions.
  Positions positions(const Address& address, int64_t* scratch) const;

 private:
  int64_t derive(const Coordinate& coordinate, int i) const;

  const CoordinateTable* table_ = nullptr;
  const int64_t* position_ = nullptr;
  int count_ = 0;
  std::vector<int64_t> first_;
  std::vector<std::vector<int64_t>> each_;
};

}  // namespace epifuse::interpreter
