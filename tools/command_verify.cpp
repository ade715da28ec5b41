// verify: whether a kernel computes on this machine's GPU what its spec says.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "jit/verify.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/find_gpu.h"
#include "tools/kernel_inputs.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Report verify(const CommandLine& line, Surroundings& world) {
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics);
  if (!program) return failure(program.error());
  const Result<std::optional<KernelInputs>> inputs = gather_inputs(*program, line, world, diagnostics);
  if (!inputs) return failure(inputs.error());
  if (!*inputs) return failure(std::move(diagnostics));
  const Result<Gpu> gpu = find_gpu();
  if (!gpu)
    return failure(ExitCode::machine,
                   fmt::format("verify compares a GPU with the interpreter and needs one: {}", gpu.error().message));

  const std::unique_ptr<jit::Engine> engine = make_engine(world, true);
  CompilerOptions options = compiler_options(line);
  options.dims = (*inputs)->dims;
  options.target = gpu->target;
  const auto compiled = engine->compile(*program, line.kernel, options, diagnostics);
  if (!compiled) return failure(compiled.error());
  if (!*compiled) return failure(std::move(diagnostics));

  jit::VerifyOptions verify_options;
  verify_options.inputs = (*inputs)->data;
  verify_options.params = line.params;
  // A kernel that has no unfused form yet can still be held against the interpreter, and so can one of a bundle without
  // the unfused form's kernels, where nothing may be compiled.
  Diagnostics refusals;
  std::string no_unfused;
  if (!line.no_unfused) {
    options.schedule.clear();
    const auto unfused = jit::compile_unfused(*engine, *program, line.kernel, options, refusals, line.jobs);
    const bool is_missing = !unfused && !world.settings.jit && unfused.error().kind == ErrorKind::environment;
    if (!unfused && !is_missing) return failure(unfused.error());
    if (is_missing)
      no_unfused = unfused.error().message;
    else if (*unfused)
      verify_options.unfused = **unfused;
    else
      no_unfused = refusals.all().front().message;
  }
  const Result<jit::VerifyReport> verified = jit::verify(*engine, **compiled, verify_options, gpu->device);
  if (!verified) return failure(verified.error());

  Report report;
  report.code = verified->ok ? ExitCode::good : ExitCode::wrong;
  report.text = fmt::format("{} for {} ({}) on {}\n{}", (*inputs)->graph.name, gpu->target.name,
                            (**compiled)->schedule(), gpu->device->info().name, verified->print());
  if (!no_unfused.empty()) report.text += fmt::format("not compared with the unfused form: {}\n", no_unfused);
  if (!verified->ok) report.error = fmt::format("{} is wrong on this GPU", (*inputs)->graph.name);
  Json fields = {{"kernel", (*inputs)->graph.name},
                 {"device_name", gpu->device->info().name},
                 {"seed", line.seed},
                 {"compile", *read_json(kernel_json(***compiled))}};
  if (verify_options.unfused) fields["compile_unfused"] = *read_json(unfused_json(*verify_options.unfused));
  if (!no_unfused.empty()) fields["unfused_refused"] = no_unfused;
  fields["verdict"] = *read_json(verified->to_json());
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace epifuse::tools
