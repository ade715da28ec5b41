#include "tools/report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json.h"
#include "base/printable.h"
#include "tools/count_text.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string_view code_name(ExitCode code) {
  switch (code) {
    case ExitCode::good: return "good";
    case ExitCode::user: return "user";
    case ExitCode::usage: return "usage";
    case ExitCode::machine: return "machine";
    case ExitCode::bug: return "bug";
    case ExitCode::wrong: return "wrong";
  }
  return "bug";
}

// A place as editors count it (the Language Server Protocol): lines from 0, and UTF-16 code units from 0 within the
// line. A byte that is no UTF-8 counts as one unit: editors show a replacement character for it.
Json editor_place(const SourceFile& file, LineColumn place) {
  size_t line = 0;  // where the line begins
  for (int i = 1; i < place.line; ++i) line = file.text.find('\n', line) + 1;
  const std::string_view before = std::string_view(file.text).substr(line, static_cast<size_t>(place.column - 1));
  size_t units = 0;
  for (size_t i = 0; i < before.size();) {
    const auto lead = static_cast<unsigned char>(before[i]);
    const size_t length = lead >= 0xF0 && lead < 0xF8   ? 4
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xC0 && lead < 0xE0 ? 2
                                                        : 1;
    size_t found = 1;
    while (found < length && i + found < before.size() &&
           (static_cast<unsigned char>(before[i + found]) & 0xC0) == 0x80)
      ++found;
    units += found < length ? 1 : length == 4 ? 2 : 1;
    i += found < length ? 1 : length;
  }
  return {{"line", place.line - 1}, {"character", units}};
}

Json diagnostic_json(const Diagnostic& diagnostic) {
  Json row = {{"severity", diagnostic.severity == Severity::error ? "error" : "warning"}};
  if (diagnostic.where.file) {
    const LineColumn begin = diagnostic.where.begin(), end = diagnostic.where.end();
    row["file"] = diagnostic.where.file->name;
    row["line"] = begin.line;
    row["column"] = begin.column;
    row["end_line"] = end.line;
    row["end_column"] = end.column;
    row["range"] = {{"start", editor_place(*diagnostic.where.file, begin)},
                    {"end", editor_place(*diagnostic.where.file, end)}};
  }
  row["message"] = diagnostic.message;
  if (!diagnostic.hint.empty()) row["hint"] = diagnostic.hint;
  return row;
}

// fwrite rather than fmt::print, which throws: a closed or full stderr must not change how a command ends.
void say(std::string_view text) {
  const std::string shown = printable(text);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
}

// All mistakes of a spec, unless someone took another file for one: then the first of them say so.
constexpr size_t most_printed = 100;

std::string diagnostics_text(const Diagnostics& diagnostics) {
  Diagnostics first;
  std::string without_place;  // about the command line, so it looks like the other errors of that
  for (size_t i = 0; i < std::min(most_printed, diagnostics.all().size()); ++i) {
    const Diagnostic& diagnostic = diagnostics.all()[i];
    const bool is_error = diagnostic.severity == Severity::error;
    if (!diagnostic.where.file) {
      without_place += fmt::format("epifuse: {}: {}\n", is_error ? "error" : "warning", diagnostic.message);
      if (!diagnostic.hint.empty()) without_place += fmt::format("    hint: {}\n", diagnostic.hint);
    } else if (is_error) {
      first.error(diagnostic.where, diagnostic.message, diagnostic.hint);
    } else {
      first.warning(diagnostic.where, diagnostic.message, diagnostic.hint);
    }
  }
  std::string text = first.print() + without_place;
  if (diagnostics.all().size() > most_printed)
    text += fmt::format("and {} more\n", diagnostics.all().size() - most_printed);
  return text;
}

// What went wrong, for whoever reads no diagnostics: the first mistake, and how many more there are.
std::string error_message(const Report& report) {
  if (!report.error.empty()) return report.error;
  std::string message;
  size_t more = 0;
  for (const Diagnostic& diagnostic : report.diagnostics.all()) {
    if (diagnostic.severity != Severity::error) continue;
    if (!message.empty()) {
      ++more;
      continue;
    }
    if (diagnostic.where.file) {
      const LineColumn begin = diagnostic.where.begin();
      message = fmt::format("{}:{}:{}: ", diagnostic.where.file->name, begin.line, begin.column);
    }
    message += diagnostic.message;
  }
  return more == 0 ? message : fmt::format("{}; and {}", message, count_text(more, "more mistake", "more mistakes"));
}

std::string json_text(const Report& report, std::string_view command) {
  Json document = {{"command", command}, {"ok", report.code == ExitCode::good}, {"exit_code", int(report.code)}};
  if (report.code != ExitCode::good)
    document["error"] = {{"kind", code_name(report.code)}, {"message", error_message(report)}};
  document["diagnostics"] = Json::array();
  for (const Diagnostic& diagnostic : report.diagnostics.all())
    document["diagnostics"].push_back(diagnostic_json(diagnostic));
  if (!report.fields.empty()) document.update(*read_json(report.fields));
  // Paths and source lines may hold any bytes; JSON may not.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user: return ExitCode::user;
    case ErrorKind::environment: return ExitCode::machine;
    case ErrorKind::wrong: return ExitCode::wrong;
  }
  return ExitCode::bug;
}

Report failure(const Error& error) { return failure(exit_code(error.kind), error.message); }

Report failure(ExitCode code, std::string message) {
  Report report;
  report.code = code;
  report.error = std::move(message);
  return report;
}

Report failure(Diagnostics diagnostics) {
  Report report;
  report.code = diagnostics.has_errors() ? ExitCode::user : ExitCode::good;
  report.diagnostics = std::move(diagnostics);
  return report;
}

void note(std::string_view text) { say(fmt::format("epifuse: {}\n", text)); }

ExitCode print(const Report& report, std::string_view command, bool json) {
  if (!json) {
    say(diagnostics_text(report.diagnostics));
    if (!report.error.empty()) note("error: " + report.error);
  }
  const std::string text = json ? json_text(report, command) : report.is_content ? report.text : printable(report.text);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return report.code;
  note(fmt::format("error: cannot write to the standard output: {}", std::generic_category().message(errno)));
  return report.code == ExitCode::good ? ExitCode::machine : report.code;
}

}  // namespace epifuse::tools
