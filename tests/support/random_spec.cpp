#include "tests/support/random_spec.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/random_output.h"

namespace epifuse::test {
namespace {

constexpr int64_t block = 32;       // of MX types
constexpr int64_t slot_limit = 32;  // KiB of full-tile inputs for each block: what leaves room for operand stages

class Generator {
 public:
  Generator(uint64_t seed, SpecSize size) : random_(seed), tiny_(size == SpecSize::tiny) {
    spec_.seed = seed;
    text_.functions = "fn gate(a, b) = a * sigmoid(b)\n";
    frame_ = random_frame(random_, size, spec_, text_);
  }

  RandomSpec run() {
    values();
    if (random_.one_in(6)) rotate(levels_[static_cast<size_t>(random_.below(static_cast<int64_t>(levels_.size())))]);
    outputs();
    spec_.text = "# seed " + std::to_string(spec_.seed) + "\n" + text_.functions + "\nkernel random_" +
                 std::to_string(spec_.seed) + " {\n" + text_.dims + text_.declarations + text_.statements +
                 text_.outputs + "}\n";
    return std::move(spec_);
  }

 private:
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

  // Shapes that an input of a level may have: over any of its names, with what leads them.
  std::vector<std::string> input_shapes(const std::string& columns) const {
    const std::string tile = frame_.rows + ", " + columns;
    std::vector<std::string> shapes = {"", columns, tile, frame_.rows};
    if (!frame_.leading.empty()) shapes.insert(shapes.end(), {frame_.leading, frame_.leading + ", " + columns});
    return shapes;
  }

  Expression input(const Level& level) {
    const std::string type = random_.of<std::string>({"f32", "f32", "bf16", "bf16", "f16", "e4m3", "e5m2"});
    std::string shape = random_.of(input_shapes(level.columns));
    if (shape == frame_.rows + ", " + level.columns && !take_slot(type, level)) shape = frame_.rows;
    const std::string name = fresh_name();
    const bool optional = random_.one_in(6);
    text_.declarations +=
        fmt::format("  in {} : {}{}{}\n", name, type, shape.empty() ? "" : "[" + shape + "]", optional ? " = 1.5" : "");
    if (optional && random_.one_in(2)) spec_.left_out.insert(name);
    return {name, -6, 6, true};
  }

  // Whether one more full-tile input may be had.
  bool take_slot(const std::string& type, const Level& level) {
    if (tiny_) return true;  // the limits are those of a device
    const int64_t bytes = type == "f32" ? 4 : type == "bf16" || type == "f16" ? 2 : 1;
    // Halves that alternate in small pieces are taken apart in pairs of 16 bits.
    if (level.doubled && frame_.piece % block != 0 && bytes != 2) return false;
    if (frame_.column_count * (level.doubled ? 2 : 1) * bytes % 16 != 0) return false;  // copies need rows of 16 bytes
    const int64_t kibibytes = 4 * bytes * (level.doubled ? 2 : 1);
    if (slot_ + kibibytes > slot_limit) return false;
    slot_ += kibibytes;
    return true;
  }

  Expression leaf(Level& level) {
    switch (random_.below(8)) {
      case 0: {
        const std::string text = random_number(random_);
        return {text, std::stod(text), std::stod(text), true};
      }
      case 1: {
        if (params_ >= 3) break;
        const std::string name = fmt::format("param{}", params_++);
        text_.dims += fmt::format("  param {} = {}\n", name, random_number(random_));
        return {name, 0, 3, true};
      }
      case 2: {
        const std::string name = fmt::format("const{}", constants_++);
        text_.dims += fmt::format("  const {} = {}\n", name, random_number(random_));
        return {name, 0, 3, true};
      }
      case 3:
      case 4:
        if (inputs_ >= 6) break;
        ++inputs_;
        level.inputs.push_back(input(level));
        return level.inputs.back();
      case 5:
        if (!level.inputs.empty()) return random_.of(level.inputs);
        break;
      default: break;
    }
    return random_.of(level.values);
  }

  // ---- values

