// grad: the backward kernels of a chain of forward kernels, as a spec.
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <system_error>

#include "compiler/chain/derive_backward.h"
#include "tools/commands.h"
#include "tools/output_file.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

// The way from the file that is written to the folder of the spec; empty when they lie together, or nothing leads
// there.
std::string folder_of_spec(const std::string& spec, const std::string& file) {
  namespace fs = std::filesystem;
  const auto folder = [](const std::string& path) {
    const fs::path parent = fs::path(path).parent_path();
    return parent.empty() ? fs::path(".") : parent;
  };
  std::error_code failed;
  const fs::path way = fs::relative(folder(spec), folder(file), failed);
  return failed || way == "." ? "" : way.generic_string();
}

}  // namespace

Report gradients(const CommandLine& line, Surroundings& world) {
  using Json = nlohmann::ordered_json;
  const std::string& path = line.specs.front();
  std::string file;
  if (!line.output.empty()) {
    const Result<std::string> checked = output_file(world.disk, line.output);
    if (!checked) return failure(checked.error());
    file = *checked;
  }
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(path, world.disk, diagnostics, line.output);
  if (!program) return failure(program.error());
  const std::optional<std::string> text =
      chain::derive_backward(*program, line.chain, diagnostics, file.empty() ? "" : folder_of_spec(path, file));
  if (!text) return failure(std::move(diagnostics));
  Report report;
  report.diagnostics = std::move(diagnostics);
  Json fields = {{"chain", line.chain}};
  if (file.empty()) {
    report.text = *text;
    report.is_content = true;
    fields["text"] = *text;
  } else {
    if (Status written = write_output(world.disk, file, *text); !written) return failure(written.error());
    report.text = fmt::format("{}: written\n", line.output);
    fields["output"] = line.output;
  }
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace epifuse::tools
