#include "tools/values.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace epifuse::tools {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return false;
  for (const char c : text)
    if (!is_letter(c) && !is_digit(c) && c != '.') return false;
  return true;
}

// Calls visit for each part between commas; an empty part is an error, so that "8,,9" and "8," are.
template <class Visit>
Status for_each_part(std::string_view text, Visit visit) {
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    if (part.empty()) return user_error("a part between commas is empty");
    if (Status status = visit(part); !status) return status;
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
  }
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return user_error(fmt::format("'{}' is no number", text));
  return value;
}

}  // namespace

Result<std::pair<std::string, std::string>> parse_assignment(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return user_error(fmt::format("'{}' is not of the form NAME=VALUE", text));
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  if (!is_name(name)) return user_error(fmt::format("'{}' in '{}' is no name", name, text));
  if (value.empty()) return user_error(fmt::format("'{}' has nothing behind '='", text));
  return std::pair(std::string(name), std::string(value));
}

Result<std::vector<std::string>> parse_names(std::string_view text) {
  std::vector<std::string> names;
  Status status = for_each_part(text, [&](std::string_view part) -> Status {
    if (!is_name(part)) return user_error(fmt::format("'{}' is no name", part));
    names.emplace_back(part);
    return {};
  });
  if (!status) return status.error();
  return names;
}

Result<double> parse_number(std::string_view text, double least, double most) {
  Result<double> value = parse_number(text);
  if (value && (*value < least || *value > most))
    return user_error(fmt::format("{} is not from {} to {}", text, least, most));
  return value;
}

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc::invalid_argument || end != text.data() + text.size())
    return user_error(fmt::format("'{}' is no whole number", text));
  if (failed != std::errc() || value < least || value > most)
    return user_error(fmt::format("{} is not from {} to {}", text, least, most));
  return value;
}

Status parse_dims(std::string_view text, std::map<std::string, int64_t>& dims) {
  return for_each_part(text, [&](std::string_view part) -> Status {
    const auto assignment = parse_assignment(part);
    if (!assignment) return assignment.error();
    const Result<int64_t> value = parse_integer(assignment->second, 0, std::numeric_limits<int64_t>::max());
    if (!value) return user_error(fmt::format("'{}': {}", part, value.error().message));
    if (!dims.emplace(assignment->first, *value).second)
      return user_error(fmt::format("'{}' is given twice", assignment->first));
    return {};
  });
}

Status parse_params(std::string_view text, std::map<std::string, double>& params) {
  return for_each_part(text, [&](std::string_view part) -> Status {
    const auto assignment = parse_assignment(part);
    if (!assignment) return assignment.error();
    const Result<double> value = parse_number(assignment->second);
    if (!value) return user_error(fmt::format("'{}': {}", part, value.error().message));
    if (!params.emplace(assignment->first, *value).second)
      return user_error(fmt::format("'{}' is given twice", assignment->first));
    return {};
  });
}

Result<std::vector<int64_t>> parse_counts(std::string_view text) {
  std::vector<int64_t> counts;
  const Status status = for_each_part(text, [&](std::string_view part) -> Status {
    // A group of more rows has no place in any memory; sums of groups stay far below 2^63.
    const Result<int64_t> value = parse_integer(part, 0, int64_t{1} << 40);
    if (!value) return value.error();
    counts.push_back(*value);
    return {};
  });
  if (!status) return status.error();
  return counts;
}

}  // namespace epifuse::tools
