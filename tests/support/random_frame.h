// The frame of a random spec: its dimensions, what lies over what, and the product. Values and outputs hang on it.
#pragma once

#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/random_expression.h"
#include "tests/support/random_spec.h"

namespace epifuse::test {

enum class Form { ragged, dense, batched, ragged_depth, dense_depth };

struct Frame {
  Form form = Form::ragged;
  bool product = true;   // a kernel with gemm
  bool two = false;      // `first` and `second` are products of their own, over `columns`
  std::string rows;      // names that lead each value: "M", "B, S", "E, N"
  std::string leading;   // of them, what counts groups or batches: "E", "B"; for ragged rows "E" stands in no value
  std::string last_row;  // … and the last: "M", "S", "N"
  std::string columns;   // the product's own columns, "N", or where rows are contracted "K"
  int64_t column_count = 0;
  bool halves = false;             // the product has twice the columns, to be split
  bool doubled_inputs = false;     // backward: inputs over 2*columns are split, and gradients are over 2*columns
  int64_t piece = 0;               // of every split and join
  int64_t alignment = 0;           // of P; 0: there is none
  int64_t row_multiple = 1;        // each group of M starts at one
  bool slots = false;              // … which is a slot's size, and rows in a slot need not be there
  int64_t row_count = 0;           // of S or N
  std::vector<Expression> values;  // of the product (one, or two); of a kernel without gemm an input

  bool split() const { return halves || doubled_inputs; }
  std::string whole() const { return "2*" + columns; }
};

// Text of a spec, section by section.
struct SpecText {
  std::string functions, dims, declarations, statements, outputs;
};

// Chooses a frame and writes its dimensions, operands and products.
Frame random_frame(Random& random, SpecSize size, RandomSpec& spec, SpecText& text);

}  // namespace epifuse::test
