// Execution of a program; program_compiler.cpp makes it.
#include "compiler/interpreter/evaluator.h"

#include <algorithm>

#include "base/ensure.h"
#include "compiler/interpreter/rotation.h"

namespace epifuse::interpreter {
namespace {

constexpr size_t lanes_per_register = 4;

void broadcast(const Lane& lane, int count) {
  for (double* values : {lane.value, lane.low, lane.high, lane.jumps})
    if (values) std::fill_n(values + 1, count - 1, values[0]);
}

// What is loaded is an f32 of the device: exact.
void make_exact(const Lane& lane, int count) {
  if (!lane.low) return;
  std::copy_n(lane.value, count, lane.low);
  std::copy_n(lane.value, count, lane.high);
  std::fill_n(lane.jumps, count, 0.0);
}

void copy_element(const Lane& from, const Lane& to, int i) {
  to.value[i] = from.value[i];
  if (to.low) to.low[i] = from.low[i], to.high[i] = from.high[i], to.jumps[i] = from.jumps[i];
}

}  // namespace

ValueProgram::Scratch::Scratch(const ValueProgram& program)
    : registers_(program.instructions_.size() * lanes_per_register * chunk_size),
      positions_(chunk_size),
      more_positions_(chunk_size) {}

Lane ValueProgram::lane(Scratch& scratch, int index) const {
  double* first = scratch.registers_.data() + static_cast<size_t>(index) * lanes_per_register * chunk_size;
  return bounds_ ? Lane{first, first + chunk_size, first + 2 * chunk_size, first + 3 * chunk_size} : Lane{first};
}

Lane ValueProgram::run(Scratch& scratch, const int64_t* position, int count) const {
  scratch.coordinates_.compute(coordinates_, position, count);
  for (size_t i = 0; i < instructions_.size(); ++i)
    if (is_needed(instructions_[i], scratch, count)) execute(instructions_[i], static_cast<int>(i), scratch, count);
  return lane(scratch, static_cast<int>(instructions_.size()) - 1);
}

bool ValueProgram::is_needed(const Instruction& instruction, const Scratch& scratch, int count) const {
  if (instruction.guard < 0) return true;
  for (int i = 0; i < count; ++i)
    if (scratch.coordinates_.at(instruction.guard, i) == instruction.guarded_part) return true;
  return false;
}

void ValueProgram::execute(const Instruction& instruction, int target, Scratch& scratch, int count) const {
  const Lane to = lane(scratch, target);
  const int n = instruction.uniform ? 1 : count;
  auto arg = [&](int i) { return lane(scratch, instruction.args[i]); };
  switch (instruction.kind) {
    case Kind::constant: fill_number(instruction.number, n, to); break;
    case Kind::plain_input: load_plain(instruction, to, scratch, n); break;
    case Kind::scaled_input: load_scaled(instruction, to, scratch, n); break;
    case Kind::gemm: load_gemm(instruction, to, scratch, n); break;
    case Kind::rotate: rotate(instruction, to, scratch, n); break;
    case Kind::map: apply_map(*instruction.node, n, to, arg(0), arg(1), arg(2)); break;
    case Kind::masked: {
      const Lane from = arg(0);
      for (int i = 0; i < n; ++i) {
        copy_element(from, to, i);
        if (scratch.coordinates_.at(instruction.condition, i) >= 0) continue;
        to.value[i] = 0;
        if (to.low) to.low[i] = to.high[i] = to.jumps[i] = 0;
      }
      break;
    }
    case Kind::choose: {
      const Lane parts[2] = {arg(0), arg(1)};
      for (int i = 0; i < n; ++i) copy_element(parts[scratch.coordinates_.at(instruction.condition, i)], to, i);
      break;
    }
  }
  if (instruction.uniform) broadcast(to, count);
}

void ValueProgram::load_plain(const Instruction& instruction, const Lane& to, Scratch& scratch, int count) const {
  const CoordinateValues::Positions p = scratch.coordinates_.positions(instruction.address, scratch.positions_.data());
  if (p.each)
    load_at(*instruction.tensor, p.each, count, to.value);
  else
    load(*instruction.tensor, p.first, p.step, count, to.value);
  make_exact(to, count);
}

void ValueProgram::load_scaled(const Instruction& instruction, const Lane& to, Scratch& scratch, int count) const {
  const CoordinateValues& coordinates = scratch.coordinates_;
  const CoordinateValues::Positions codes = coordinates.positions(instruction.address, scratch.positions_.data());
  std::vector<int64_t> place(instruction.places.size());
  for (int i = 0; i < count; ++i) {
    for (size_t axis = 0; axis < place.size(); ++axis) place[axis] = coordinates.at(instruction.places[axis], i);
    const int64_t position = codes.each ? codes.each[i] : codes.first + i * codes.step;
    to.value[i] = instruction.scaled->value(*instruction.tensor, *instruction.scale, position, place.data());
  }
  make_exact(to, count);
}

void ValueProgram::load_gemm(const Instruction& instruction, const Lane& to, Scratch& scratch, int count) const {
  const CoordinateValues::Positions rows =
      scratch.coordinates_.positions(instruction.address, scratch.positions_.data());
  const CoordinateValues::Positions cols =
      scratch.coordinates_.positions(instruction.columns, scratch.more_positions_.data());
  const GemmResult& gemm = *instruction.gemm;
  for (int i = 0; i < count; ++i) {
    const int64_t row = rows.each ? rows.each[i] : rows.first + i * rows.step;
    const int64_t col = cols.each ? cols.each[i] : cols.first + i * cols.step;
    to.value[i] = gemm.c[row * gemm.cols + col];
    if (!to.low) continue;
    const double radius = gemm.radius(row, col);
    to.low[i] = to.value[i] - radius;
    to.high[i] = to.value[i] + radius;
    to.jumps[i] = 0;
  }
}

void ValueProgram::rotate(const Instruction& instruction, const Lane& to, Scratch& scratch, int count) const {
  const CoordinateValues& coordinates = scratch.coordinates_;
  Lane terms[rotation_size];
  for (int r = 0; r < rotation_size; ++r) terms[r] = lane(scratch, instruction.args[r]);
  for (int i = 0; i < count; ++i) {
    const int64_t own = coordinates.at(instruction.condition, i);
    const auto in_rotation = static_cast<int>(coordinates.at(instruction.in_rotation, i));
    Rotation rotation(instruction.node->signs.value_or(0), in_rotation);
    // A place that is not there stands at its own instead; it is 0.
    for (int r = 0; r < rotation_size; ++r)
      if (coordinates.at(instruction.places[r], i) == own - in_rotation + r) rotation.add(r, terms[r], i);
    rotation.store(to, i);
  }
}

}  // namespace epifuse::interpreter