  void statement(const std::string& name, const std::string& text) {
    text_.statements += "  " + name + " = " + text + "\n";
  }
  std::string in_pieces(const std::string& arguments) const {
    return arguments + (frame_.piece == 0 ? "" : fmt::format(", {}", frame_.piece));
  }

  void values() {
    differentiated_ = frame_.doubled_inputs || random_.one_in(3);
    Level own = {frame_.halves ? frame_.whole() : frame_.columns, frame_.halves, frame_.values, {}};
    if (frame_.halves) {
      grow(own, "whole", 4, 1, false);
      const Expression source = random_.of(own.values);
      statement("first, second", fmt::format("split({})", in_pieces(source.text)));
      Level halves = {
          frame_.columns, false, {{"first", source.low, source.high}, {"second", source.low, source.high}}, {}};
      grow(halves, "half", 12, 3, false);
      if (differentiated_) gradient(halves, own, source);
      join(halves, own);
      levels_ = {std::move(halves), std::move(own)};
    } else if (frame_.doubled_inputs) {
      backward(own);
    } else {
      grow(own, "value", 12, 3, false);
      if (differentiated_) gradient(own, own, own.values[0]);
      levels_ = {std::move(own)};
    }
  }

  // New values of a level. Something of the first value is in each, and comes first, so that its columns are the last
  // dimension.
  void grow(Level& level, const std::string& name, int depth, int64_t most, bool smooth) {
    ExpressionMaker maker(random_, [&] { return leaf(level); });
    maker.smooth = smooth;
    maker.nan = !differentiated_;
    const int64_t count = random_.between(1, most);
    for (int64_t i = 0; i < count; ++i) {
      const Expression made = maker.make(static_cast<int>(random_.between(1, depth)));
      const Expression& front = level.values.front();
      const Expression mixed = tamed({fmt::format("0.5 * {} + {}", front.text, made.text), made.low - front.magnitude(),
                                      made.high + front.magnitude()});
      statement(name + std::to_string(i), mixed.text);
      level.values.push_back({name + std::to_string(i), mixed.low, mixed.high});
    }
  }

  // The last value of a level, differentiated by something it hangs on, which is of the level `of`.
  void gradient(Level& level, Level& of, const Expression& by) {
    const std::string f = level.values.back().text;
    if (f == by.text) return;
    statement("slope", fmt::format("grad({}, {}, {})", f, random_.of(level.values).text, by.text));
    of.values.push_back(bent("slope"));
  }

  // A gradient may be as large as it likes; most are bent back, so that types of 8 bits hold them.
  Expression bent(const std::string& name) {
    if (random_.one_in(3)) return {name, -1000, 1000};
    statement("bent_" + name, fmt::format("clamp({}, -40, 40)", name));
    return {"bent_" + name, -40, 40};
  }

  void join(const Level& halves, Level& whole) {
    if (!random_.one_in(3)) return;
    const Expression &a = random_.of(halves.values), &b = random_.of(halves.values);
    statement("joined", fmt::format("join({})", in_pieces(a.text + ", " + b.text)));
    whole.values.push_back({"joined", std::min(a.low, b.low), std::max(a.high, b.high)});
  }

  // The activation's backward in the epilogue: halves of a saved input, a loss gradient from the product, and gradients
  // by the saved input and by an input that weighs the activation.
  void backward(Level own) {
    take_slot("bf16", {frame_.whole(), true, {}, {}});
    text_.declarations += fmt::format("  in saved : bf16[{}, {}]\n", frame_.rows, frame_.whole());
    text_.declarations += fmt::format("  in prob : f32[{}]{}\n", frame_.rows, random_.one_in(3) ? " = 1" : "");
    statement("first, second", fmt::format("split({})", in_pieces("saved")));
    Level halves = {frame_.columns, false, {{"first", -6, 6}, {"second", -6, 6}}, {}};
    grow(halves, "part", 8, 2, random_.one_in(2));
    grow(own, "loss", 4, 1, false);
    statement("act", fmt::format("({}) * prob", halves.values.back().text));
    statement("slope, dprob", fmt::format("grad(act, {}, saved, prob)", own.values.back().text));
    Level whole = {frame_.whole(), true, {bent("slope")}, {}};
    own.values.push_back(bent("dprob"));
    if (random_.one_in(2)) own.values.push_back({"act * " + own.values.front().text, -400, 400});
    levels_ = {std::move(own), std::move(whole)};
  }

