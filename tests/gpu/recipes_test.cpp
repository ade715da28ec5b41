// Every kernel of the vendor's list and of the recipes of low precision (specs/cudnn, specs/recipes) against the
// interpreter over ragged groups: values, codes, scales and padding bytes, and that nothing else is written.
#include <algorithm>

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

// Null where it is refused; the diagnostics are in `why`. Called on any thread: no assertions.
jit::CompiledKernelPtr compile(const Case& one, const Sizes& set, std::string& why) {
  Diagnostics diagnostics;
  CompilerOptions options;
  options.target = gpu_target();
  for (const ir::Dimension& dim : one.graph.dims)
    if (dim.kind == ir::DimKind::fixed)
      options.dims[dim.name] = dim.name == "E"                      ? static_cast<int64_t>(set.counts.size())
                               : dim.name == "K" || dim.name == "H" ? set.depth
                                                                    : set.columns;
  const auto compiled = engine().compile(*one.program, one.kernel, options, diagnostics);
  why = compiled ? diagnostics.print() : compiled.error().message;
  return compiled ? compiled->value_or(nullptr) : nullptr;
}

bool deals_out_pieces(const Case& one) {
  return std::any_of(one.graph.nodes.begin(), one.graph.nodes.end(), [](const ir::Node& node) {
    return (node.op == ir::Op::split || node.op == ir::Op::join) && node.piece != 0;
  });
}

// What is wrong with a kernel at these sizes; the seed also says whether the data are scaled.
std::string wrong_with(const Case& one, const Sizes& set, uint64_t seed) {
  // Halves that alternate in pieces of 32 have columns in multiples of 32.
  if (set.columns % 32 != 0 && deals_out_pieces(one)) return "";
  const std::string name = one.name + ", " + set.name + "\n";
  std::string why;
  const auto kernel = compile(one, set, why);
  // Both halves of a scaled output are whole blocks.
  if (!kernel && why.find("that lie across both halves") != std::string::npos) return "";
  if (!kernel) return name + why;
  jit::VerifyOptions run;
  run.inputs.slack_rows = set.slack_rows;
  run.inputs.threads = 1;
  for (const ir::Dimension& dim : one.graph.dims) {
    if (dim.kind == ir::DimKind::grouped) run.inputs.counts = set.counts;
    if (dim.kind == ir::DimKind::dynamic)
      run.inputs.sizes[dim.name] = dim.name == "L" ? 2 : std::max<int64_t>(1, set.counts.back());
  }
  run.inputs.mode = seed % 2 == 0 ? jit::DataMode::scaled : jit::DataMode::normal;
  run.inputs.seed = seed;
  const std::string wrong = test::wrong_with(kernel, run);
  return wrong.empty() ? "" : name + wrong;
}

}  // namespace

TEST_CASE("every kernel of the vendor's list and of the recipes is right on ragged groups") {
  const std::vector<Case> all = cases();
  CHECK(all.size() >= 60);
  const std::vector<Sizes>& sizes = all_sizes();
  (void)engine(), (void)gpu_target();  // made here: they assert
  check_side_by_side(static_cast<int64_t>(all.size() * sizes.size()), [&](int64_t i) {
    // Sizes turn slowest: while one case compiles, the next threads are at other cases.
    const size_t at = static_cast<size_t>(i);
    return wrong_with(all[at % all.size()], sizes[at / all.size()], static_cast<uint64_t>(i) + 1);
  });
}
