#include "tests/gpu/support/format_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::test {
namespace {

struct Kind {
  std::string name;
  int block;
  bool square;
  std::vector<std::string> elements;  // with an option
  std::vector<std::string> rules;
  std::vector<std::string> layouts;
};

const std::vector<std::string> fp8_elements = {"e4m3", "e5m2"};
const std::vector<std::string> mx_rules = {"up", "floor", "even", "ceil"}, nv_rules = {"up", "torchao"};
const std::vector<std::string> fp8_rules = {"up", "te_f32", "deepgemm", "torchao", "vllm"};
const std::vector<std::string> byte_layouts = {"rows", "columns_tma", "blocked_128x4"};
const std::vector<std::string> f32_layouts = {"rows", "columns_tma"};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"mxfp8", 32, false, fp8_elements, mx_rules, byte_layouts},
      {"mxfp8_32x32", 32, true, fp8_elements, mx_rules, byte_layouts},
      {"mxfp4", 32, false, {}, mx_rules, byte_layouts},
      {"fp8_1x128", 128, false, fp8_elements, fp8_rules, f32_layouts},
      {"fp8_128x128", 128, true, fp8_elements, fp8_rules, f32_layouts},
      {"nvfp4", 16, false, {}, nv_rules, byte_layouts},
      {"nvfp4_16x16", 16, true, {}, nv_rules, byte_layouts},
  };
  return all;
}

const Kind& kind_of(const std::string& name) {
  for (const Kind& kind : kinds())
    if (kind.name == name) return kind;
  return kinds().front();
}

// Outputs of a kernel, named by letters. Options that are not said are taken in turn, so that neighbours differ.
class Outputs {
 public:
  explicit Outputs(int turn = 0) : turn_(turn) {}

  void add(const Kind& kind, const std::string& shape, const std::string& layout, const std::string& options = "",
           const std::string& value = "v") {
    const auto turn = static_cast<size_t>(turn_++);
    std::vector<std::string> said;
    if (!options.empty()) said.push_back(options);
    const auto pick = [&](const char* option, const std::vector<std::string>& words, size_t by) {
      if (!words.empty() && options.find(option) == std::string::npos)
        said.push_back(fmt::format("{} = {}", option, words[by % words.size()]));
    };
    pick("elem", kind.elements, turn / 2);
    pick("rule", kind.rules, turn);
    pick("nonfinite", {"propagate", "te"}, turn / 3);
    said.push_back("layout = " + layout);
    if (kind.name.starts_with("nvfp4") && options.find("amax") == std::string::npos && turn % 3 != 2)
      said.push_back(turn % 3 == 0 ? "amax = one" : "amax = each");
    text_ += fmt::format("  out o{} : {}({})[{}] = {}\n", number_++, kind.name, fmt::join(said, ", "), shape, value);
  }
  void add(const std::string& kind, const std::string& shape, const std::string& layout,
           const std::string& options = "", const std::string& value = "v") {
    add(kind_of(kind), shape, layout, options, value);
  }

  const std::string& text() const { return text_; }
  bool uses(const std::string& name) const { return text_.find("= " + name) != std::string::npos; }

 private:
  int turn_, number_ = 0;
  std::string text_;
};

const std::vector<int64_t> ragged = {33, 0, 1, 127, 129, 31};

// Inputs that the types of outputs name.
std::string named_inputs(const Outputs& outputs, bool has_groups) {
  std::string text;
  if (outputs.uses("one")) text += "  in one : f32\n";
  if (outputs.uses("each")) text += has_groups ? "  in each : f32[E]\n" : "  in each : f32\n";
  if (outputs.uses("rng")) text += "  in rng : i64[2]\n";
  return text;
}

FormatKernel grouped(const std::string& name, int64_t columns, int align, const Outputs& outputs,
                     const std::string& values = "") {
  return {name,
          fmt::format("kernel formats {{\n  dim E = 6, K = 72, N = {}\n  group M by E\n  group P = M align {}\n"
                      "  in x : bf16[M, K]\n  in w : bf16[E, N, K]\n  in s : f32[M]\n{}  v = gemm(x, w) * s\n{}"
                      "  out f : f32[M, N] = v\n{}}}\n",
                      columns, align, named_inputs(outputs, true), values, outputs.text()),
          ragged,
          {}};
}

