#include "tests/support/random_output.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::test {
namespace {

bool is_fp8(const std::string& type) { return type == "e4m3" || type == "e5m2"; }

}  // namespace

void OutputMaker::elements(int64_t i, const Level& level, const Expression& value) {
  if (last_.level != nullptr && random_.one_in(3))
    if (const std::optional<Order> again = order(last_.type, *last_.level))
      return write(i, *last_.level, last_.type, *again, last_.value);
  Type type = random_.below(20) < 8 ? plain_type() : scaled_type(value);
  std::optional<Order> chosen = order(type, level);
  if (!chosen) {
    type = {"bf16"};
    chosen = order(type, level);
  }
  const Expression stored = random_.one_in(type.scaled() ? 4 : 12) ? accident(level, value) : value;
  std::string text = stored.text;
  // Transformer Engine's bytes are those of a value that was bf16 before. A plain type's scale is arithmetic.
  if (type.scaled() && random_.one_in(3)) text = fmt::format("cast({}, bf16)", text);
  if (is_fp8(type.name) && random_.one_in(2)) text = fmt::format("({}) * {}", text, input_(level).text);
  if (type.scaled()) last_ = {&level, type, text};
  write(i, level, type, *chosen, text);
}

OutputMaker::Type OutputMaker::plain_type() {
  return {random_.of<std::string>({"bf16", "bf16", "f32", "f16", "e4m3", "e5m2"})};
}

OutputMaker::Type OutputMaker::scaled_type(const Expression& value) {
  static const std::vector<Type> types = {{"mxfp8", 32, 1},         {"mxfp8_32x32", 32, 32}, {"mxfp4", 32, 1},
                                          {"nvfp4", 16, 1},         {"nvfp4_16x16", 16, 16}, {"fp8_1x128", 128, 1},
                                          {"fp8_128x128", 128, 128}};
  if (random_.below(4) == 0) return types[0];
  Type type = random_.of<Type>({types[0], types[2], types[3], types[5], types[0], types[2], types[3], types[5],
                                types[1], types[4], types[6], types[1], types[4], types[6]});
  const bool mx = type.name.starts_with("mx"), nv = type.name.starts_with("nv");
  std::vector<std::string> options;
  if (!type.narrow() && random_.one_in(3)) options.push_back("elem = e5m2");
  std::string rule = "up";
  if (random_.one_in(2)) {
    rule = mx   ? random_.of<std::string>({"floor", "even", "ceil"})
           : nv ? "torchao"
                : random_.of<std::string>({"te_f32", "deepgemm", "torchao", "vllm"});
    options.push_back("rule = " + rule);
  }
  const int64_t layout = random_.below(4);
  if (layout == 0) options.push_back("layout = columns_tma");
  if (layout == 1 && (mx || nv)) options.push_back("layout = blocked_128x4");
  if (random_.one_in(4)) options.push_back("nonfinite = te");
  if (nv && !random_.one_in(3)) options.push_back("amax = " + amax_input(rule, value));
  if (random_.one_in(5)) options.push_back("seed = " + seed_input());
  type.options = fmt::format("{}", fmt::join(options, ", "));
  return type;
}

// A maximum that fits the data more or less; now and then it does not.
std::string OutputMaker::amax_input(const std::string& rule, const Expression& value) {
  const std::string name = fmt::format("amax{}", amaxes_++);
  const bool over = !frame_.leading.empty() && random_.one_in(2);
  text_.declarations += fmt::format("  in {} : f32{}\n", name, over ? "[" + frame_.leading + "]" : "");
  if (over && frame_.leading != "E") return name;  // as many as launch values say
  std::vector<double>& given = spec_.given[name];
  for (size_t e = 0; e < (over ? spec_.counts->size() : 1); ++e) {
    const double fit = value.magnitude() == 0 ? 1 : value.magnitude() / static_cast<double>(random_.between(1, 16));
    const bool odd = random_.one_in(6);
    given.push_back(odd ? random_.of<double>({1e-3, 1e4, 3e38, 1e-38, rule == "up" ? 0 : 1e-30}) : fit);
  }
  return name;
}

