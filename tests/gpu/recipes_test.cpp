// Every kernel of the vendor's list and of the recipes of low precision (specs/cudnn, specs/recipes) against the
// interpreter over ragged groups: values, codes, scales and padding bytes, and that nothing else is written.
#include <algorithm>

#include "compiler/interpreter/parallel.h"
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

std::vector<Case> cases() {
  MemorySource no_files({});
  std::vector<Case> all;
  for (const std::string& path : recipe_files()) {
    Diagnostics diagnostics;
    const auto program = std::make_shared<Program>(load_program(path, file_text(path), no_files, diagnostics));
    for (const std::string& kernel : kernel_names(*program)) {
      const auto graph = resolve(*program, kernel, {}, diagnostics);
      INFO(path << " " << kernel << "\n" << diagnostics.print());
      REQUIRE(graph);
      all.push_back({path + " " + kernel, program, kernel, *graph});
    }
  }
  return all;
}

// Group sizes of a run; E is how many there are. Columns that no block of 128 or 16 divides come last.
struct Sizes {
  const char* name;
  std::vector<int64_t> counts;
  int64_t slack_rows = 37;
  int64_t depth = 320;    // what is contracted
  int64_t columns = 192;  // of everything else
};

const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> sizes = {
      {"uneven", {0, 1, 127, 129, 1000, 0, 4096}},          {"around the edges", {33, 1, 127, 129, 31}, 0, 320, 256},
      {"all in the last", {0, 0, 0, 0, 0, 0, 0, 1000}},     {"all empty", {0, 0, 0, 0}},
      {"short last blocks", {33, 0, 100, 28}, 37, 72, 200},
  };
  return sizes;
}

jit::CompiledKernelPtr compile(const Case& one, const Sizes& set, std::string& why) {
  Diagnostics diagnostics;
  CompilerOptions options;
  options.target = must(runtime::target_of(gpu().device->info()));
  for (const ir::Dimension& dim : one.graph.dims)
    if (dim.kind == ir::DimKind::fixed)
      options.dims[dim.name] = dim.name == "E"                      ? static_cast<int64_t>(set.counts.size())
                               : dim.name == "K" || dim.name == "H" ? set.depth
                                                                    : set.columns;
  const auto compiled = must(engine().compile(*one.program, one.kernel, options, diagnostics));
  why = diagnostics.print();
  return compiled.value_or(nullptr);
}

bool deals_out_pieces(const Case& one) {
  return std::any_of(one.graph.nodes.begin(), one.graph.nodes.end(), [](const ir::Node& node) {
    return (node.op == ir::Op::split || node.op == ir::Op::join) && node.piece != 0;
  });
}

}  // namespace

TEST_CASE("every kernel of the vendor's list and of the recipes is right on ragged groups") {
  const std::vector<Case> all = cases();
  CHECK(all.size() >= 60);
  const std::vector<Sizes>& sizes = all_sizes();
  engine();  // made here: it asserts
  std::vector<std::string> why(all.size());
  interpreter::parallel_for(static_cast<int64_t>(all.size()), 0, [&](int64_t i) {
    compile(all[static_cast<size_t>(i)], sizes[0], why[static_cast<size_t>(i)]);
  });
  uint64_t seed = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name << "\n" << why[i]);
    for (const Sizes& set : sizes) {
      // Halves that alternate in pieces of 32 have columns in multiples of 32.
      if (set.columns % 32 != 0 && deals_out_pieces(all[i])) continue;
      std::string refused;
      const auto kernel = compile(all[i], set, refused);
      // Both halves of a scaled output are whole blocks.
      if (!kernel && refused.find("that lie across both halves") != std::string::npos) continue;
      INFO(refused);
      CHECK(kernel);
      if (!kernel) break;
      CHECK(kernel->image.spill_bytes == 0);
      CHECK(!kernel->image.wgmma_serialized);
      jit::VerifyOptions run;
      run.inputs.slack_rows = set.slack_rows;
      for (const ir::Dimension& dim : all[i].graph.dims) {
        if (dim.kind == ir::DimKind::grouped) run.inputs.counts = set.counts;
        if (dim.kind == ir::DimKind::dynamic)
          run.inputs.sizes[dim.name] = dim.name == "L" ? 2 : std::max<int64_t>(1, set.counts.back());
      }
      run.inputs.mode = seed % 2 == 0 ? jit::DataMode::normal : jit::DataMode::scaled;
      run.inputs.seed = ++seed;
      const auto report = must(jit::verify(engine(), kernel, run, gpu().device));
      INFO(set.name << "\n" << report.print());
      CHECK(report.ok);
    }
  }
}