  // Values turned along a dimension, with what comes behind.
  void rotate(Level& level) {
    const Expression& value = random_.one_in(3) ? random_.of(level.values) : level.values.back();
    const std::string along = random_.one_in(2) ? level.columns : frame_.last_row;
    const std::string signs = random_.one_in(2) ? "" : random_.of<std::string>({", 0xD7E8", ", 1", ", 65535"});
    const double most = 4 * value.magnitude();
    statement("turned", fmt::format("hadamard({}, {}{})", value.text, along, signs));
    Expression behind = {"turned", -most, most};
    if (random_.one_in(3)) behind = {"cast(turned, bf16)", -1.1 * most, 1.1 * most};
    if (random_.one_in(3)) behind = {"4 * " + behind.text, -4 * most, 4 * most};
    behind = tamed(behind);
    statement("behind", behind.text);
    behind.text = "behind";
    level.values.push_back(behind);
    if (random_.one_in(2)) return;
    ExpressionMaker maker(random_, [&] { return leaf(level); });
    maker.nan = false;
    const Expression made = maker.make(static_cast<int>(random_.between(1, 4)));
    const Expression mixed = tamed(
        {fmt::format("0.5 * behind + {}", made.text), made.low - behind.magnitude(), made.high + behind.magnitude()});
    statement("mixed", mixed.text);
    level.values.push_back({"mixed", mixed.low, mixed.high});
  }

  // ---- outputs

  void outputs() {
    OutputMaker maker(random_, frame_, spec_, text_, [this](const Level& level) { return input(level); });
    const int64_t count = random_.between(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      const Level& level = levels_.size() == 2 && random_.one_in(2) ? levels_[1] : levels_[0];
      // The last values hang on all before them.
      const Expression& value = random_.one_in(3) ? random_.of(level.values) : level.values.back();
      if (random_.one_in(3))
        reduction(i, level, value);
      else
        maker.elements(i, level, value);
    }
    if (frame_.alignment != 0 && random_.one_in(3)) text_.outputs += "  out ends : i32[E] = P.ends\n";
  }

  void reduction(int64_t i, const Level& level, const Expression& value) {
    std::vector<std::string> shapes = {"", level.columns, "[rows]"};
    if (!frame_.leading.empty()) shapes.insert(shapes.end(), {frame_.leading, frame_.leading + ", " + level.columns});
    std::string shape = random_.of(shapes);
    if (shape == "[rows]") shape = frame_.rows;
    const bool sum = !random_.one_in(3);
    const bool add = sum && random_.one_in(4);
    const std::string type = random_.one_in(4) ? "bf16" : "f32";
    text_.outputs += fmt::format("  out out{} : {}{} {} {}({})\n", i, type, shape.empty() ? "" : "[" + shape + "]",
                                 add ? "+=" : "=", sum ? "sum" : "amax", value.text);
  }

  Random random_;
  const bool tiny_;
  RandomSpec spec_;
  SpecText text_;
  Frame frame_;
  std::vector<Level> levels_;  // whose values may be stored
  int64_t slot_ = 0;
  int names_ = 0, params_ = 0, constants_ = 0, inputs_ = 0;
  bool differentiated_ = false;
};

}  // namespace

std::string RandomSpec::describe() const {
  std::string text = fmt::format("seed {}\n{}", seed, this->text);
  if (counts) text += fmt::format("counts {}, slack {}\n", fmt::join(*counts, ","), slack_rows);
  for (const auto& [name, values] : given) text += fmt::format("{} = {}\n", name, fmt::join(values, ","));
  for (const auto& [name, size] : sizes) text += fmt::format("{} = {}\n", name, size);
  if (!left_out.empty()) text += fmt::format("left out: {}\n", fmt::join(left_out, ", "));
  return text;
}

RandomSpec random_spec(uint64_t seed, SpecSize size) { return Generator(seed, size).run(); }

}  // namespace epifuse::test
