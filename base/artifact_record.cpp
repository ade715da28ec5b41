// Writes and reads records, and says in people's words where two of them differ.
#include "base/artifact_record.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

// What a person looks at in one go.
std::string shortened(std::string_view text) {
  constexpr size_t most = 100;
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + " …";
}

// A field with the name that people get to see. A template's text or digest is named by the path in front of it.
struct Part {
  std::string name;
  std::string_view kind, value;
};

std::vector<Part> parts_of(std::string_view record) {
  std::vector<Part> parts;
  std::string_view path;
  for (const RecordField& field : parse_record(record).value_or(std::vector<RecordField>{{"record", record}})) {
    if (field.name == "path") {
      path = field.value;
    } else if (field.name == "sha256" || field.name == "header") {
      parts.push_back({fmt::format("template {}", path), "template", field.value});
    } else if (field.name == "source") {
      parts.push_back({"CUDA text", field.name, field.value});
    } else if (field.name == "artifact" || field.name == "image" || field.name == "entry") {
      parts.push_back({fmt::format("{} version", field.name), field.name, field.value});
    } else {
      parts.push_back({std::string(field.name), field.name, field.value});
    }
  }
  return parts;
}

// The first line in which two texts differ.
RecordDifference text_difference(const Part& part, std::string_view stored) {
  std::string_view wanted = part.value;
  for (int number = 1;; ++number) {
    const size_t ends[] = {stored.find('\n'), wanted.find('\n')};
    const std::string_view lines[] = {stored.substr(0, ends[0]), wanted.substr(0, ends[1])};
    const bool last = ends[0] == std::string_view::npos || ends[1] == std::string_view::npos;
    if (lines[0] != lines[1] || last) {
      return {fmt::format("{}, line {}", part.name, number), shortened(lines[0]), shortened(lines[1])};
    }
    stored.remove_prefix(ends[0] + 1);
    wanted.remove_prefix(ends[1] + 1);
  }
}

std::string value_at(const Json& document, const std::string& path) {
  const Json::json_pointer pointer(path);
  return document.contains(pointer) ? shortened(document.at(pointer).dump()) : "";
}

// The first place in which two recipes differ.
RecordDifference recipe_difference(const Part& part, std::string_view stored) {
  const Result<Json> there = read_json(stored), here = read_json(part.value);
  if (there && here) {
    const Json patch = Json::diff(*there, *here);
    if (!patch.empty()) {
      const auto path = patch.front().at("path").get<std::string>();
      return {fmt::format("{}, {}", part.name, path), value_at(*there, path), value_at(*here, path)};
    }
  }
  return {part.name, shortened(stored), shortened(part.value)};
}

RecordDifference difference(const Part& part, std::string_view stored) {
  if (part.kind == "source") return text_difference(part, stored);
  if (part.kind == "recipe") return recipe_difference(part, stored);
  return {part.name, shortened(stored), shortened(part.value)};
}

}  // namespace

ArtifactRecord& ArtifactRecord::add(std::string_view name, std::string_view value) {
  text_.append(name).append(" ").append(std::to_string(value.size())).append(":").append(value).append("\n");
  return *this;
}

std::optional<std::vector<RecordField>> parse_record(std::string_view text) {
  std::vector<RecordField> fields;
  while (!text.empty()) {
    const size_t blank = text.find(' '), colon = text.find(':');
    if (blank == std::string_view::npos || colon == std::string_view::npos || colon < blank) return std::nullopt;
    size_t length = 0;
    const auto parsed = std::from_chars(text.data() + blank + 1, text.data() + colon, length);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + colon) return std::nullopt;
    const std::string_view rest = text.substr(colon + 1);
    if (length >= rest.size() || rest[length] != '\n') return std::nullopt;
    fields.push_back({text.substr(0, blank), rest.substr(0, length)});
    text = rest.substr(length + 1);
  }
  return fields;
}

std::vector<RecordDifference> record_differences(std::string_view stored, std::string_view wanted) {
  std::vector<Part> before = parts_of(stored);
  std::vector<RecordDifference> differences;
  for (const Part& part : parts_of(wanted)) {
    const auto same_name = [&](const Part& other) { return other.name == part.name; };
    // A name may come several times, as that of flags does: an equal one first.
    auto match = std::find_if(before.begin(), before.end(),
                              [&](const Part& other) { return same_name(other) && other.value == part.value; });
    const bool equal = match != before.end();
    if (!equal) match = std::find_if(before.begin(), before.end(), same_name);
    if (match == before.end()) {
      differences.push_back({part.name, "", shortened(part.value)});
      continue;
    }
    if (!equal) differences.push_back(difference(part, match->value));
    before.erase(match);
  }
  for (const Part& part : before) differences.push_back({part.name, shortened(part.value), ""});
  return differences;
}

}  // namespace epifuse
