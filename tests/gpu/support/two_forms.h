// Kernels in both their forms, fused and unfused (jit/unfused.h), for what must hold of either.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "jit/unfused.h"
#include "tests/gpu/support/kernels.h"

namespace epifuse::test {

struct FormSpec {
  std::string text;
  std::map<std::string, int64_t> dims;
};

struct TwoForms {
  FormSpec spec;
  jit::CompiledKernelPtr fused;  // null: was not compiled, `why` says what for
  jit::CompiledUnfusedPtr unfused;
  std::string why;

  // Runs both on outputs whose bytes are all 0xFF, or what `buffers` has for them; `check` sees the outputs of each.
  // A form that is missing, and what was written that must not be, fail the test.
  void run(const interpreter::Buffers& buffers, const std::function<void(const interpreter::Buffers&)>& check) const;
  void run_unfused(const interpreter::Buffers& buffers,
                   const std::function<void(const interpreter::Buffers&)>& check) const;
};

// Compiled at once, on all cores.
std::vector<TwoForms> compile_forms(const std::vector<FormSpec>& specs);

}  // namespace epifuse::test