FormatKernel dense(const std::string& name, int64_t columns, const Outputs& outputs) {
  return {name,
          fmt::format("kernel formats {{\n  dim K = 72, N = {}\n  dyn S\n  in x : bf16[S, K]\n  in w : bf16[N, K]\n"
                      "  in s : f32[S]\n{}  v = gemm(x, w) * s\n  out f : f32[S, N] = v\n{}}}\n",
                      columns, named_inputs(outputs, false), outputs.text()),
          {},
          {129, 45, 0, 1}};
}

FormatKernel batched(const std::string& name, int64_t columns, const Outputs& outputs) {
  return {name,
          fmt::format("kernel formats {{\n  dim B = 3, K = 72, N = {}\n  dyn S\n  in x : bf16[B, S, K]\n"
                      "  in w : bf16[B, N, K]\n  in s : f32[B, S]\n{}  v = gemm(x, w) * s\n  out f : f32[B, S, N] = v\n"
                      "{}}}\n",
                      columns, named_inputs(outputs, false), outputs.text()),
          {},
          {129, 45, 0, 1}};
}

FormatKernel weight_gradient(const std::string& name, int64_t rows, int64_t columns, const Outputs& outputs) {
  return {
      name,
      fmt::format("kernel formats {{\n  dim E = 6, N = {}, K = {}\n  group M by E\n  in d : bf16[M, N]\n"
                  "  in x : bf16[M, K]\n  in s : f32[E, K]\n{}  v = gemm(d, x) * s\n  out f : f32[E, N, K] = v\n{}}}\n",
                  rows, columns, named_inputs(outputs, true), outputs.text()),
      ragged,
      {}};
}

FormatKernel doubled(const std::string& name, int64_t columns, const std::string& piece, int align,
                     const Outputs& outputs, const std::string& more = "") {
  return {name,
          fmt::format("kernel formats {{\n  dim E = 6, K = 72, I = {}\n  group M by E\n  group P = M align {}\n"
                      "  in x : bf16[M, K]\n  in w : bf16[E, 2*I, K]\n  in s : f32[M]\n{}  v = gemm(x, w) * s\n"
                      "  a, b = split(v{})\n  out f : f32[M, 2*I] = v\n{}{}}}\n",
                      columns, align, named_inputs(outputs, true), piece, outputs.text(), more),
          ragged,
          {}};
}

// Both orders of the dimensions, blocks along either. Blocks along tokens need groups that begin with whole blocks.
std::vector<std::pair<std::string, std::string>> places(const Kind& kind) {
  if (kind.square) return {{"P, N", ""}, {"N, P", ""}, {"P, N", "along = P"}, {"N, P", "along = N"}};
  return {{"M, N", ""}, {"N, P", ""}, {"P, N", "along = P"}, {"N, P", "along = N"}};
}

constexpr int64_t widths[] = {160, 256, 136};

void add_layouts(std::vector<FormatKernel>& list) {
  int turn = 0;
  for (const Kind& kind : kinds())
    for (const std::string& layout : kind.layouts) {
      Outputs outputs(turn);
      for (const auto& [shape, options] : places(kind)) outputs.add(kind, shape, layout, options);
      list.push_back(grouped(fmt::format("{} {}", kind.name, layout), widths[turn % 3],
                             layout == "blocked_128x4" ? 128 : kind.block, outputs));
      turn += 5;
    }
}

// Every rule with every element under either policy, as rows and transposed in turn. Types of four bits need many
// registers: two rules a kernel, in one order.
void add_rules(std::vector<FormatKernel>& list) {
  int number = 0;
  for (const Kind& kind : kinds()) {
    const int64_t columns = widths[++number % 3];
    const int align = std::max(kind.block, 32);
    const std::string rows = kind.square ? "P, N" : "M, N";
    int policy = number;
    const auto options = [&](const std::string& rule) {
      return fmt::format("rule = {}, nonfinite = {}", rule, policy++ / 2 % 2 == 0 ? "te" : "propagate");
    };
    if (!kind.elements.empty()) {
      Outputs outputs(number);
      for (const std::string& rule : kind.rules)
        for (size_t i = 0; i < kind.elements.size(); ++i)
          outputs.add(kind, (policy + static_cast<int>(i)) % 2 == 0 ? "N, P" : rows, "rows",
                      options(rule) + ", elem = " + kind.elements[i]);
      list.push_back(grouped(kind.name + " rules", columns, align, outputs));
      continue;
    }
    for (const std::string& shape : {rows, std::string("N, P")})
      for (size_t i = 0; i + 1 < kind.rules.size(); i += 2) {
        Outputs outputs(static_cast<int>(i));
        for (const std::string& rule : {kind.rules[i], kind.rules[i + 1]})
          outputs.add(kind, shape, "rows", options(rule));
        list.push_back(
            grouped(fmt::format("{} rules, {} of them, {}", kind.name, i + 2, shape), columns, align, outputs));
      }
  }
}

