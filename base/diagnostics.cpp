#include "base/diagnostics.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace epifuse {
namespace {

LineColumn place(const Span& span, size_t offset) {
  LineColumn at;
  if (!span.file) return at;
  const std::string& text = span.file->text;
  const size_t stop = std::min(offset, text.size());
  at.line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(stop), '\n'));
  const size_t newline = stop == 0 ? std::string::npos : text.rfind('\n', stop - 1);
  at.column = 1 + static_cast<int>(stop - (newline == std::string::npos ? 0 : newline + 1));
  return at;
}

std::string_view line_of(const Span& span) {
  const std::string_view text = span.file->text;
  const size_t at = std::min(span.offset, text.size());
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return text.substr(begin, std::min(text.find('\n', at), text.size()) - begin);
}

// A tab keeps its place in the caret line, so that the caret stands under its character in any terminal.
std::string blanks_like(std::string_view text) {
  std::string blanks(text);
  for (char& c : blanks)
    if (c != '\t') c = ' ';
  return blanks;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

LineColumn Span::begin() const { return place(*this, offset); }
LineColumn Span::end() const { return place(*this, offset + length); }
std::string_view Span::text() const {
  return file ? std::string_view(file->text).substr(std::min(offset, file->text.size()), length) : std::string_view();
}

void Diagnostics::error(const Span& where, std::string message, std::string hint) {
  list_.push_back({Severity::error, where, std::move(message), std::move(hint)});
  ++errors_;
}

void Diagnostics::too_large(const Span& where, std::string message, std::string hint) {
  error(where, std::move(message), std::move(hint));
  list_.back().of_sizes = true;
}

void Diagnostics::warning(const Span& where, std::string message, std::string hint) {
  list_.push_back({Severity::warning, where, std::move(message), std::move(hint)});
}

std::string Diagnostics::print() const {
  std::vector<const Diagnostic*> order;
  for (const Diagnostic& d : list_) order.push_back(&d);
  std::stable_sort(order.begin(), order.end(), [](const Diagnostic* a, const Diagnostic* b) {
    return a->where.file == b->where.file && a->where.offset < b->where.offset;
  });
  std::string out;
  for (const Diagnostic* d : order) {
    const char* kind = d->severity == Severity::error ? "error" : "warning";
    if (!d->where.file) {
      out += fmt::format("{}: {}\n", kind, d->message);
    } else {
      const LineColumn at = d->where.begin();
      const std::string_view line = line_of(d->where);
      const size_t column = std::min<size_t>(static_cast<size_t>(at.column) - 1, line.size());
      const size_t width = std::max<size_t>(1, std::min(d->where.length, line.size() - column));
      const std::string number = std::to_string(at.line);
      out += fmt::format("{}:{}:{}: {}: {}\n", d->where.file->name, at.line, at.column, kind, d->message);
      out += fmt::format("  {} | {}\n", number, line);
      out += fmt::format("  {} | {}^{}\n", std::string(number.size(), ' '), blanks_like(line.substr(0, column)),
                         std::string(width - 1, '~'));
    }
    if (!d->hint.empty()) out += fmt::format("    hint: {}\n", d->hint);
  }
  return out;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  // Of equal ones the one that is made of the word's letters: rellu is relu rather than reglu.
  const auto letters_missing = [&](const std::string& name) {
    return std::count_if(name.begin(), name.end(), [&](char c) { return word.find(c) == std::string_view::npos; });
  };
  size_t best_distance = std::max<size_t>(1, word.size() / 3);
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance > best_distance) continue;
    if (best && distance == best_distance && letters_missing(name) >= letters_missing(*best)) continue;
    best = &name;
    best_distance = distance;
  }
  return best ? *best : std::string();
}

}  // namespace epifuse
