#include "tests/support/random_frame.h"

#include <fmt/format.h>

namespace epifuse::test {
namespace {

constexpr int64_t block = 32;  // of MX types, and columns of an accumulator block

class FrameMaker {
 public:
  FrameMaker(Random& random, SpecSize size, RandomSpec& spec, SpecText& text)
      : random_(random), tiny_(size == SpecSize::tiny), spec_(spec), text_(text) {}

  Frame run() {
    choose_form();
    choose_columns();
    dims();
    if (frame_.product)
      products();
    else
      input_as_value();
    return std::move(frame_);
  }

 private:
  void choose_form() {
    frame_.form = random_.of<Form>({Form::ragged, Form::ragged, Form::ragged, Form::ragged, Form::dense, Form::dense,
                                    Form::batched, Form::ragged_depth, Form::ragged_depth, Form::dense_depth});
    const bool rows_stay = frame_.form != Form::ragged_depth && frame_.form != Form::dense_depth;
    frame_.product = !rows_stay || !random_.one_in(7);
    frame_.two = frame_.product && random_.one_in(8);
    if (rows_stay && !frame_.two) {
      // One way of having halves, or the other, or none.
      const int64_t choice = random_.below(10);
      frame_.halves = choice < 4;
      frame_.doubled_inputs = choice >= 4 && choice < 7;
    }
    switch (frame_.form) {
      case Form::ragged: frame_.rows = frame_.last_row = "M", frame_.leading = "E"; break;
      case Form::dense: frame_.rows = frame_.last_row = "S"; break;
      case Form::batched: frame_.rows = "B, S", frame_.last_row = "S", frame_.leading = "B"; break;
      case Form::ragged_depth: frame_.rows = "E, N", frame_.last_row = "N", frame_.leading = "E"; break;
      case Form::dense_depth: frame_.rows = frame_.last_row = "N"; break;
    }
    frame_.columns = rows_stay ? "N" : "K";
  }

  void choose_columns() {
    if (frame_.split()) {
      frame_.piece =
          tiny_ ? random_.of<int64_t>({0, 0, 1, 8, 16, 32}) : random_.of<int64_t>({0, 0, 0, 1, 8, 32, 32, 64, 128});
    }
    const int64_t step = std::max<int64_t>(frame_.piece, frame_.piece != 0 || random_.one_in(2) ? block : 8);
    frame_.column_count = step * random_.between(1, std::max<int64_t>(1, (tiny_ ? 40 : 320) / step));
  }

  // ---- dimensions

  int64_t depth() { return 8 * random_.between(1, tiny_ ? 3 : 32); }

  void dims() {
    const bool rows_stay = frame_.columns == "N";
    const int64_t other = depth();  // K of a product over rows that stay, else N
    const int64_t groups = random_.between(1, tiny_ ? 4 : 6);
    const bool grouped = frame_.form == Form::ragged || frame_.form == Form::ragged_depth;
    text_.dims = fmt::format("  dim {}{}N = {}\n", grouped ? fmt::format("E = {}, ", groups) : "",
                             frame_.product ? fmt::format("K = {}, ", rows_stay ? other : frame_.column_count) : "",
                             rows_stay ? frame_.column_count : other);
    frame_.row_count = other;
    if (grouped) return group_clauses(groups);
    text_.dims += frame_.form == Form::batched ? "  dyn B, S\n" : "  dyn S\n";
    if (frame_.form == Form::batched) spec_.sizes["B"] = random_.between(1, 4);
    // Rows of transposed outputs are whole blocks more often than not.
    const bool whole_blocks = frame_.form == Form::dense || random_.one_in(2);
    spec_.sizes["S"] = whole_blocks ? block * random_.between(1, tiny_ ? 1 : 12) : random_.between(1, tiny_ ? 40 : 300);
    if (rows_stay) frame_.row_count = spec_.sizes["S"];
  }

  void group_clauses(int64_t groups) {
    const std::string sizes = random_.of<std::string>({"", " ends", " counts"}),
                      storage = random_.of<std::string>({"", " i32", " i64"});
    std::string places;
    const int64_t kind = random_.below(8);
    if (kind < 2) {
      frame_.row_multiple = random_.of<int64_t>({8, 32, 48, 128});
      places = fmt::format(" align {}", frame_.row_multiple);
    } else if (kind == 2) {
      places = " slot " + slot();
    }
    text_.dims += fmt::format("  group M by E{}{}{}\n", sizes, storage, places);
    if (frame_.form == Form::ragged && !random_.one_in(3)) {
      frame_.alignment =
          tiny_ ? random_.of<int64_t>({16, 32, 32, 64, 128}) : random_.of<int64_t>({16, 32, 64, 128, 128, 256});
      text_.dims += fmt::format("  group P = M align {}\n", frame_.alignment);
    }
    std::vector<int64_t> counts;
    for (int64_t group = 0; group < groups; ++group) {
      if (tiny_)
        counts.push_back(random_.one_in(4) ? random_.of<int64_t>({0, 1, 32}) : random_.between(0, 20));
      else
        counts.push_back(random_.one_in(4) ? random_.of<int64_t>({0, 1, 127, 128, 129, 256}) : random_.between(0, 300));
      if (slot_ != 0) counts.back() = std::min(counts.back(), slot_);
    }
    spec_.counts = std::move(counts);
    spec_.slack_rows = random_.one_in(2) ? 0 : random_.between(1, tiny_ ? 9 : 150);
  }

