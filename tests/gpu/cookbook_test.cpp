// Every kernel of the training steps in specs/ (forward, data and weight gradients, bias and probability) against the
// interpreter over ragged groups: as written, and those with an activation also with their bf16 outputs made f32.
#include <algorithm>

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

jit::CompiledKernelPtr compile(const Case& one, std::string& why) {
  Diagnostics diagnostics;
  CompilerOptions options;
  options.target = must(runtime::target_of(gpu().device->info()));
  for (const ir::Dimension& dim : one.graph.dims)
    if (dim.kind == ir::DimKind::fixed) options.dims[dim.name] = dim.name == "E" ? 5 : dim.name == "H" ? 320 : 160;
  const auto compiled = must(engine().compile(*one.program, one.kernel, options, diagnostics));
  why = diagnostics.print();
  return compiled.value_or(nullptr);
}

}  // namespace

TEST_CASE("every kernel of every training step is right on ragged groups") {
  uint64_t seed = 0;
  for (const Case& one : cases()) {
    std::string why;
    const auto kernel = compile(one, why);
    INFO(one.name << "\n" << why);
    CHECK(kernel);
    if (!kernel) continue;
    CHECK(kernel->image.spill_bytes == 0);
    CHECK(!kernel->image.wgmma_serialized);
    const auto kind = [&](ir::DimKind which) {
      return std::any_of(one.graph.dims.begin(), one.graph.dims.end(),
                         [&](const ir::Dimension& dim) { return dim.kind == which; });
    };
    const bool grouped = kind(ir::DimKind::grouped);
    std::vector<jit::VerifyOptions> runs;
    const std::vector<std::vector<int64_t>> counts = {{0, 5, 0, 130, 700}, {33, 1, 127, 129, 31}, {0, 0, 500, 0, 0}};
    for (const auto& rows : counts) {
      runs.emplace_back().inputs.slack_rows = 37;
      if (grouped)
        runs.back().inputs.counts = rows;
      else
        runs.back().inputs.sizes["S"] = rows[4];  // 700, 31 and none
    }
    for (jit::VerifyOptions& run : runs) {
      for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::scaled}) {
        run.inputs.mode = mode;
        run.inputs.seed = ++seed;
        const auto report = must(jit::verify(engine(), kernel, run, gpu().device));
        INFO("mode " << static_cast<int>(mode) << ", rows of group 4: " << (grouped ? (*run.inputs.counts)[4] : 0)
                     << "\n"
                     << report.print());
        CHECK(report.ok);
      }
    }
  }
}
