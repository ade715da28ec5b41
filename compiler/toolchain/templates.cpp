// A textual scan for includes: it needs no preprocessor, because it may only find too many.
#include "compiler/toolchain/templates.h"

#include <map>

#include "template_files.h"

namespace epifuse::toolchain {
namespace {

void skip_blanks(std::string_view& line) {
  const size_t text = line.find_first_not_of(" \t");
  line.remove_prefix(text == std::string_view::npos ? line.size() : text);
}

// The path of an `#include "path"` line, or empty.
std::string_view included_path(std::string_view line) {
  skip_blanks(line);
  if (!line.starts_with('#')) return {};
  line.remove_prefix(1);
  skip_blanks(line);
  constexpr std::string_view word = "include";
  if (!line.starts_with(word)) return {};
  line.remove_prefix(word.size());
  skip_blanks(line);
  if (!line.starts_with('"')) return {};
  const size_t end = line.find('"', 1);
  return end == std::string_view::npos ? std::string_view() : line.substr(1, end - 1);
}

std::vector<std::string> included_paths(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const std::string_view path = included_path(text.substr(0, end)); !path.empty()) paths.emplace_back(path);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return paths;
}

}  // namespace

const std::vector<Header>& embedded_templates() {
  static const std::vector<Header> headers = [] {
    std::vector<Header> made;
    for (const EmbeddedFile& file : template_files()) made.push_back({std::string(file.path), std::string(file.text)});
    return made;
  }();
  return headers;
}

std::vector<Header> headers_included_by(std::string_view source, const std::vector<Header>& available) {
  std::map<std::string_view, const Header*> by_path;
  for (const Header& header : available) by_path.emplace(header.path, &header);

  std::map<std::string_view, const Header*> included;
  std::vector<std::string> pending = included_paths(source);
  while (!pending.empty()) {
    const auto found = by_path.find(pending.back());
    pending.pop_back();
    if (found == by_path.end() || !included.insert(*found).second) continue;
    for (std::string& path : included_paths(found->second->text)) pending.push_back(std::move(path));
  }

  std::vector<Header> headers;
  for (const auto& [path, header] : included) headers.push_back(*header);
  return headers;
}

}  // namespace epifuse::toolchain
