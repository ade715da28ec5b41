#include "tests/support/random_spec.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::test {
namespace {

// splitmix64: the standard's distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  int64_t below(int64_t count) { return static_cast<int64_t>(next() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool one_in(int64_t count) { return below(count) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

// An expression and what its values stay within.
struct Expression {
  std::string text;
  double low = 0, high = 0;
  bool exact = false;  // an input or a number: every machine has the same f32

  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
};

constexpr double tame = 64;         // no value grows beyond
constexpr int64_t block = 32;       // of MX types, and columns of an accumulator block
constexpr int64_t slot_limit = 32;  // KiB of full-tile inputs for each block: what leaves room for operand stages

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) { spec_.seed = seed; }

  RandomSpec run() {
    choose_shape();
    choose_rows();
    values();
    outputs();
    spec_.text = "# seed " + std::to_string(spec_.seed) + "\n" + functions_ + "\nkernel random_" +
                 std::to_string(spec_.seed) + " {\n" + dims_ + declarations_ + statements_ + outputs_ + "}\n";
    return std::move(spec_);
  }

 private:
  // ---- shapes

  void choose_shape() {
    ragged_ = !random_.one_in(4);
    halves_ = random_.one_in(2);
    piece_ = halves_ ? random_.of<int64_t>({0, 0, 0, 1, 8, 32, 64, 128}) : 0;
    const int64_t step = piece_ > block ? piece_ : piece_ != 0 || random_.one_in(2) ? block : 8;
    columns_ = step * random_.between(1, std::max<int64_t>(1, 320 / step));
    whole_ = halves_ ? "2*N" : "N";
    dims_ = fmt::format("  dim {}K = {}, N = {}\n", ragged_ ? fmt::format("E = {}, ", random_.between(1, 6)) : "",
                        8 * random_.between(1, 32), columns_);
    const std::string type = random_.one_in(3) ? "f16" : "bf16";
    declarations_ =
        fmt::format("  in x : {}[{}, K]\n  in w : {}[{}{}, K]\n", type, rows(), type, ragged_ ? "E, " : "", whole_);
  }

  std::string rows() const { return ragged_ ? "M" : "S"; }

  void choose_rows() {
    if (!ragged_) {
      dims_ += "  dyn S\n";
      spec_.sizes["S"] = block * random_.between(1, 12);  // whole blocks for transposed MX outputs
      return;
    }
    const int64_t align = random_.one_in(4) ? random_.of<int64_t>({8, 32, 128}) : 1;
    dims_ += fmt::format("  group M by E{}{}{}\n", random_.of<std::string>({"", " ends", " counts"}),
                         random_.of<std::string>({"", " i32", " i64"}),
                         align == 1 ? std::string() : fmt::format(" align {}", align));
    if (!random_.one_in(3)) {
      alignment_ = random_.of<int64_t>({32, 64, 128, 128, 256});
      dims_ += fmt::format("  group P = M align {}\n", alignment_);
    }
    std::vector<int64_t> counts;
    const int64_t groups = std::stoll(dims_.substr(dims_.find("E = ") + 4));
    for (int64_t group = 0; group < groups; ++group)
      counts.push_back(random_.one_in(4) ? random_.of<int64_t>({0, 1, 127, 128, 129, 256}) : random_.between(0, 300));
    spec_.counts = std::move(counts);
    spec_.slack_rows = random_.one_in(2) ? 0 : random_.between(1, 150);
  }

  // ---- leaves

  std::string fresh_name() {
    // Words of C++ and of the templates: a spec may use any of them.
    static const std::vector<std::string> words = {
        "lane", "tile", "sums",   "p",    "block", "columns", "int",     "i",     "float",  "double",
        "this", "Plan", "inputs", "slot", "c",     "value0",  "scratch", "lane0", "rows_0", "first_column"};
    std::string name = words[static_cast<size_t>(names_) % words.size()];
    if (static_cast<size_t>(names_) >= words.size()) name += std::to_string(names_);
    ++names_;
    return name;
  }

  std::string number() {
    // A few digits, so that many are no f32.
    const double value = static_cast<double>(random_.between(1, 300)) / 100;
    return fmt::format("{}", value);
  }

  // An input over some of the names that values of this level have. `over`: the columns of the level.
  Expression input(const std::string& over) {
    const std::string type = random_.of<std::string>({"f32", "f32", "bf16", "bf16", "f16", "e4m3", "e5m2"});
    std::vector<std::string> shapes = {"", rows(), over, rows() + ", " + over};
    if (ragged_) shapes.insert(shapes.end(), {"E", "E, " + over});
    std::string shape = random_.of(shapes);
    if (shape == rows() + ", " + over && !take_slot(type, over)) shape = rows();
    const std::string name = fresh_name();
    const bool optional = random_.one_in(6);
    declarations_ +=
        fmt::format("  in {} : {}{}{}\n", name, type, shape.empty() ? "" : "[" + shape + "]", optional ? " = 1.5" : "");
    if (optional && random_.one_in(2)) spec_.left_out.insert(name);
    return {name, -6, 6, true};
  }

  // Whether one more full-tile input may be had.
  bool take_slot(const std::string& type, const std::string& over) {
    const bool doubled = over != "N";
    if (doubled && piece_ % block != 0) return false;  // not lowered
    const int64_t bytes = type == "f32" ? 4 : type == "bf16" || type == "f16" ? 2 : 1;
    if (columns_ * (doubled ? 2 : 1) * bytes % 16 != 0) return false;  // copies need rows of 16 bytes
    const int64_t kibibytes = 4 * bytes * (doubled ? 2 : 1);
    if (slot_ + kibibytes > slot_limit) return false;
    slot_ += kibibytes;
    return true;
  }

  Expression leaf(const std::string& over, const std::vector<Expression>& known) {
    switch (random_.below(8)) {
      case 0: {
        const double value = std::stod(number());
        return {fmt::format("{}", value), value, value, true};
      }
      case 1: {
        if (params_ >= 3) break;
        const std::string name = fmt::format("param{}", params_++);
        dims_ += fmt::format("  param {} = {}\n", name, number());
        return {name, 0, 3, true};
      }
      case 2: {
        const std::string name = fmt::format("const{}", constants_++);
        dims_ += fmt::format("  const {} = {}\n", name, number());
        return {name, 0, 3, true};
      }
      case 3:
      case 4:
        if (inputs_ >= 6) break;
        ++inputs_;
        return remember(over, input(over));
      case 5: {
        const std::vector<Expression>& inputs = inputs_over_[over];
        if (!inputs.empty()) return random_.of(inputs);
        break;
      }
      default: break;
    }
    return random_.of(known);
  }

  Expression remember(const std::string& over, Expression made) {
    inputs_over_[over].push_back(made);
    return made;
  }

  // ---- operations

  // Inside +-tame: what grew beyond is bent back by a function that loses no digits.
  static Expression tamed(Expression e) {
    if (e.magnitude() <= tame) return e;
    if (e.low >= 0) return {fmt::format("min({}, 40)", e.text), e.low, 40};
    return {fmt::format("clamp({}, -40, 40)", e.text), -40, 40};
  }

  static Expression positive(const Expression& e, std::string_view offset, double least) {
    return {fmt::format("(abs({}) + {})", e.text, offset), least, e.magnitude() + least};
  }

  Expression operation(const std::string& over, const std::vector<Expression>& known, int depth) {
    if (depth == 0 || budget_-- <= 0) return leaf(over, known);
    auto deep = [&] { return operation(over, known, depth - 1); };
    // The second argument is shallower, or trees would have thousands of nodes.
    auto shallow = [&] { return operation(over, known, std::min(depth - 1, static_cast<int>(random_.below(3)))); };
    switch (random_.below(22)) {
      case 0:
      case 1: {
        const Expression a = deep(), b = shallow();
        return tamed({fmt::format("({} + {})", a.text, b.text), a.low + b.low, a.high + b.high});
      }
      case 2: {
        const Expression a = deep(), b = shallow();
        return tamed({fmt::format("({} - {})", a.text, b.text), a.low - b.high, a.high - b.low});
      }
      case 3:
      case 4: {
        const Expression a = deep(), b = shallow();
        const double most = a.magnitude() * b.magnitude();
        return tamed({fmt::format("({} * {})", a.text, b.text), -most, most});
      }
      case 5: {
        const Expression a = deep(), b = positive(shallow(), "0.5", 0.5);
        return tamed({fmt::format("({} / {})", a.text, b.text), -2 * a.magnitude(), 2 * a.magnitude()});
      }
      case 6: {
        const Expression a = deep();
        return {fmt::format("(-{})", a.text), -a.high, -a.low};
      }
      case 7: {
        const Expression a = deep();
        return {fmt::format("abs({})", a.text), 0, a.magnitude()};
      }
      case 8: {
        const Expression a = deep(), b = shallow();
        return {fmt::format("min({}, {})", a.text, b.text), std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      case 9: {
        const Expression a = deep(), b = shallow();
        return {fmt::format("max({}, {})", a.text, b.text), std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      case 10: {
        const Expression a = deep();
        return {fmt::format("clamp({}, -{}, 2.5)", a.text, number()), -3, 2.5};
      }
      case 11: {
        const Expression a = deep();
        return {fmt::format("exp(min({}, 3))", a.text), 0, 21};
      }
      case 12: {
        const Expression a = deep();
        return {fmt::format("log{}", positive(a, "0.5", 0.5).text), -1, 5};
      }
      case 13: return bounded("tanh", deep(), -1, 1);
      case 14: return bounded("sigmoid", deep(), 0, 1);
      case 15: return bounded("erf", deep(), -1, 1);
      case 16: return bounded("erfc", deep(), 0, 2);
      case 17: {
        const Expression a = positive(deep(), "0.1", 0.1);
        return {"sqrt" + a.text, 0, std::sqrt(a.high)};
      }
      case 18: return {"rsqrt" + positive(deep(), "0.1", 0.1).text, 0, 3.2};
      case 19: {
        const Expression a = deep();
        return {fmt::format("cast({}, {})", a.text, random_.of<std::string>({"bf16", "f16", "e4m3", "e5m2", "f32"})),
                1.1 * a.low, 1.1 * a.high};
      }
      case 20: return choice(over, known, deep(), shallow());
      default: {
        const Expression a = deep(), b = shallow();
        const double most = std::max(1.0, a.magnitude()) * b.magnitude();
        return tamed({fmt::format("gate({}, {})", a.text, b.text), -most, most});
      }
    }
  }

  static Expression bounded(std::string_view function, const Expression& argument, double low, double high) {
    return {fmt::format("{}({})", function, argument.text), low, high};
  }

  // A branch by exact numbers; or at zero, where both branches meet; or by an input that is NaN where another is
  // negative.
  Expression choice(const std::string& over, const std::vector<Expression>& known, const Expression& a,
                    const Expression& b) {
    Expression left = leaf(over, known), right = leaf(over, known);
    const double low = std::min(a.low, b.low), high = std::max(a.high, b.high);
    if (!left.exact || !right.exact)
      return tamed(
          {fmt::format("select({} > 0, {}, 0.125 * {})", a.text, a.text, a.text), a.low, std::max(0., a.high)});
    if (random_.one_in(12) && left.low < 0 && !over.empty()) {
      return {fmt::format("({} + 0 * log({}))", a.text, left.text), a.low, a.high};
    }
    static const std::vector<std::string> comparisons = {"<", "<=", ">", ">=", "==", "!="};
    return {fmt::format("select({} {} {}, {}, {})", left.text, random_.of(comparisons), right.text, a.text, b.text),
            low, high};
  }

  // ---- values and outputs

  void statement(const std::string& name, const std::string& text) { statements_ += "  " + name + " = " + text + "\n"; }

  void values() {
    functions_ = "fn gate(a, b) = a * sigmoid(b)\n";
    whole_values_ = {{"h", -8, 8}};
    // split takes the last dimension, which is the weight's in gemm(x, w) alone.
    statement("h", !halves_ && random_.one_in(3) ? "gemm(w, x)" : "gemm(x, w)");
    grow(whole_, whole_values_, "whole", halves_ ? 4 : 12, halves_ ? 1 : 3);
    if (!halves_) return;
    const Expression source =
        whole_values_[static_cast<size_t>(random_.below(static_cast<int64_t>(whole_values_.size())))];
    statement("first, second", fmt::format("split({}{})", source.text, piece_ == 0 ? "" : fmt::format(", {}", piece_)));
    half_values_ = {{"first", source.low, source.high}, {"second", source.low, source.high}};
    grow("N", half_values_, "half", 12, 3);
  }

  void grow(const std::string& over, std::vector<Expression>& known, const std::string& name, int depth, int64_t most) {
    const int64_t count = random_.between(1, most);
    for (int64_t i = 0; i < count; ++i) {
      budget_ = 30;
      // Something of the GEMM is in every value, and comes first, so that the value's columns are its last dimension.
      const Expression made = operation(over, known, static_cast<int>(random_.between(1, depth)));
      const Expression mixed = tamed({fmt::format("0.5 * {} + {}", known.front().text, made.text),
                                      made.low - known.front().magnitude(), made.high + known.front().magnitude()});
      statement(name + std::to_string(i), mixed.text);
      known.push_back({name + std::to_string(i), mixed.low, mixed.high});
    }
  }

  void outputs() {
    const int64_t count = random_.between(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      const bool doubled = halves_ && random_.one_in(3);
      const std::vector<Expression>& pool = halves_ && !doubled ? half_values_ : whole_values_;
      // The last values hang on all before them.
      const Expression& value = random_.one_in(3) ? random_.of(pool) : pool.back();
      std::string type = random_.of<std::string>(
          {"bf16", "bf16", "f32", "f16", "e4m3", "e5m2", "mxfp8", "mxfp8", "mxfp8(elem = e5m2)"});
      std::string row_names = alignment_ != 0 && random_.one_in(3) ? "P" : rows();
      bool transposed = random_.one_in(3);
      const bool scaled = type.starts_with("mx");
      if (doubled && piece_ == 1) transposed = false;
      if (scaled && doubled && (piece_ % block != 0 || columns_ % block != 0)) type = "bf16";
      if (type.starts_with("mx") && transposed && ragged_) {
        if (alignment_ == 0) transposed = false;
        row_names = alignment_ == 0 ? rows() : "P";
      }
      const std::string columns = doubled || !halves_ ? whole_ : "N";
      outputs_ += fmt::format("  out out{} : {}[{}] = {}\n", i, type,
                              transposed ? columns + ", " + row_names : row_names + ", " + columns, value.text);
    }
  }

  Random random_;
  RandomSpec spec_;
  bool ragged_ = true, halves_ = false;
  int64_t piece_ = 0, columns_ = 0, alignment_ = 0, slot_ = 0;
  int names_ = 0, params_ = 0, constants_ = 0, inputs_ = 0, budget_ = 0;
  std::string whole_, functions_, dims_, declarations_, statements_, outputs_;
  std::map<std::string, std::vector<Expression>> inputs_over_;
  std::vector<Expression> whole_values_, half_values_;
};

}  // namespace

std::string RandomSpec::describe() const {
  std::string text = fmt::format("seed {}\n{}", seed, this->text);
  if (counts) text += fmt::format("counts {}, slack {}\n", fmt::join(*counts, ","), slack_rows);
  for (const auto& [name, size] : sizes) text += fmt::format("{} = {}\n", name, size);
  if (!left_out.empty()) text += fmt::format("left out: {}\n", fmt::join(left_out, ", "));
  return text;
}

RandomSpec random_spec(uint64_t seed) { return Generator(seed).run(); }

}  // namespace epifuse::test
