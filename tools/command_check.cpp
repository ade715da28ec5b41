// check: every mistake of every spec, in one run; and, of kernels without mistakes, what cannot be compiled yet.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compiler/compiler.h"
#include "compiler/semantics/resolve.h"
#include "tools/commands.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

void append(Diagnostics& to, const Diagnostics& from, bool as_warnings) {
  for (const Diagnostic& diagnostic : from.all()) {
    const bool mistake = diagnostic.severity == Severity::error && (!as_warnings || diagnostic.of_sizes);
    if (!mistake)
      to.warning(diagnostic.where, diagnostic.message, diagnostic.hint);
    else
      to.error(diagnostic.where, diagnostic.message, diagnostic.hint);
  }
}

// Whether every dimension that needs a number has one; a kernel whose numbers come with the command line is not planned
// here.
bool is_bound(const Program& program, const std::string& kernel, const ResolveOptions& options) {
  ResolveOptions with_numbers = options;
  with_numbers.require_bound = true;
  Diagnostics ignored;
  return resolve(program, kernel, with_numbers, ignored).has_value();
}

// A kernel is right and still may be more than this version compiles. That is no mistake of the spec, so it is a
// warning; sizes that no launch can have are a mistake.
bool plans(const Program& program, const std::string& kernel, const ResolveOptions& options, Diagnostics& diagnostics) {
  CompilerOptions compiler_options;
  compiler_options.dims = options.dims;
  Diagnostics refusals;
  const bool planned = plan_kernel(program, kernel, compiler_options, refusals).has_value();
  append(diagnostics, refusals, true);
  return planned;
}

}  // namespace

Report check(const CommandLine& line, Surroundings& world) {
  Report report;
  Json files = Json::array();
  std::string unreadable;
  ResolveOptions options;
  options.dims = line.dims;
  for (const std::string& path : line.specs) {
    Diagnostics mistakes;
    const Result<Program> program = read_spec(path, world.disk, mistakes);
    if (!program) {
      unreadable += (unreadable.empty() ? "" : "\n") + program.error().message;
      files.push_back({{"file", path}, {"ok", false}, {"kernels", Json::array()}});
      continue;
    }
    epifuse::check(*program, options, mistakes);
    Json kernels = Json::array();
    for (const std::string& kernel : kernel_names(*program)) {
      Json row = {{"name", kernel}};
      if (!mistakes.has_errors()) {
        const ResolveOptions own = options_for(*program, kernel, options);
        const bool bound = is_bound(*program, kernel, own);
        row["bound"] = bound;
        if (bound) row["compiles"] = plans(*program, kernel, own, mistakes);
      }
      kernels.push_back(std::move(row));
    }
    append(report.diagnostics, mistakes, false);
    if (!mistakes.has_errors())
      report.text +=
          fmt::format("{}: {} kernel{}, no mistakes\n", path, kernels.size(), kernels.size() == 1 ? "" : "s");
    files.push_back({{"file", path}, {"ok", !mistakes.has_errors()}, {"kernels", std::move(kernels)}});
  }
  report.error = unreadable;
  if (!unreadable.empty() || report.diagnostics.has_errors()) report.code = ExitCode::user;
  report.fields = Json{{"files", std::move(files)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace epifuse::tools
