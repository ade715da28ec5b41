// Evaluates one value of a graph over its domain, a run of places at a time.
//
// A program is a straight list of instructions over registers that each hold a run: no tree is walked per element, and
// nothing is allocated in the inner loop. It is immutable; each thread has a Scratch of its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "compiler/interpreter/coordinates.h"
#include "compiler/interpreter/gemm.h"
#include "compiler/interpreter/map_ops.h"
#include "compiler/interpreter/problem.h"
#include "compiler/interpreter/scaled_tensor.h"

namespace epifuse::interpreter {

class ValueProgram {
 public:
  // `domain` has the names of the value (a row for the count of its groups), and perhaps more along which it is the
  // same, in the order in which places are given later. Refuses, by name, operations that the interpreter does not
  // have. Problem and gemm results must outlive the program.
  static Result<ValueProgram> compile(const Problem& problem, const GemmResults& gemms, ir::NodeId value,
                                      const ir::Shape& domain, int vector_axis, bool bounds);

  class Scratch {
   public:
    explicit Scratch(const ValueProgram& program);

   private:
    friend class ValueProgram;
    CoordinateValues coordinates_;
    std::vector<double> registers_;
    std::vector<int64_t> positions_, more_positions_;
  };

  // The value at `position` (a place for each axis of the domain) and the count - 1 places behind it along the vector
  // axis, which lie in the same group; count <= chunk_size. The lanes belong to the scratch.
  Lane run(Scratch& scratch, const int64_t* position, int count) const;

 private:
  friend class ProgramCompiler;
  enum class Kind { constant, plain_input, scaled_input, gemm, map, masked, choose, rotate };
  struct Instruction {
    Kind kind = Kind::constant;
    const ir::Node* node = nullptr;
    std::array<int, rotation_size> args{};
    bool uniform = false;  // the same at every place of a run
    double number = 0;     // constant
    const HostTensor* tensor = nullptr;
    const HostTensor* scale = nullptr;
    std::shared_ptr<const ScaledTensor> scaled;
    const GemmResult* gemm = nullptr;
    Address address, columns;          // of elements; of rows and columns of a gemm
    std::vector<CoordinateId> places;  // scaled_input: along each stored axis; rotate: of each argument
    CoordinateId condition = -1;       // masked: 0 where it is negative; choose: which argument; rotate: its own place
    CoordinateId in_rotation = -1;     // rotate: which place of its 16 this is
    // Needed only where this choice falls on this part; most runs lie in one part of a join.
    CoordinateId guard = -1;
    int guarded_part = 0;
  };

  bool is_needed(const Instruction& instruction, const Scratch& scratch, int count) const;
  void execute(const Instruction& instruction, int target, Scratch& scratch, int count) const;
  void load_plain(const Instruction& instruction, const Lane& lane, Scratch& scratch, int count) const;
  void load_scaled(const Instruction& instruction, const Lane& lane, Scratch& scratch, int count) const;
  void load_gemm(const Instruction& instruction, const Lane& lane, Scratch& scratch, int count) const;
  void rotate(const Instruction& instruction, const Lane& lane, Scratch& scratch, int count) const;
  Lane lane(Scratch& scratch, int index) const;

  bool bounds_ = false;
  CoordinateTable coordinates_{0};
  std::vector<Instruction> instructions_;  // each writes the register of its own number
};

}  // namespace epifuse::interpreter
