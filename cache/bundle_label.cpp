#include "cache/bundle_label.h"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::cache {
namespace {

Error unreadable() { return Error{ErrorKind::wrong, "a label cannot be read"}; }

// The rest of the next line when it begins with `word`, and moves behind it.
bool take_line(std::string_view& text, std::string_view word, std::string_view& rest) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(word)) return false;
  rest = text.substr(word.size(), end - word.size());
  text.remove_prefix(end + 1);
  return true;
}

bool parse_dims(std::string_view list, std::map<std::string, int64_t>& dims) {
  while (!list.empty()) {
    const size_t equal = list.find('='), comma = std::min(list.find(','), list.size());
    if (equal == std::string_view::npos || equal == 0 || equal > comma) return false;
    int64_t value = 0;
    const char* const end = list.data() + comma;
    const auto [stop, failed] = std::from_chars(list.data() + equal + 1, end, value);
    if (failed != std::errc() || stop != end) return false;
    dims[std::string(list.substr(0, equal))] = value;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return true;
}

}  // namespace

std::string dims_text(const std::map<std::string, int64_t>& dims) {
  std::string text;
  for (const auto& [name, value] : dims) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

std::string BundleLabel::key_text() const {
  return fmt::format("kernel {}\ntarget {}\ndims {}\n", kernel, target, dims_text(dims));
}

std::string BundleLabel::text() const {
  std::string text = key_text();
  for (const std::string& name : left_out) text += fmt::format("without {}\n", name);
  if (!schedule.empty()) text += fmt::format("schedule {}\n", schedule);
  return text;
}

Result<BundleLabel> BundleLabel::parse(std::string_view text) {
  const std::string_view whole = text;
  BundleLabel label;
  std::string_view rest;
  if (!take_line(text, "kernel ", rest)) return unreadable();
  label.kernel = rest;
  if (!take_line(text, "target ", rest)) return unreadable();
  label.target = rest;
  if (!take_line(text, "dims ", rest) || !parse_dims(rest, label.dims)) return unreadable();
  while (take_line(text, "without ", rest)) label.left_out.emplace(rest);
  if (take_line(text, "schedule ", rest)) label.schedule = rest;
  // One label has one text, or two entries could have one.
  if (label.text() != whole) return unreadable();
  return label;
}

std::string describe(const BundleLabel& label) {
  std::string text = fmt::format("kernel '{}' for {}", label.kernel, label.target);
  if (!label.dims.empty()) text += fmt::format(" with {}", dims_text(label.dims));
  if (!label.left_out.empty()) text += fmt::format(", without {}", fmt::join(label.left_out, " and "));
  if (!label.schedule.empty()) text += fmt::format(", as {}", label.schedule);
  return text;
}

}  // namespace epifuse::cache
