// Every kernel of the training steps in specs/ (forward, data and weight gradients, bias and probability) against the
// interpreter over ragged groups: as written, and those with an activation also with their bf16 outputs made f32.
#include <algorithm>

#include "compiler/interpreter/parallel.h"
#include "compiler/ir/graph.h"
#include "compiler/semantics/resolve.h"
#include "jit/verify.h"
#include "tests/gpu/support/kernels.h"

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

jit::CompiledKernelPtr compile(const Case& one, const Sizes& set, std::string& why) {
  Diagnostics diagnostics;
  CompilerOptions options;
  options.target = must(runtime::target_of(gpu().device->info()));
  for (const ir::Dimension& dim : one.graph.dims)
    if (dim.kind == ir::DimKind::fixed)
      options.dims[dim.name] = dim.name == "E"   ? static_cast<int64_t>(set.counts.size())
                               : dim.name == "H" ? set.hidden
                                                 : 160;
  const auto compiled = must(engine().compile(*one.program, one.kernel, options, diagnostics));
  why = diagnostics.print();
  return compiled.value_or(nullptr);
}

}  // namespace

TEST_CASE("every kernel of every training step is right on ragged groups") {
  const std::vector<Case> all = cases();
  const std::vector<Sizes>& sizes = all_sizes();
  engine();  // made here: it asserts
  // One group count or another, the text is the same: the first compile serves all.
  std::vector<std::string> why(all.size());
  interpreter::parallel_for(static_cast<int64_t>(all.size()), 0, [&](int64_t i) {
    compile(all[static_cast<size_t>(i)], sizes[0], why[static_cast<size_t>(i)]);
  });
  uint64_t seed = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name << "\n" << why[i]);
    for (const Sizes& set : sizes) {
      std::string ignored;
      const auto kernel = compile(all[i], set, ignored);
      CHECK(kernel);
      if (!kernel) break;
      CHECK(kernel->image.spill_bytes == 0);
      CHECK(!kernel->image.wgmma_serialized);
      jit::VerifyOptions run;
      run.inputs.slack_rows = set.slack_rows;
      if (is_grouped(all[i]))
        run.inputs.counts = set.counts;
      else
        run.inputs.sizes["S"] = set.counts.back();
      for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::scaled}) {
        if (mode == jit::DataMode::scaled && !set.all_modes) continue;
        run.inputs.mode = mode;
        run.inputs.seed = ++seed;
        const auto report = must(jit::verify(engine(), kernel, run, gpu().device));
        INFO("mode " << static_cast<int>(mode) << ", " << set.name << "\n" << report.print());
        CHECK(report.ok);
      }
    }
  }
}
