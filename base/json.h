// Reading JSON that may be anyone's: files, records, parts of bundles and entries. All of it is read here, with one
// idea of what is refused.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace epifuse {

// Objects and lists within each other. The library recurses over a value to copy, compare and print it.
inline constexpr int most_json_levels = 100;

// The value with its keys in order. An error (user) is "no JSON (line 3, column 5)", of one line "(character 5)", or
// that it nests too deeply, has a key twice, or has the character 0 in a text: as a path it would name another file
// than it shows.
Result<nlohmann::ordered_json> read_json(std::string_view text);

// What is said of a member that does not serve: "'dims' is missing"; if it is there, "'dims' is no " and what is
// wanted.
std::string wrong_member(const nlohmann::ordered_json& object, const std::string& name, std::string_view wanted);

// The whole number that a value is; nothing for another type, and for a number that is out of range.
std::optional<int64_t> json_integer(const nlohmann::ordered_json& value);

}  // namespace epifuse
