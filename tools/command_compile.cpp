// compile: a kernel from the cache or from the toolchain, or the text of one stage on the way there.
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/json.h"
#include "compiler/compiler.h"
#include "compiler/semantics/resolve.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/count_text.h"
#include "tools/disassemble.h"
#include "tools/output_file.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string megabytes(size_t bytes) {
  return bytes < 1 << 20 ? fmt::format("{:.1f} KiB", bytes / 1024.0) : fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

// The text stages need no toolchain.
std::optional<Stage> text_stage(Emit emit) {
  switch (emit) {
    case Emit::tokens: return Stage::tokens;
    case Emit::ast: return Stage::ast;
    case Emit::ir: return Stage::ir;
    case Emit::plan: return Stage::plan;
    case Emit::cuda: return Stage::cuda;
    default: return std::nullopt;
  }
}

// Puts a stage where it was asked for: into the file of -o, on stdout, or under the key "text".
Status deliver(const std::string& text, const std::string& file, const CommandLine& line, Surroundings& world,
               Report& report, Json& fields) {
  if (!file.empty()) {
    if (Status written = write_output(world.disk, file, text); !written) return written;
    fields["output"] = line.output;
  } else if (line.json) {
    fields["text"] = text;
  } else {
    report.text = text;
    report.is_content = true;
  }
  return {};
}

Report describe(const jit::CompiledKernel& kernel, const CommandLine& line, Json fields, const Surroundings& world) {
  Report report;
  const KernelImage& image = kernel.image;
  const bool compiled = kernel.from == jit::From::toolchain;
  report.text = fmt::format("{} for {}: {} in {:.0f} ms, {}\n", image.recipe.kernel, image.recipe.target,
                            compiled ? "compiled" : fmt::format("from {}", jit::from_name(kernel.from)),
                            kernel.milliseconds, kernel.schedule());
  report.text += fmt::format("  {} registers at entry, {} bytes of spills, {} of cubin\n  key {}\n", image.registers,
                             image.spill_bytes, megabytes(image.cubin.size()), kernel.key);
  if (const IntExpr workspace = kernel.workspace_bytes(); workspace.constant() != 0)
    report.text += fmt::format("  {} bytes of workspace\n", workspace.formula());
  for (const jit::RefusedPlan& refused : kernel.refused)
    report.text += fmt::format("  refused {}: {}\n", refused.schedule, refused.reason);
  for (const std::string& warning : unsaid_warnings(kernel, world.settings))
    report.text += fmt::format("  warning: {}\n", warning);
  if (!line.output.empty()) report.text += fmt::format("  written to {}\n", line.output);
  report.fields = dump(fields);
  return report;
}

// Of the plan that a compile takes, and what may yet be taken instead.
std::optional<std::string> emit_plan(Stage stage, const Program& program, const CommandLine& line,
                                     const CompilerOptions& options, Surroundings& world, Json& fields,
                                     Diagnostics& diagnostics) {
  const std::optional<TakenPlan> taken =
      taken_plan(*make_looking_engine(world), program, line.kernel, options, diagnostics);
  if (!taken) return std::nullopt;
  fields["plan"] = lowering::schedule_name(taken->plan().schedule);
  fields["may_be_left"] = taken->may_be_left.empty() ? Json() : Json(taken->may_be_left);
  if (!taken->may_be_left.empty() && !line.json)
    note(fmt::format("{} ({}) is not compiled yet: {}", taken->planned.graph.name, fields["plan"].get<std::string>(),
                     taken->may_be_left));
  return plan_stage(stage, taken->kernel(), taken->index());
}

Report emit_text(Stage stage, const Program& program, const CommandLine& line, const std::string& file,
                 Surroundings& world) {
  Diagnostics diagnostics;
  const CompilerOptions options = compiler_options(line);
  const bool of_stages = line.unfused && stage != Stage::tokens && stage != Stage::ast;
  const bool of_plan = !of_stages && (stage == Stage::plan || stage == Stage::cuda);
  Json fields;
  const std::optional<std::string> text = of_plan ? emit_plan(stage, program, line, options, world, fields, diagnostics)
                                          : of_stages ? emit_unfused(stage, program, line.kernel, options, diagnostics)
                                                      : emit_stage(stage, program, line.kernel, options, diagnostics);
  if (!text || diagnostics.has_errors()) return failure(std::move(diagnostics));
  Report report;
  report.diagnostics = std::move(diagnostics);
  if (Status done = deliver(*text, file, line, world, report, fields); !done) return failure(done.error());
  report.fields = dump(fields);
  return report;
}

Report compile_stages(const Program& program, const CommandLine& line, Surroundings& world) {
  const std::unique_ptr<jit::Engine> engine = make_engine(world, true);
  Diagnostics diagnostics;
  const auto compiled = jit::compile_unfused(*engine, program, line.kernel, compiler_options(line), diagnostics);
  if (!compiled) return failure(compiled.error());
  if (!*compiled) return failure(std::move(diagnostics));
  const jit::CompiledUnfused& kernel = ***compiled;
  Report report;
  report.text = fmt::format("{} for {}, unfused: {} in {:.0f} ms\n", kernel.recipe.kernel, kernel.recipe.target,
                            kernels_text(kernel.stages.size()), kernel.milliseconds);
  for (const jit::CompiledKernelPtr& stage : kernel.stages) {
    const KernelImage& image = stage->image;
    report.text += fmt::format("  {:32} {:9} {:3} registers, {} bytes of spills\n", image.recipe.kernel,
                               jit::from_name(stage->from), image.registers, image.spill_bytes);
    for (const std::string& warning : unsaid_warnings(*stage, world.settings))
      report.text += fmt::format("    warning: {}\n", warning);
  }
  Json fields = *read_json(unfused_json(kernel));
  fields["toolchain_calls"] = engine->toolchain_calls();
  report.fields = dump(fields);
  report.diagnostics = std::move(diagnostics);
  return report;
}

