// A page of docs/: its fenced blocks, and its tables between <!-- table: NAME --> and <!-- end -->.
#pragma once

#include <string>
#include <vector>

#include "tests/semantics/spec_support.h"

namespace epifuse::test {

struct FencedBlock {
  std::string label;  // "epi", "epi refused", "ebnf"
  std::string text;
  int line = 0;  // of its first line
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::vector<FencedBlock> fenced_blocks(const std::string& page) {
  std::vector<FencedBlock> blocks;
  bool inside = false;
  int number = 0;
  for (const std::string& line : lines_of(page)) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), "", number + 1});
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  CHECK_FALSE(inside);
  return blocks;
}

// What stands between the marks of that name, without the line ends around it.
inline std::string marked(const std::string& page, const std::string& name) {
  const std::string begin = "<!-- " + name + " -->", end = "<!-- end -->";
  const size_t at = page.find(begin);
  INFO(name);
  REQUIRE(at != std::string::npos);
  const size_t from = at + begin.size(), to = page.find(end, from);
  REQUIRE(to != std::string::npos);
  const std::string text = page.substr(from, to - from);
  const size_t first = text.find_first_not_of('\n');
  return text.substr(first, text.find_last_not_of('\n') + 1 - first);
}

// The cells of a table's rows, without its two head lines and without blanks around them. `\|` is a bar in a cell.
inline std::vector<std::vector<std::string>> table_rows(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : lines_of(table)) {
    std::vector<std::string> cells(1);
    for (size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '|' && line[i - 1] != '\\')
        cells.emplace_back();
      else
        cells.back() += line[i];
    }
    cells.pop_back();
    for (std::string& cell : cells) {
      const size_t first = cell.find_first_not_of(' ');
      cell = first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first);
    }
    rows.push_back(cells);
  }
  REQUIRE(rows.size() > 2);
  rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

}  // namespace epifuse::test
