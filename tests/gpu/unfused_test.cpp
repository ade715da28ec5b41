// Every kernel of specs/ in both its forms: fused against the interpreter, unfused against the interpreter, and both
// against each other; taps and their quantised bytes; an unfused call replayed from a graph.
#include <algorithm>

#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/semantics/resolve.h"
#include "jit/device_call.h"
#include "jit/run.h"
#include "tests/codegen/contracted_specs.h"
#include "tests/gpu/support/two_forms.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Kernel {
  std::string name;
  std::shared_ptr<const Program> program;
  std::string kernel;
  CompilerOptions options;
  bool grouped = false;
  std::vector<std::string> sizes;  // those known at launch only
  jit::CompiledKernelPtr fused;
  jit::CompiledUnfusedPtr unfused;
  std::string why;  // one of them is not there
};

CompilerOptions small_options(const ir::Graph& graph) {
  CompilerOptions options;
  options.target = gpu_target();
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::fixed) options.dims[dim.name] = dim.name == "E" ? 4 : dim.name == "K" ? 256 : 160;
  return options;
}

std::vector<Kernel> all_kernels() {
  MemorySource no_files({});
  std::vector<Kernel> all;
  std::vector<std::string> paths = spec_files();
  for (const std::string& path : cookbook_files()) paths.push_back(path);
  for (const std::string& path : paths) {
    Diagnostics diagnostics;
    const auto program = std::make_shared<Program>(load_program(path, file_text(path), no_files, diagnostics));
    for (const std::string& name : kernel_names(*program)) {
      const auto graph = resolve(*program, name, {}, diagnostics);
      INFO(path << " " << name << "\n" << diagnostics.print());
      REQUIRE(graph);
      Kernel one{path + " " + name, program, name, small_options(*graph)};
      one.grouped = std::any_of(graph->dims.begin(), graph->dims.end(),
                                [](const ir::Dimension& dim) { return dim.kind == ir::DimKind::grouped; });
      for (const ir::Dimension& dim : graph->dims)
        if (dim.kind == ir::DimKind::dynamic) one.sizes.push_back(dim.name);
      all.push_back(std::move(one));
    }
  }
  return all;
}

void compile(Kernel& one) {
  Diagnostics diagnostics;
  const auto fused = engine().compile(*one.program, one.kernel, one.options, diagnostics);
  if (fused) one.fused = fused->value_or(nullptr);
  const auto unfused = jit::compile_unfused(engine(), *one.program, one.kernel, one.options, diagnostics, 1);
  if (unfused) one.unfused = unfused->value_or(nullptr);
  one.why = diagnostics.print();
  if (!fused) one.why += fused.error().message;
  if (!unfused) one.why += unfused.error().message;
}

}  // namespace

TEST_CASE("fused and unfused kernels are right, and agree") {
  std::vector<Kernel> all = all_kernels();
  interpreter::parallel_for(static_cast<int64_t>(all.size()), 0,
                            [&](int64_t i) { compile(all[static_cast<size_t>(i)]); });
  uint64_t seed = 0;
  for (const Kernel& one : all) {
    INFO(one.name << "\n" << one.why);
    CHECK(one.fused);
    CHECK(one.unfused);
    if (!one.fused || !one.unfused) continue;
    for (const jit::CompiledKernelPtr& stage : one.unfused->stages) CHECK(stage->image.spill_bytes == 0);
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0, 5, 130, 700}, {33, 0, 127, 129}}) {
      for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::normal}) {
        jit::VerifyOptions options;
        options.unfused = one.unfused;
        options.inputs.slack_rows = 37;
        options.inputs.mode = mode;
        options.inputs.seed = ++seed;
        if (one.grouped)
          options.inputs.counts = counts;
        else
          for (const std::string& size : one.sizes) options.inputs.sizes[size] = counts[3];
        const auto report = must(jit::verify(engine(), one.fused, options, gpu().device));
        INFO(report.print());
        CHECK(report.ok);
      }
    }
  }
}

TEST_CASE("a tap shows the value behind the quantiser, whose bytes follow from it") {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", file_text("specs/moe_fc1_swiglu.epi"), no_files, diagnostics);
  CompilerOptions options;
  options.target = gpu_target();
  options.dims = {{"E", 4}, {"K", 256}, {"I", 160}};
  options.taps = {"act"};
  const auto fused = must(engine().compile(program, "", options, diagnostics));
  INFO(diagnostics.print());
  REQUIRE(fused);
  jit::VerifyOptions verify;
  verify.inputs.counts = {{0, 77, 300, 129}};
  verify.inputs.slack_rows = 37;
  for (const jit::DataMode mode : {jit::DataMode::normal, jit::DataMode::scaled}) {
    verify.inputs.mode = mode;
    const auto report = must(jit::verify(engine(), *fused, verify, gpu().device));
    INFO(report.print());
    CHECK(report.ok);
    REQUIRE(report.requantised.size() == 2);
    for (const jit::Requantised& again : report.requantised) CHECK(again.ok());
  }
}