  // The size of a slot: a number, or a dimension that is known when the kernel is compiled, or when it is launched.
  std::string slot() {
    slot_ = tiny_ ? random_.of<int64_t>({16, 32, 40}) : random_.of<int64_t>({64, 128, 200, 320});
    frame_.slots = true;
    const int64_t kind = random_.below(3);
    if (kind != 2) frame_.row_multiple = slot_;
    if (kind == 0) return fmt::format("{}", slot_);
    if (kind == 1) text_.dims += fmt::format("  dim C = {}\n", slot_);
    if (kind == 2) text_.dims += "  dyn C\n", spec_.sizes["C"] = slot_;
    return "C";
  }

  // ---- products

  void declare(const std::string& name, const std::string& shape, std::string_view pointers = "") {
    text_.declarations += fmt::format("  in {} : {}{}[{}]\n", name, type_, pointers, shape);
  }

  // An operand over `outer, inner`; now and then it is one half of an input that has twice the inner dimension.
  std::string operand(const std::string& name, const std::string& outer, const std::string& inner) {
    if (!random_.one_in(6)) {
      declare(name, outer + ", " + inner);
      return name;
    }
    declare(name, outer + ", 2*" + inner);
    text_.statements += fmt::format("  {0}0, {0}1 = split({0})\n", name);
    return name + (random_.one_in(2) ? "0" : "1");
  }

  // A weight over its columns and K, with either of them last.
  std::string weight(const std::string& name, const std::string& columns) {
    const bool columns_last = random_.one_in(3);
    const std::string own = columns_last ? "K, " + columns : columns + ", K";
    if (frame_.form == Form::ragged && random_.one_in(8))
      declare(name, own, "[E]");
    else
      declare(name, frame_.leading.empty() ? own : frame_.leading + ", " + own);
    return name;
  }

  void products() {
    type_ = random_.one_in(3) ? "f16" : "bf16";
    std::vector<std::string> made;
    const std::string columns = frame_.halves ? frame_.whole() : frame_.columns;
    if (frame_.columns == "K") {
      const std::string rows = frame_.form == Form::ragged_depth ? "M" : "S";
      const std::string x = operand("x", rows, "K"), dy = operand("dy", rows, "N");
      made.push_back(fmt::format("gemm({}, {})", dy, x));
      if (frame_.two) made.push_back(fmt::format("gemm({}, {})", operand("dz", rows, "N"), x));
    } else {
      const std::string x = operand("x", frame_.rows, "K"), w = weight("w", columns);
      // split takes the last dimension, which is the weight's in gemm(x, w) alone.
      made.push_back(!frame_.halves && random_.one_in(3) ? fmt::format("gemm({}, {})", w, x)
                                                         : fmt::format("gemm({}, {})", x, w));
      if (frame_.two) made.push_back(second_product(x, columns));
    }
    text_.statements += "  h = " + made[0] + "\n";
    if (!frame_.two) {
      frame_.values = {{"h", -8, 8}};
    } else if (sum_) {
      text_.statements.replace(text_.statements.rfind("  h = "), std::string::npos,
                               fmt::format("  h = {} + {}\n", made[0], made[1]));
      frame_.values = {{"h", -12, 12}};
    } else {
      text_.statements += "  second = " + made[1] + "\n";
      frame_.values = {{"h", -8, 8}, {"second", -8, 8}};
    }
  }

  // Shares the rows, or is added to the first and may have its own.
  std::string second_product(const std::string& x, const std::string& columns) {
    sum_ = random_.one_in(2);
    const bool pointers = text_.declarations.find("][") != std::string::npos;
    const bool columns_last = text_.declarations.find("K, " + columns + "]") != std::string::npos;
    std::string other = x;
    if (sum_) {
      other = "x2";
      declare(other, frame_.rows + ", K");
    }
    const std::string own = columns_last ? "K, " + columns : columns + ", K";
    if (pointers)
      declare("w2", own, "[E]");
    else
      declare("w2", frame_.leading.empty() ? own : frame_.leading + ", " + own);
    return fmt::format("gemm({}, w2)", other);
  }

  void input_as_value() {
    type_ = random_.of<std::string>({"bf16", "f16", "f32"});
    declare("h", frame_.rows + ", " + (frame_.halves ? frame_.whole() : frame_.columns));
    frame_.values = {{"h", -8, 8}};
  }

  Random& random_;
  bool tiny_;
  RandomSpec& spec_;
  SpecText& text_;
  Frame frame_;
  std::string type_;
  int64_t slot_ = 0;  // rows of one; 0: there are none
  bool sum_ = false;
};

}  // namespace

Frame random_frame(Random& random, SpecSize size, RandomSpec& spec, SpecText& text) {
  return FrameMaker(random, size, spec, text).run();
}

}  // namespace epifuse::test
