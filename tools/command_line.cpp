#include "tools/command_line.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>

#include "base/diagnostics.h"
#include "tools/understand_options.h"
#include "tools/written_options.h"

namespace epifuse::tools {
namespace {

constexpr const char* commands[] = {"check", "compile", "run",    "verify", "explain",  "bench", "tune",
                                    "fmt",   "grad",    "doctor", "cache",  "prebuild", "bundle"};

// CLI11 calls an unknown command an unexpected argument; the nearest name says more.
std::string unknown_command(int argc, const char* const* argv) {
  const auto word = [&](int index) { return index < argc && argv[index][0] != '-' ? std::string(argv[index]) : ""; };
  // Commands that have commands of their own.
  static const std::map<std::string, std::vector<std::string>> families = {
      {"cache", {"list", "show", "why", "verify", "prune", "clear", "path"}},
      {"bundle", {"list", "verify", "extract", "merge", "diff", "embed"}},
  };
  const auto family = families.find(word(1));
  const bool of_family = family != families.end();
  const std::vector<std::string> names =
      of_family ? family->second : std::vector<std::string>(std::begin(commands), std::end(commands));
  const std::string given = word(of_family ? 2 : 1), before = of_family ? family->first + " " : "";
  if (given.empty() || std::find(names.begin(), names.end(), given) != names.end()) return "";
  const std::string near = nearest(given, names);
  return fmt::format("there is no command '{}{}'{}", before, given,
                     near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                  : fmt::format("; did you mean '{}{}'?", before, near));
}

// "--kernel" of "--kernel=", for which CLI11 takes the next argument as the value; empty when there is none.
std::string option_without_value(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return std::string(word.substr(0, word.size() - 1));
  }
  return "";
}

}  // namespace

std::variant<CommandLine, ShowText, UsageError> parse_command_line(int argc, const char* const* argv) {
  // Whether errors are to be JSON has to be known also when nothing else can be understood.
  const bool json =
      std::any_of(argv + 1, argv + argc, [](const char* text) { return std::string_view(text) == "--json"; });
  if (std::string message = unknown_command(argc, argv); !message.empty())
    return UsageError{"", std::move(message), json};
  const std::string valueless = option_without_value(argc, argv);
  const WrittenLine read = read_written(argc, argv);
  if (read.help) return ShowText{*read.help};
  if (!valueless.empty())
    return UsageError{read.command, fmt::format("{}: there is nothing behind '='", valueless), json};
  if (read.version) return ShowText{"", true};
  if (!read.problem.empty()) return UsageError{read.command, read.problem, json};
  Result<CommandLine> line = understand(read.written, read.command);
  if (!line) return UsageError{read.command, line.error().message, json};
  return std::move(*line);
}

}  // namespace epifuse::tools
