// From a spec to a kernel on the GPU of the tests. Specs and vectors are part of this program, so that it needs no
// other file on the machine that it is carried to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/engine.h"
#include "jit/verify.h"
#include "tests/gpu/support/gpu.h"

namespace epifuse::test {

// One for the process; its kernels are kept in memory only.
jit::Engine& engine();

// A file of the checkout: "specs/grouped_gemm.epi", "tests/vectors/scalar_e4m3.json".
std::string file_text(std::string_view path);
std::vector<std::string> spec_files();      // every example of one kernel in specs/
std::vector<std::string> cookbook_files();  // those of several kernels: training steps
std::vector<std::string> recipe_files();    // those in folders below: a vendor's list, recipes of low precision

// The graph of a spec's only kernel, without numbers for its dims.
ir::Graph graph_of_spec(const std::string& text);

// Compiled for the GPU; null when the compiler says that it does not have this yet (what it says is in `why`).
jit::CompiledKernelPtr compile_or_refuse(const std::string& text, const std::map<std::string, int64_t>& dims,
                                         std::string& why, const std::string& schedule = "");
jit::CompiledKernelPtr compile_spec(const std::string& text, const std::map<std::string, int64_t>& dims = {},
                                    const std::string& schedule = "");

// What is wrong with a kernel: that it spills, that its products are serialised, or what verify says. Empty: nothing.
// Called on any thread: no assertions.
std::string wrong_with(const jit::CompiledKernelPtr& kernel, const jit::VerifyOptions& options);

// A kernel of a text under every tile, and under some of what else can be chosen; first the planner's choice. They are
// compiled at once.
std::vector<jit::CompiledKernelPtr> compile_every_schedule(const std::string& text, const std::string& kernel,
                                                           const std::map<std::string, int64_t>& dims);

}  // namespace epifuse::test
