// fmt: writes specs anew in the style of the house, or says which are not in it.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compiler/parser/format.h"
#include "tools/commands.h"
#include "tools/output_file.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Formatted {
  std::string text;
  bool changed = false;
};

// Nothing when the spec has mistakes, which are then in `diagnostics`.
Result<std::optional<Formatted>> formatted(const std::string& path, Surroundings& world, Diagnostics& diagnostics) {
  Result<std::string> text = read_spec_text(path, world.disk);
  if (!text) return text.error();
  const auto file = std::make_shared<const SourceFile>(SourceFile{path, std::move(*text)});
  std::optional<std::string> result = format_spec(file, diagnostics);
  if (!result) return std::optional<Formatted>();
  const bool changed = *result != file->text;
  return std::optional(Formatted{std::move(*result), changed});
}

Status write(const std::string& path, const std::string& text, Surroundings& world) {
  const Result<std::string> file = output_file(world.disk, path);
  if (!file) return file.error();
  return write_output(world.disk, *file, text);
}

}  // namespace

Report format(const CommandLine& line, Surroundings& world) {
  Report report;
  Json files = Json::array();
  std::string problems;
  const auto problem = [&](const std::string& message) { problems += (problems.empty() ? "" : "\n") + message; };
  for (const std::string& path : line.specs) {
    const Result<std::optional<Formatted>> result = formatted(path, world, report.diagnostics);
    if (!result) problem(result.error().message);
    const bool readable = result && *result;
    files.push_back({{"file", path}, {"ok", readable}, {"changed", readable && (*result)->changed}});
    if (!readable) continue;
    const std::string to = line.output.empty() ? path : line.output;
    if (line.check_only) {
      if ((*result)->changed) problem(fmt::format("'{}' is not formatted", path));
    } else if ((*result)->changed || to != path) {
      Status written = to == path ? Status() : check_no_used_file_replaced(path, world.disk, to);
      if (written) written = write(to, (*result)->text, world);
      if (!written) {
        problem(written.error().message);
        files.back()["ok"] = false;
      } else {
        report.text += to == path ? fmt::format("{}: formatted\n", path) : fmt::format("{}: written\n", to);
      }
    }
  }
  report.error = problems;
  if (!problems.empty() || report.diagnostics.has_errors()) report.code = ExitCode::user;
  report.fields = Json{{"files", std::move(files)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace epifuse::tools
