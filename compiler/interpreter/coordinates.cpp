#include "compiler/interpreter/coordinates.h"

#include <algorithm>
#include <utility>

#include "base/ensure.h"

namespace epifuse::interpreter {

namespace {

// Where the group that a place is in begins and ends, or the dimension where nothing is grouped.
std::pair<int64_t, int64_t> around(const Coordinate& coordinate, int64_t place) {
  if (!coordinate.groups) return {0, coordinate.limit};
  const int32_t group = coordinate.groups->group_of[place];
  EPIFUSE_ENSURE(group >= 0, "a row outside the groups is evaluated");
  return {coordinate.groups->start[group], coordinate.groups->end[group]};
}

}  // namespace

bool Coordinate::same_as(const Coordinate& other) const {
  auto same_terms = [](const Address& a, const Address& b) {
    return std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                      [](const Address::Term& x, const Address::Term& y) {
                        return x.coordinate == y.coordinate && x.stride == y.stride;
                      });
  };
  return kind == other.kind && axis == other.axis && from == other.from && piece == other.piece &&
         halves == other.halves && part == other.part && index == other.index && limit == other.limit &&
         groups == other.groups && aligned == other.aligned && same_terms(address, other.address);
}

bool CoordinateTable::varies(const Address& address) const {
  return std::any_of(address.terms.begin(), address.terms.end(),
                     [&](const Address::Term& term) { return all_[term.coordinate].varies; });
}

CoordinateId CoordinateTable::add(Coordinate coordinate) {
  for (size_t i = 0; i < all_.size(); ++i)
    if (all_[i].same_as(coordinate)) return static_cast<CoordinateId>(i);
  const Coordinate* from = coordinate.from < 0 ? nullptr : &all_[coordinate.from];
  const bool from_axis = from && from->kind == Coordinate::Kind::axis;
  switch (coordinate.kind) {
    case Coordinate::Kind::axis: coordinate.varies = coordinate.runs = coordinate.axis == vector_axis_; break;
    case Coordinate::Kind::gathered: coordinate.varies = varies(coordinate.address); break;
    // A run along a grouped axis stays in one group.
    case Coordinate::Kind::group: coordinate.varies = from->varies && !from_axis; break;
    case Coordinate::Kind::aligned: coordinate.varies = from->varies, coordinate.runs = from->runs && from_axis; break;
    default: coordinate.varies = from->varies;
  }
  // Within a half, neighbours stay neighbours.
  if (coordinate.kind == Coordinate::Kind::split) coordinate.runs = from->runs && coordinate.halves;
  all_.push_back(std::move(coordinate));
  return static_cast<CoordinateId>(all_.size() - 1);
}

int64_t CoordinateValues::at(CoordinateId id, int i) const {
  const Coordinate& coordinate = (*table_)[id];
  if (!coordinate.varies) return first_[id];
  return coordinate.runs ? first_[id] + i : each_[id][i];
}

int64_t CoordinateValues::derive(const Coordinate& coordinate, int i) const {
  const int64_t from = coordinate.from < 0 ? 0 : at(coordinate.from, i);
  const int64_t piece = coordinate.piece;
  switch (coordinate.kind) {
    case Coordinate::Kind::axis: return position_[coordinate.axis];
    case Coordinate::Kind::split: return from / piece * 2 * piece + coordinate.part * piece + from % piece;
    case Coordinate::Kind::join: return from / (2 * piece) * piece + from % piece;
    case Coordinate::Kind::part: return from / piece % 2;
    case Coordinate::Kind::gathered: {
      int64_t position = 0;
      for (const Address::Term& term : coordinate.address.terms) position += term.stride * at(term.coordinate, i);
      const int64_t index = load_integer(*coordinate.index, position);
      return index >= 0 && index < coordinate.limit ? index : -1;
    }
    case Coordinate::Kind::clamped: return std::max<int64_t>(0, from);
    // A gathered row may lie outside the groups; what is read for it is not used.
    case Coordinate::Kind::group: return std::max(0, coordinate.groups->group_of[from]);
    case Coordinate::Kind::aligned: {
      const int32_t group = coordinate.groups->group_of[from];
      EPIFUSE_ENSURE(group >= 0, "a row outside the groups is evaluated");
      return from - coordinate.groups->start[group] + coordinate.aligned->start[group];
    }
    case Coordinate::Kind::rotated: {
      const auto [start, end] = around(coordinate, from);
      const int64_t place = from - (from - start) % rotation_size + coordinate.part;
      return place < end ? place : from;
    }
    case Coordinate::Kind::in_rotation: return (from - around(coordinate, from).first) % rotation_size;
  }
  EPIFUSE_ENSURE(false, "a coordinate of no kind");
}

void CoordinateValues::compute(const CoordinateTable& table, const int64_t* position, int count) {
  table_ = &table;
  position_ = position;
  count_ = count;
  first_.resize(table.size());
  each_.resize(table.size());
  for (size_t id = 0; id < table.size(); ++id) {
    const Coordinate& coordinate = table[static_cast<CoordinateId>(id)];
    if (coordinate.varies && !coordinate.runs) {
      each_[id].resize(chunk_size);
      for (int i = 0; i < count; ++i) each_[id][i] = derive(coordinate, i);
    } else {
      first_[id] = derive(coordinate, 0);
    }
  }
}

CoordinateValues::Positions CoordinateValues::positions(const Address& address, int64_t* scratch) const {
  Positions result;
  bool runs = true;
  for (const Address::Term& term : address.terms) {
    const Coordinate& coordinate = (*table_)[term.coordinate];
    if (coordinate.varies && !coordinate.runs) runs = false;
    if (coordinate.runs) result.step += term.stride;
  }
  if (runs) {
    for (const Address::Term& term : address.terms) result.first += term.stride * first_[term.coordinate];
    return result;
  }
  std::fill_n(scratch, count_, 0);
  for (const Address::Term& term : address.terms)
    for (int i = 0; i < count_; ++i) scratch[i] += term.stride * at(term.coordinate, i);
  result.each = scratch;
  return result;
}

}  // namespace epifuse::interpreter
