// Every kernel of the training steps in specs/ (forward, data and weight gradients, bias and probability) against the
// interpreter over ragged groups: as written, and those with an activation also with their bf16 outputs made f32.
#include <algorithm>

#include "compiler/ir/graph.h"
#include "compiler/semantics/resolve.h"
#include "jit/verify.h"
#include "tests/gpu/support/kernels.h"
#include "tests/gpu/support/side_by_side.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Case {
  std::string name;
  std::shared_ptr<const Program> program;
  std::string kernel;
  ir::Graph graph;  // without numbers
};

std::string with_f32_outputs(std::string text) {
  for (size_t at = 0; (at = text.find("\n  out ", at)) != std::string::npos; ++at) {
    const size_t type = text.find("bf16[", at);
    if (type < text.find('\n', at + 1)) text.replace(type, 4, "f32");
  }
  return text;
}

std::vector<Case> cases() {
  MemorySource no_files({});
  std::vector<Case> all;
  for (const std::string& path : cookbook_files()) {
    Diagnostics diagnostics;
    const auto written = std::make_shared<Program>(load_program(path, file_text(path), no_files, diagnostics));
    const auto f32 =
        std::make_shared<Program>(load_program(path, with_f32_outputs(file_text(path)), no_files, diagnostics));
    for (const std::string& kernel : kernel_names(*written)) {
      const auto graph = resolve(*written, kernel, {}, diagnostics), graph_f32 = resolve(*f32, kernel, {}, diagnostics);
      INFO(path << " " << kernel << "\n" << diagnostics.print());
      REQUIRE((graph && graph_f32));
      all.push_back({path + " " + kernel, written, kernel, *graph});
      if (ir::print(*graph) != ir::print(*graph_f32) && (kernel == "fc1" || kernel == "fc2_dgrad"))
        all.push_back({path + " " + kernel + ", f32 out", f32, kernel, *graph_f32});
    }
  }
  return all;
}

// Group sizes of a run; E is how many there are.
struct Sizes {
  const char* name;
  std::vector<int64_t> counts;
  int64_t slack_rows = 37;
  bool all_modes = false;
  int64_t hidden = 320;  // H
};

std::vector<int64_t> many_groups() {
  std::vector<int64_t> counts;
  uint64_t state = 7;
  for (int e = 0; e < 128; ++e) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    counts.push_back(static_cast<int64_t>(state >> 33) % 301);
  }
  return counts;
}

const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> sizes = {
      {"uneven", {0, 1, 127, 129, 1000, 0, 4096}},
      {"around the edges", {33, 1, 127, 129, 31}, 0, true},
      {"some empty", {0, 5, 0, 130, 700}, 37, true},
      {"all in the last", {0, 0, 0, 0, 0, 0, 0, 1000}},
      {"all empty", {0, 0, 0, 0, 0, 0, 0, 0}},
      {"many", many_groups()},
      {"hidden 2880", {33, 0, 129, 1, 300}, 37, true, 2880},
  };
  return sizes;
}

bool is_grouped(const Case& one) {
  return std::any_of(one.graph.dims.begin(), one.graph.dims.end(),
                     [](const ir::Dimension& dim) { return dim.kind == ir::DimKind::grouped; });
}

// What is wrong with a kernel at these sizes and with these data. Called on any thread: no assertions.
std::string wrong_with(const Case& one, const Sizes& set, jit::DataMode mode, uint64_t seed) {
  const std::string name = one.name + ", " + set.name + ", mode " + std::to_string(static_cast<int>(mode)) + "\n";
  Diagnostics diagnostics;
  CompilerOptions options;
  options.target = gpu_target();
  for (const ir::Dimension& dim : one.graph.dims)
    if (dim.kind == ir::DimKind::fixed)
      options.dims[dim.name] = dim.name == "E"   ? static_cast<int64_t>(set.counts.size())
                               : dim.name == "H" ? set.hidden
                                                 : 160;
  const auto compiled = engine().compile(*one.program, one.kernel, options, diagnostics);
  if (!compiled) return name + compiled.error().message;
  if (!*compiled) return name + diagnostics.print();
  jit::VerifyOptions run;
  run.inputs.slack_rows = set.slack_rows;
  run.inputs.threads = 1;
  if (is_grouped(one))
    run.inputs.counts = set.counts;
  else
    run.inputs.sizes["S"] = set.counts.back();
  run.inputs.mode = mode;
  run.inputs.seed = seed;
  const std::string wrong = test::wrong_with(**compiled, run);
  return wrong.empty() ? "" : name + wrong;
}

}  // namespace

TEST_CASE("every kernel of every training step is right on ragged groups") {
  struct Run {
    const Case* one;
    const Sizes* set;
    jit::DataMode mode;
  };
  const std::vector<Case> all = cases();
  std::vector<Run> runs;
  // Cases turn fastest: while one compiles, the next threads are at other cases.
  for (const Sizes& set : all_sizes())
    for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::scaled})
      for (const Case& one : all)
        if (mode != jit::DataMode::scaled || set.all_modes) runs.push_back({&one, &set, mode});
  (void)engine(), (void)gpu_target();  // made here: they assert
  check_side_by_side(static_cast<int64_t>(runs.size()), [&](int64_t i) {
    const Run& run = runs[static_cast<size_t>(i)];
    return wrong_with(*run.one, *run.set, run.mode, static_cast<uint64_t>(i) + 1);
  });
}