TEST_CASE("an unfused call is captured and replayed with other group sizes") {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", file_text("specs/moe_fc1_swiglu.epi"), no_files, diagnostics);
  CompilerOptions options;
  options.target = gpu_target();
  options.dims = {{"E", 3}, {"K", 128}, {"I", 128}};
  const auto unfused = must(jit::compile_unfused(engine(), program, "", options, diagnostics));
  INFO(diagnostics.print());
  REQUIRE(unfused);
  const jit::LaunchSequence sequence = must(jit::load_unfused(engine(), *unfused, gpu().device));
  const ir::Graph& graph = (*unfused)->graph;

  jit::InputOptions first;
  first.counts = {{100, 0, 28}};
  first.slack_rows = 72;
  first.mode = jit::DataMode::integers;
  interpreter::Buffers inputs = must(jit::make_inputs(graph, first));
  const auto problem = must(interpreter::Problem::bind(graph, inputs, {}));
  interpreter::Buffers outputs = must(interpreter::make_outputs(problem));
  auto call = must(jit::DeviceCall::make(sequence, inputs, outputs, {}));
  auto replay = must(
      runtime::CapturedGraph::capture(gpu().device, call.stream(), [&] { return call.bound().launch(call.stream()); }));
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{100, 0, 28}, {1, 127, 72}, {0, 0, 0}, {200, 0, 0}}) {
    jit::InputOptions sizes = first;
    sizes.counts = counts;
    sizes.slack_rows = 200 - counts[0] - counts[1] - counts[2];
    inputs = must(jit::make_inputs(graph, sizes));
    for (const auto& [name, tensor] : inputs)
      must(call.memory(name).upload(std::as_bytes(std::span(tensor.bytes)), call.stream()));
    must(call.fill_outputs(0, {}));
    must(replay.replay(call.stream()));
    must(call.bound().synchronize(call.stream()));
    must(call.download(outputs));
    const interpreter::Buffers want = must(interpreter::run(graph, inputs));
    for (const auto& [name, tensor] : want)
      if (name == "pre") CHECK(outputs.at(name).bytes == tensor.bytes);  // a rounded sum of whole numbers
  }
}

TEST_CASE("an empty group of a contraction is zero or left alone in both forms, whatever is made of no terms") {
  std::vector<FormSpec> specs;
  for (const std::string& text : contracted_specs()) specs.push_back({text, {}});
  for (const TwoForms& forms : compile_forms(specs)) {
    INFO(forms.spec.text << forms.why);
    CHECK(forms.fused);
    CHECK(forms.unfused);
    if (!forms.fused || !forms.unfused) continue;
    for (const std::vector<int64_t>& counts : {contracted_counts(), {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 300}}) {
      for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::normal, jit::DataMode::scaled}) {
        jit::VerifyOptions options;
        options.unfused = forms.unfused;
        options.inputs.counts = counts;
        options.inputs.slack_rows = 37;
        options.inputs.mode = mode;
        const auto report = must(jit::verify(engine(), forms.fused, options, gpu().device));
        INFO(report.print());
        CHECK(report.ok);
        if (mode != jit::DataMode::integers) continue;
        for (const interpreter::Verdict& verdict : report.unfused) CHECK(verdict.different == 0);
      }
    }
    // The bits too: what is left alone is that of before, and zeros have no sign.
    jit::InputOptions data;
    data.mode = jit::DataMode::integers;
    data.counts = contracted_counts();
    interpreter::Buffers buffers = must(jit::make_inputs(forms.unfused->graph, data));
    const auto problem = must(interpreter::Problem::bind(forms.unfused->graph, buffers, {}));
    buffers.merge(must(interpreter::make_outputs(problem, 0xFF)));
    for (const ir::Output& output : forms.unfused->graph.outputs) {
      if (!output.accumulate) continue;
      interpreter::HostTensor& held = buffers.at(output.tensor.name);
      for (int64_t i = 0; i < held.elements(); ++i) interpreter::store_one(held, i, static_cast<double>(i % 5));
    }
    const interpreter::Buffers want = must(interpreter::run(forms.unfused->graph, buffers));
    forms.run(buffers, [&](const interpreter::Buffers& stored) {
      for (const auto& [name, tensor] : want) {
        INFO(name);
        CHECK((stored.at(name).bytes == tensor.bytes));
      }
    });
  }
}

TEST_CASE("neighbours in groups of which some are empty, in what only stages can store") {
  const std::vector<TwoForms> compiled = compile_forms({{contracted_across(), {}}});
  const TwoForms& forms = compiled.at(0);
  INFO(forms.why);
  CHECK(!forms.fused);
  REQUIRE(forms.unfused);
  jit::InputOptions data;
  data.mode = jit::DataMode::integers;
  data.counts = contracted_across_counts();
  interpreter::Buffers buffers = must(jit::make_inputs(forms.unfused->graph, data));
  const auto problem = must(interpreter::Problem::bind(forms.unfused->graph, buffers, {}));
  buffers.merge(must(interpreter::make_outputs(problem, 0)));
  const interpreter::Buffers want = must(interpreter::run(forms.unfused->graph, buffers));
  forms.run_unfused(buffers, [&](const interpreter::Buffers& stored) {
    for (const auto& [name, tensor] : want) {
      INFO(name);
      CHECK((stored.at(name).bytes == tensor.bytes));
    }
  });
}
