#include "compiler/lowering/schedule_name.h"

#include <charconv>
#include <fmt/format.h>

namespace epifuse::lowering {
namespace {

constexpr std::string_view rows_by = "128x";

// Words between single spaces.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text), more_(true) {}

  bool more() const { return more_; }
  std::string_view next() {
    if (!more_) return {};
    const size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    more_ = space != std::string_view::npos;
    if (more_) rest_.remove_prefix(space + 1);
    return word;
  }

 private:
  std::string_view rest_;
  bool more_;
};

// As it would be printed: no sign, no zeros in front.
std::optional<int> parse_number(std::string_view word) {
  int value = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool plain = failed == std::errc() && end == word.data() + word.size() && value > 0 && word[0] != '0';
  return plain ? std::optional(value) : std::nullopt;
}

std::optional<int> parse_tile(std::string_view word) {
  if (!word.starts_with(rows_by)) return std::nullopt;
  return parse_number(word.substr(rows_by.size()));
}

bool take_option(std::string_view word, Words& words, ScheduleName& name) {
  const auto take_once = [](bool& flag) { return !std::exchange(flag, true); };
  if (word == "separate") return take_once(name.separate);
  if (word == "dynamic") return take_once(name.dynamic);
  if (word == "pairs") return take_once(name.pairs);
  std::optional<int>* number = word == "stages" ? &name.stages : word == "band" ? &name.band : nullptr;
  if (!number || *number) return false;
  *number = parse_number(words.next());
  return number->has_value();
}

}  // namespace

std::string schedule_name(const Schedule& schedule) {
  if (schedule.family == Family::pointwise) return "pointwise";
  if (schedule.family == Family::pass) return fmt::format("pass {}{}", rows_by, schedule.tile_columns);
  std::string name = fmt::format("{} {}{}", schedule.cooperative ? "cooperative" : "pingpong", rows_by,
                                 schedule.tile_columns * schedule.slices());
  if (schedule.separate) name += " separate";
  if (schedule.stages != schedule.usual_stages) name += fmt::format(" stages {}", schedule.stages);
  if (schedule.band != usual_band) name += fmt::format(" band {}", schedule.band);
  if (schedule.dynamic) name += " dynamic";
  if (schedule.pairs) name += " pairs";
  return name;
}

std::optional<ScheduleName> parse_schedule_name(std::string_view text) {
  ScheduleName name;
  Words words(text);
  const std::string_view family = words.next();
  if (family == "pointwise") {
    name.family = Family::pointwise;
    return words.more() ? std::nullopt : std::optional(name);
  }
  const std::optional<int> columns = parse_tile(words.next());
  if (!columns) return std::nullopt;
  name.tile_columns = *columns;
  if (family == "pass") {
    name.family = Family::pass;
    return words.more() ? std::nullopt : std::optional(name);
  }
  name.cooperative = family == "cooperative";
  if (!name.cooperative && family != "pingpong") return std::nullopt;
  if (name.cooperative) {
    if (*columns % 2 != 0) return std::nullopt;
    name.tile_columns /= 2;
  }
  while (words.more())
    if (!take_option(words.next(), words, name)) return std::nullopt;
  return name;
}

}  // namespace epifuse::lowering