void add_dense(std::vector<FormatKernel>& list) {
  Outputs bytes(1), wide(2), four_bits(0), batches(3), wide_batches(4), four_bit_batches(1), weights(1);
  for (const std::string& layout : byte_layouts) {
    bytes.add("mxfp8", "S, N", layout);
    bytes.add("mxfp8", "N, S", layout);
    batches.add("mxfp8", "B, S, N", layout);
    batches.add("mxfp8", "B, N, S", layout);
  }
  bytes.add("mxfp4", "S, N", "columns_tma", "along = S");
  bytes.add("mxfp8_32x32", "N, S", "blocked_128x4");
  list.push_back(dense("dense, bytes", 160, bytes));
  wide.add("fp8_1x128", "S, N", "columns_tma");
  wide.add("fp8_1x128", "S, N", "rows", "along = S");
  wide.add("fp8_128x128", "N, S", "columns_tma");
  list.push_back(dense("dense, wide blocks", 256, wide));
  four_bits.add("nvfp4", "S, N", "blocked_128x4");
  four_bits.add("nvfp4", "S, N", "columns_tma", "along = S");
  four_bits.add("nvfp4_16x16", "S, N", "columns_tma");
  list.push_back(dense("dense, four bits", 160, four_bits));
  batches.add("mxfp4", "B, S, N", "blocked_128x4", "along = S");
  list.push_back(batched("batched, bytes", 136, batches));
  wide_batches.add("fp8_1x128", "B, N, S", "rows");
  wide_batches.add("fp8_128x128", "B, S, N", "columns_tma");
  wide_batches.add("fp8_1x128", "B, S, N", "rows", "along = S");
  list.push_back(batched("batched, wide blocks", 160, wide_batches));
  four_bit_batches.add("nvfp4", "B, S, N", "rows");
  four_bit_batches.add("nvfp4_16x16", "B, S, N", "blocked_128x4");
  list.push_back(batched("batched, four bits", 160, four_bit_batches));
  weights.add("nvfp4", "E, N, K", "rows");
  weights.add("nvfp4", "E, N, K", "blocked_128x4");
  weights.add("mxfp8", "E, N, K", "columns_tma");
  weights.add("mxfp4", "E, N, K", "blocked_128x4");
  weights.add("fp8_1x128", "E, N, K", "rows");
  weights.add("mxfp8", "E, K, N", "rows", "along = K");
  list.push_back(weight_gradient("weight gradient", 160, 256, weights));

  // Rows that are contiguous in memory, and blocks that lie along them or are square.
  Outputs along_rows(1), square(1), packed(0);
  along_rows.add("mxfp8", "E, K, N", "rows");
  along_rows.add("fp8_1x128", "E, K, N", "columns_tma");
  list.push_back(weight_gradient("weight gradient, along rows", 160, 256, along_rows));
  square.add("mxfp8_32x32", "E, N, K", "columns_tma");
  square.add("fp8_128x128", "E, K, N", "rows");
  square.add("nvfp4_16x16", "E, N, K", "rows");
  list.push_back(weight_gradient("weight gradient, squares", 136, 256, square));
  packed.add("nvfp4", "E, K, N", "blocked_128x4");
  packed.add("mxfp4", "E, K, N", "rows", "along = K, seed = rng");
  list.push_back(weight_gradient("weight gradient, four bits", 136, 160, packed));
}