std::string OutputMaker::seed_input() {
  if (seeds_ == 0 || random_.one_in(2)) text_.declarations += fmt::format("  in rng{} : i64[2]\n", seeds_++);
  return fmt::format("rng{}", seeds_ - 1);
}

std::optional<OutputMaker::Order> OutputMaker::order(const Type& type, const Level& level) {
  for (int tries = 0; tries < 8; ++tries) {
    Order order;
    order.transposed = random_.one_in(3);
    order.rows = frame_.alignment != 0 && random_.one_in(3) ? "P" : frame_.last_row;
    const std::string& second = order.transposed ? level.columns : order.rows;
    order.along_second = type.scaled() && random_.one_in(4) && second.find('*') == std::string::npos;
    if (fits(type, order)) return order;
  }
  return std::nullopt;
}

// No block may meet two groups, and no byte.
bool OutputMaker::fits(const Type& type, const Order& order) const {
  if (!type.scaled()) return true;
  const bool along_rows = order.transposed != order.along_second;
  const int64_t unit = along_rows ? type.along : type.across;
  const int64_t multiple = order.rows == "P" ? frame_.alignment : frame_.row_multiple;
  if (frame_.form == Form::ragged && multiple % unit != 0) return false;
  if (!type.narrow() || !order.transposed) return true;
  if (frame_.form == Form::ragged) return multiple % 2 == 0 && (order.rows == "P" || !frame_.slots);
  return frame_.row_count % 2 == 0;
}

// Blocks of zeros, of numbers that f32 hardly has, of such as are small beside a tensor's maximum, with infinities and
// with NaN: where an input is positive or large.
Expression OutputMaker::accident(const Level& level, const Expression& value) {
  const Expression by = input_(level);
  const std::string& v = value.text;
  const std::string edge = random_.of<std::string>({"-1", "0", "1"});
  const auto chosen = [&](const std::string& odd) {
    return Expression{fmt::format("select({} > {}, {}, {})", by.text, edge, odd, v), value.low, value.high};
  };
  switch (random_.below(6)) {
    case 0: return chosen(fmt::format("0 * ({})", v));
    case 1: return chosen(fmt::format("1e-40 * ({})", v));
    case 2: return chosen(fmt::format("1e-6 * ({})", v));
    case 3: return {fmt::format("{} + select({} > 2, 1 / (0 * {}), 0)", v, by.text, by.text), value.low, value.high};
    case 4: return {fmt::format("{} - select({} > 2, 1 / (0 * {}), 0)", v, by.text, by.text), value.low, value.high};
    default: return {fmt::format("{} + select({} > 2, 0 * log(-{}), 0)", v, by.text, by.text), value.low, value.high};
  }
}

void OutputMaker::write(int64_t i, const Level& level, const Type& type, const Order& order, const std::string& value) {
  const std::string front = frame_.rows.find(", ") == std::string::npos ? "" : frame_.leading + ", ";
  const std::string &second = order.transposed ? level.columns : order.rows,
                    &last = order.transposed ? order.rows : level.columns;
  const bool add = !type.scaled() && !is_fp8(type.name) && random_.one_in(5);
  // Now and then a weight gradient has one buffer for each group.
  const bool pointers =
      frame_.form == Form::ragged_depth && !order.transposed && type.name == "f32" && random_.one_in(2);
  std::string options = type.options;
  if (order.along_second) options += (options.empty() ? "along = " : ", along = ") + second;
  if (!options.empty()) options = "(" + options + ")";
  text_.outputs += fmt::format("  out out{} : {}{}{}[{}{}] {} {}\n", i, type.name, options, pointers ? "[E]" : "",
                               pointers ? "" : front, second + ", " + last, add ? "+=" : "=", value);
}

}  // namespace epifuse::test
