// The elements of a random spec's outputs: their type with its options, the order of their dimensions, and now and then
// data that formats have rules of their own for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/random_frame.h"

namespace epifuse::test {

// Values of one width: the product's own, or halves of it, or twice it.
struct Level {
  std::string columns;
  bool doubled = false;  // two columns for each of the frame's
  std::vector<Expression> values;
  std::vector<Expression> inputs;
};

class OutputMaker {
 public:
  // `input` gives an expression that is an input of the level, exact on every machine.
  using Input = std::function<Expression(const Level& level)>;
  OutputMaker(Random& random, const Frame& frame, RandomSpec& spec, SpecText& text, Input input)
      : random_(random), frame_(frame), spec_(spec), text_(text), input_(std::move(input)) {}

  // Writes output number `i`.
  void elements(int64_t i, const Level& level, const Expression& value);

 private:
  // An order of dimensions.
  struct Order {
    std::string rows;         // the name that stands for the rows: M or P, S, N
    bool transposed = false;  // rows come last
    bool along_second = false;
  };
  struct Type {
    std::string name;               // "mxfp8"
    int64_t along = 1, across = 1;  // elements of a block
    std::string options;            // without `along`
    bool scaled() const { return along > 1; }
    bool narrow() const { return name.find("fp4") != std::string::npos; }  // two elements to a byte
  };

  Type plain_type();
  Type scaled_type(const Expression& value);
  std::string amax_input(const std::string& rule, const Expression& value);
  std::string seed_input();
  std::optional<Order> order(const Type& type, const Level& level);
  bool fits(const Type& type, const Order& order) const;
  Expression accident(const Level& level, const Expression& value);
  void write(int64_t i, const Level& level, const Type& type, const Order& order, const std::string& value);

  Random& random_;
  const Frame& frame_;
  RandomSpec& spec_;
  SpecText& text_;
  Input input_;
  // The scaled output before this one, which may be stored once more in another order.
  struct Stored {
    const Level* level = nullptr;
    Type type;
    std::string value;
  } last_;
  int amaxes_ = 0, seeds_ = 0;
};

}  // namespace epifuse::test