// Halves, wholes, and pieces that alternate.
void add_doubled(std::vector<FormatKernel>& list) {
  for (const std::string piece : {"", ", 1", ", 32"}) {
    Outputs bytes(static_cast<int>(piece.size())), halves(1), wholes(0);
    bytes.add("mxfp8", "M, I", "rows", "", "a * b");
    bytes.add("mxfp8", "I, P", "rows", "", "a * b");
    bytes.add("mxfp8", "2*I, P", "blocked_128x4");
    list.push_back(doubled("doubled, bytes" + piece, 256, piece, 128, bytes));
    if (piece == ", 1") {
      halves.add("nvfp4", "I, P", "rows", "", "a * b");
      halves.add("nvfp4", "M, I", "columns_tma", "", "a * b");
    } else {
      halves.add("fp8_1x128", "I, P", "rows", "", "a * b");
      halves.add("fp8_1x128", "M, I", "columns_tma", "", "a + b");
    }
    list.push_back(doubled("doubled, halves" + piece, 256, piece, 128, halves));
    wholes.add("nvfp4", "M, 2*I", "rows");
    if (!piece.empty()) {
      Outputs wide(0);
      wide.add("fp8_1x128", "M, 2*I", "rows");
      list.push_back(doubled("doubled, wide" + piece, 256, piece, 128, wide, "  out g : bf16[M, I] = a * b\n"));
    }
    wholes.add("mxfp4", "I, P", "columns_tma", "", "a - b");
    list.push_back(doubled("doubled, four bits" + piece, 256, piece, 128, wholes));
  }
}

void add_random_and_rotated(std::vector<FormatKernel>& list) {
  Outputs random(0), wide(1), rotated(0), rotated_bytes(2);
  random.add("mxfp8", "M, N", "rows", "seed = rng");
  random.add("mxfp8", "N, P", "rows", "seed = rng, elem = e5m2");
  random.add("mxfp4", "M, N", "blocked_128x4", "seed = rng");
  random.add("nvfp4", "N, P", "rows", "seed = rng");
  list.push_back(grouped("stochastic", 160, 128, random));
  wide.add("fp8_1x128", "M, N", "rows", "seed = rng, elem = e5m2");
  wide.add("fp8_128x128", "N, P", "rows", "seed = rng");
  wide.add("nvfp4_16x16", "P, N", "rows", "seed = rng");
  wide.add("mxfp8_32x32", "N, P", "columns_tma", "seed = rng");
  list.push_back(grouped("stochastic, wide blocks", 136, 128, wide));
  rotated.add("nvfp4", "N, P", "blocked_128x4", "amax = each", "down");
  rotated.add("nvfp4", "M, N", "rows", "amax = one", "across");
  rotated_bytes.add("mxfp8", "N, P", "rows", "", "down");
  rotated_bytes.add("fp8_1x128", "M, N", "columns_tma", "", "across");
  const std::string rotations = "  down = cast(hadamard(v, M, 0xD7E8), bf16)\n  across = 4 * hadamard(v, N)\n";
  list.push_back(grouped("rotated, four bits", 160, 128, rotated, rotations));
  list.push_back(grouped("rotated, bytes", 136, 128, rotated_bytes, rotations));
}

// What a store of groups that begin anywhere can still do: blocks along columns, transposed.
void add_unaligned(std::vector<FormatKernel>& list) {
  Outputs outputs(1);
  for (const std::string& layout : byte_layouts) outputs.add("mxfp8", "N, M", layout, "along = N");
  outputs.add("fp8_1x128", "N, M", "columns_tma", "along = N");
  outputs.add("nvfp4", "M, N", "columns_tma");
  list.push_back(grouped("groups anywhere", 136, 32, outputs));
}

}  // namespace

std::vector<FormatKernel> format_kernels() {
  std::vector<FormatKernel> list;
  add_layouts(list);
  add_rules(list);
  add_dense(list);
  add_doubled(list);
  add_random_and_rotated(list);
  add_unaligned(list);
  return list;
}

std::vector<RefusedFormat> refused_formats() {
  std::vector<RefusedFormat> list;
  const auto add = [&](const FormatKernel& kernel, const std::string& why) { list.push_back({kernel.text, why}); };
  const auto one = [](const std::string& kind, const std::string& shape, const std::string& layout,
                      const std::string& options = "", const std::string& value = "v") {
    Outputs outputs;
    outputs.add(kind, shape, layout, options, value);
    return outputs;
  };
  // Blocks of columns that reach from one half into the other.
  add(doubled("", 136, "", 128, one("mxfp8", "M, 2*I", "rows"), "  out g : bf16[M, I] = a * b\n"),
      "that lie across both halves");
  // Tiles of scales that span more rows than a tile of the product.
  add(weight_gradient("", 160, 256, one("mxfp8_32x32", "E, N, K", "blocked_128x4")), "for each group");
  // Tiles of scales hold 128 tokens: groups must begin with one, or where one does.
  add(grouped("", 160, 96, one("mxfp8", "N, P", "blocked_128x4", "along = N")),
      "whose groups begin at multiples of 96");
  return list;
}

}  // namespace epifuse::test
