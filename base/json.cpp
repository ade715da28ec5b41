#include "base/json.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

// What is seen before anything is built. In a text that is no JSON it means nothing, and the parser will say so.
struct Outline {
  size_t members = 0;  // of all objects, each key as often as it stands there
  bool too_deep = false, has_nul = false;
};

Outline outline_of(std::string_view text) {
  Outline outline;
  int levels = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') {
        outline.has_nul = outline.has_nul || text.substr(i + 1).starts_with("u0000");
        ++i;
      } else if (c == '"') {
        in_text = false;
      }
      continue;
    }
    if (c == '"') in_text = true;
    if (c == ':') ++outline.members;
    if (c == '}' || c == ']') --levels;
    if (c == '{' || c == '[') outline.too_deep = outline.too_deep || ++levels > most_json_levels;
  }
  return outline;
}

size_t members_of(const Json& value) {
  size_t count = value.is_object() ? value.size() : 0;
  if (value.is_structured())
    for (const Json& item : value) count += members_of(item);
  return count;
}

// Of a text in which one is.
std::string repeated_key(std::string_view text) {
  std::string repeated;
  std::vector<std::set<std::string>> keys;
  const auto callback = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key)
      if (const auto name = parsed.get<std::string>(); !keys.back().insert(name).second && repeated.empty())
        repeated = name;
    return true;
  };
  [[maybe_unused]] const Json walked = Json::parse(text, callback, /*allow_exceptions=*/false);
  return repeated;
}

std::string place_of(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  if (text.find('\n') == std::string_view::npos) return fmt::format("character {}", before.size() + 1);
  const size_t line = before.rfind('\n');
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     before.size() - (line == std::string_view::npos ? 0 : line + 1) + 1);
}

}  // namespace

Result<Json> read_json(std::string_view text) {
  const Outline outline = outline_of(text);
  if (outline.too_deep)
    return user_error(fmt::format("JSON that nests deeper than {} levels, which is not read", most_json_levels));
  try {
    Json value = Json::parse(text);
    if (outline.has_nul) return user_error("JSON with the character 0 in a text, which is not read");
    if (members_of(value) != outline.members)
      return user_error(fmt::format("JSON in which an object has the key '{}' twice", repeated_key(text)));
    return value;
  } catch (const Json::parse_error& error) {
    return user_error(fmt::format("no JSON ({})", place_of(text, error.byte)));
  } catch (const Json::exception&) {
    return user_error("no JSON that can be read: a number in it is out of range");
  }
}

std::string wrong_member(const nlohmann::ordered_json& object, const std::string& name, std::string_view wanted) {
  return object.contains(name) ? fmt::format("'{}' is no {}", name, wanted) : fmt::format("'{}' is missing", name);
}

std::optional<int64_t> json_integer(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return std::nullopt;
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

}  // namespace epifuse