// Every kernel of a file, at the same time.
Report compile_all(const Program& program, const CommandLine& line, Surroundings& world) {
  const std::unique_ptr<jit::Engine> engine = make_engine(world, true);
  const std::vector<std::string> names = kernel_names(program);
  ResolveOptions all;
  all.dims = line.dims;
  std::vector<PlannedKernel> planned;
  Diagnostics diagnostics;
  for (const std::string& name : names) {
    CompilerOptions options = compiler_options(line);
    options.dims = options_for(program, name, all).dims;
    if (std::optional<PlannedKernel> kernel = engine->plan(program, name, options, diagnostics)) {
      engine->record(program, kernel->graph, options, false);
      planned.push_back(*std::move(kernel));
    }
  }
  if (diagnostics.has_errors()) return failure(std::move(diagnostics));
  const auto start = std::chrono::steady_clock::now();
  Report report;
  Json kernels = Json::array();
  for (const Result<jit::CompiledKernelPtr>& kernel : engine->compile_all(std::move(planned))) {
    if (!kernel) return failure(kernel.error());
    kernels.push_back(*read_json(kernel_json(**kernel)));
    report.text += describe(**kernel, line, Json::object(), world).text;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.fields =
      dump({{"ms", took.count()}, {"toolchain_calls", engine->toolchain_calls()}, {"kernels", std::move(kernels)}});
  report.diagnostics = std::move(diagnostics);
  return report;
}

// `parsing` milliseconds went into the program.
Report emit_artifact(const Program& program, const CommandLine& line, const std::string& file, double parsing,
                     Surroundings& world) {
  std::string nvdisasm;
  if (line.emit == Emit::sass) {
    const Result<std::string> found = find_nvdisasm(world.disk, world.settings);
    if (!found) return failure(found.error());
    nvdisasm = *found;
  }
  std::unique_ptr<jit::Engine> engine = make_engine(world, true);
  Diagnostics diagnostics;
  auto compiled = engine->compile(program, line.kernel, compiler_options(line), diagnostics);
  if (compiled && *compiled && line.emit == Emit::ptx && (**compiled)->ptx.empty()) {
    // The cache keeps cubins alone. What there is to be said is said.
    engine = make_engine({world.settings, "", world.disk, nullptr}, false);
    compiled = engine->compile(program, line.kernel, compiler_options(line), diagnostics);
  }
  if (!compiled) return failure(compiled.error());
  if (!*compiled) return failure(std::move(diagnostics));
  const jit::CompiledKernel& kernel = ***compiled;
  Json fields = *read_json(kernel_json(kernel));
  fields["ms"] = kernel.milliseconds + parsing;
  fields["phases_ms"]["parse"] = parsing;
  fields["toolchain_calls"] = engine->toolchain_calls();

  Report report;
  if (!line.emit || line.emit == Emit::cubin) {
    if (!file.empty()) {
      if (Status done = deliver(std::string(kernel.image.cubin), file, line, world, report, fields); !done)
        return failure(done.error());
    } else if (line.emit) {
      report.text = kernel.image.cubin.view();
      report.is_content = true;
      report.fields = dump(fields);
      return report;
    }
    report = describe(kernel, line, std::move(fields), world);
  } else {
    std::string text = kernel.ptx;
    if (line.emit == Emit::sass) {
      Result<std::string> sass = disassemble(nvdisasm, kernel.image.cubin);
      if (!sass) return failure(sass.error());
      text = std::move(*sass);
    }
    if (Status done = deliver(text, file, line, world, report, fields); !done) return failure(done.error());
    report.fields = dump(fields);
  }
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace

Report compile(const CommandLine& line, Surroundings& world) {
  if (line.emit == Emit::cubin && line.json && line.output.empty())
    return failure(ExitCode::usage, "--emit=cubin with --json needs -o FILE: JSON holds no bytes");
  const bool is_text = line.emit && text_stage(*line.emit);
  if (line.unfused && !is_text && (line.emit || !line.output.empty()))
    return failure(ExitCode::usage, "--unfused makes many cubins: it goes with --emit=ir, plan or cuda, or with none");
  if (line.emit == Emit::cubin && line.output.empty() && ::isatty(STDOUT_FILENO))
    return failure(ExitCode::usage, "a cubin is no text for a terminal; write it with -o FILE, or send it into a pipe");
  std::string file;
  if (!line.output.empty()) {
    const Result<std::string> checked = output_file(world.disk, line.output);
    if (!checked) return failure(checked.error());
    file = *checked;
  }
  Diagnostics diagnostics;
  const auto start = std::chrono::steady_clock::now();
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics, line.output);
  const std::chrono::duration<double, std::milli> parsing = std::chrono::steady_clock::now() - start;
  if (!program) return failure(program.error());
  if (diagnostics.has_errors()) return failure(std::move(diagnostics));
  const std::optional<Stage> stage = line.emit ? text_stage(*line.emit) : std::nullopt;
  if (stage) return emit_text(*stage, *program, line, file, world);
  const bool one = line.unfused || line.emit || !line.output.empty() || !line.kernel.empty() || !line.schedule.empty();
  if (!one && kernel_names(*program).size() > 1) return compile_all(*program, line, world);
  return line.unfused ? compile_stages(*program, line, world)
                      : emit_artifact(*program, line, file, parsing.count(), world);
}

}  // namespace epifuse::tools
