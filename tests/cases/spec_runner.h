// Runs a spec for cases that hold on the interpreter and on a GPU alike: the program that a test file is part of says
// where.
#pragma once

#include <string>

#include "compiler/interpreter/host_tensor.h"
#include "compiler/interpreter/problem.h"

namespace epifuse::test {

// The only kernel of a text (what it uses is in specs/lib). `buffers` has the inputs, and may have outputs with what
// they hold before; others hold 0xFF in every byte.
interpreter::Buffers run_spec(const std::string& text, const interpreter::Buffers& buffers,
                              const interpreter::Params& params = {});

// A file of tests/vectors.
std::string vectors_text(const std::string& name);

}  // namespace epifuse::test
