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

// The path of an `#include "path"` line from its '#' on, or empty.
std::string_view included_path(std::string_view line) {
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

// From '#' to '#': there are few in a text, and a warm start reads all templates of a kernel in this way.
void collect_included_paths(std::string_view text, std::vector<std::string_view>& paths) {
  for (size_t mark = text.find('#'); mark != std::string_view::npos; mark = text.find('#', mark + 1)) {
    size_t start = mark;
    while (start > 0 && (text[start - 1] == ' ' || text[start - 1] == '\t')) --start;
    if (start > 0 && text[start - 1] != '\n') continue;
    const std::string_view path = included_path(text.substr(mark, text.find('\n', mark) - mark));
    if (!path.empty()) paths.push_back(path);
  }
}

}  // namespace

const std::vector<Header>& embedded_templates() {
  static const std::vector<Header> headers = [] {
    std::vector<Header> made;
    for (const EmbeddedFile& file : template_files()) made.push_back({file.path, file.text, file.sha256});
    return made;
  }();
  return headers;
}

std::vector<Header> headers_included_by(std::string_view source, const std::vector<Header>& available) {
  std::map<std::string_view, const Header*> by_path;
  for (const Header& header : available) by_path.emplace(header.path, &header);

  std::map<std::string_view, const Header*> included;
  std::vector<std::string_view> pending;
  collect_included_paths(source, pending);
  while (!pending.empty()) {
    const auto found = by_path.find(pending.back());
    pending.pop_back();
    if (found == by_path.end() || !included.insert(*found).second) continue;
    collect_included_paths(found->second->text, pending);
  }

  std::vector<Header> headers;
  for (const auto& [path, header] : included) headers.push_back(*header);
  return headers;
}

}  // namespace epifuse::toolchain
