// Every scaled format in every layout and direction, over groups: codes, scales, gaps, padding, and what is left alone.
#include <cmath>
#include <cstring>

#include "compiler/interpreter/interpreter.h"
#include "tests/interpreter/quantise_block.h"
#include "tests/support/host_data.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::normal_tensor;
using test::tensor_of;
using test::Value;
using test::values_of;

constexpr uint8_t poison = 0xA5;
constexpr int64_t rows = 340, width = 200, groups = 4;
const std::vector<double> counts = {37, 0, 130, 128};
constexpr int64_t seed = 0x0123456789ABCDEF, offset = 0x1000000002;

// x over tokens and features, in groups, to be stored as any type.
struct Kernel {
  GraphBuilder g;
  Buffers buffers;
  Value x;

  Kernel() : x(declare()) {
    buffers["M.counts"] = tensor_of(Storage::i32, {groups}, counts);
    buffers["x"] = normal_tensor(Storage::f32, {rows, width}, 1, 3);
    store_one(buffers["x"], 5 * width + 7, std::nan(""));
    store_one(buffers["x"], 60 * width + 190, -INFINITY);
    for (int64_t c = 0; c < 40; ++c) store_one(buffers["x"], 50 * width + c, 0);
    buffers["most"] = tensor_of(Storage::f32, {groups}, {10, 20, 0, 40});
    buffers["rng"] = tensor_of(Storage::i64, {2}, {0, 0});
    const int64_t numbers[] = {seed, offset};
    std::memcpy(buffers["rng"].bytes.data(), numbers, sizeof numbers);
  }

  Value declare() {
    g.dim("E", groups), g.dim("I", width);
    g.group("M", "E", ir::GroupSizes::counts);
    g.align("P", "M", 128), g.align("Q", "M", 32);
    g.in("most", "f32", "E");
    g.in("rng", "i64", "2");
    return g.in("x", "f32", "M, I");
  }

  Buffers run_poisoned() const {
    REQUIRE(ir::verify(g.graph) == std::vector<std::string>{});
    Buffers all = buffers;
    const Result<Problem> problem = Problem::bind(g.graph, all, {});
    INFO((problem ? "" : problem.error().message));
    REQUIRE(problem);
    const Result<Buffers> poisoned = make_outputs(*problem, poison);
    all.insert(poisoned->begin(), poisoned->end());
    const Result<Buffers> out = run(g.graph, all, {}, nullptr, 2);
    INFO((out ? "" : out.error().message));
    REQUIRE(out);
    return *out;
  }
};

// The two buffers of an output, computed block by block from the definition of its type.
struct Expected {
  HostTensor codes, scales;
};

Expected expected(const Kernel& kernel, const ir::Output& output, const Problem& problem) {
  const ir::Tensor& tensor = output.tensor;
  const ir::TensorType& type = tensor.type;
  const ir::FormatInfo& info = ir::format_info(type.format);
  const std::vector<int64_t> extents = problem.extents(tensor);
  Expected result{make_tensor(type.storage(), extents, poison),
                  make_tensor(info.scale, problem.scale_extents(tensor), poison)};
  const ScalePlaces places(problem, tensor);
  const std::vector<StoredRange::Kind> kinds = places.kinds();
  for (size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == StoredRange::Kind::gap) store_code(result.scales, static_cast<int64_t>(i), 0);
  const int token_axis = kernel.g.graph.base_name(tensor.shape[0]).dim == kernel.g.extent("M").dim ? 0 : 1;
  const ir::Dimension& dim = kernel.g.graph.dims[tensor.shape[token_axis].dim];
  const int64_t align = dim.align;
  const int along = type.along_axis < 0 ? 1 : type.along_axis;
  const int64_t row_block = along == 0 ? info.block_columns : info.block_rows,
                column_block = along == 0 ? info.block_rows : info.block_columns;
  const std::vector<double> x = values_of(kernel.buffers.at("x"));
  const auto quantiser = *make_quantiser(type);
  int ordinal = 0;
  while (kernel.g.graph.outputs[ordinal].tensor.name != tensor.name) ++ordinal;
  const RandomBits random(seed, offset, ordinal);
  int64_t first = 0, start = 0;
  for (int e = 0; e < groups; ++e) {
    const auto size = static_cast<int64_t>(counts[e]), end = start + size;
    const int64_t gap_end = (end + align - 1) / align * align;
    GroupMaximum maximum;
    if (!type.amax_input.empty()) maximum = static_cast<float>(load_one(kernel.buffers.at("most"), e));
    const auto value = [&](int64_t r, int64_t c) {
      const int64_t token = (token_axis == 0 ? r : c) - start + first, feature = token_axis == 0 ? c : r;
      return x[token * width + feature];
    };
    const int64_t row_begin = token_axis == 0 ? start : 0, row_end = token_axis == 0 ? end : width;
    const int64_t column_begin = token_axis == 0 ? 0 : start, column_end = token_axis == 0 ? width : end;
    for (int64_t r0 = row_begin; r0 < row_end; r0 += row_block)
      for (int64_t c0 = column_begin; c0 < column_end; c0 += column_block) {
        std::vector<double> block;
        for (int64_t r = r0; r < std::min(row_end, r0 + row_block); ++r)
          for (int64_t c = c0; c < std::min(column_end, c0 + column_block); ++c) block.push_back(value(r, c));
        const test::Block quantised = test::quantise(type, block, maximum);
        const int64_t place[] = {r0, c0};
        store_code(result.scales, places.position(place, e), quantised.scale.code);
        size_t i = 0;
        for (int64_t r = r0; r < std::min(row_end, r0 + row_block); ++r)
          for (int64_t c = c0; c < std::min(column_end, c0 + column_block); ++c, ++i) {
            uint32_t code = quantised.codes[i];
            if (!type.seed_input.empty())
              code =
                  quantiser->element(block[i], quantised.scale.factor, random.at({r - row_begin, c - column_begin, e}));
            store_code(result.codes, r * extents[1] + c, code);
          }
      }
    for (int64_t p = end; p < gap_end && size > 0; ++p)
      for (int64_t c = 0; c < width; ++c)
        store_code(result.codes, token_axis == 0 ? p * width + c : c * extents[1] + p, 0);
    first += size;
    start = size > 0 ? gap_end : start;
  }
  return result;
}

void check_all(const Kernel& kernel) {
  const Buffers out = kernel.run_poisoned();
  const Result<Problem> problem = Problem::bind(kernel.g.graph, kernel.buffers, {});
  for (const ir::Output& output : kernel.g.graph.outputs) {
    const Expected wanted = expected(kernel, output, *problem);
    INFO(output.tensor.name << " : " << ir::print_type(output.tensor.type)
                            << kernel.g.graph.shape_text(output.tensor.shape));
    CHECK((out.at(output.tensor.name).bytes == wanted.codes.bytes));
    CHECK((out.at(output.tensor.name + ".scale").bytes == wanted.scales.bytes));
  }
}

TEST_CASE("all formats, rules and policies, in every layout and direction") {
  for (const std::string format :
       {"mxfp8", "mxfp8_32x32", "mxfp4", "fp8_1x128", "fp8_128x128", "nvfp4", "nvfp4_16x16"}) {
    Kernel kernel;
    const ir::FormatInfo& info = ir::format_info(*ir::parse_format(format));
    std::vector<std::string> rules = {"up", "torchao"};
    if (info.scale == Storage::e8m0) rules = {"up", "floor", "even", "ceil"};
    if (info.scale == Storage::f32) rules = {"up", "te_f32", "deepgemm", "torchao", "vllm"};
    std::vector<ir::ScaleLayout> layouts = {ir::ScaleLayout::rows, ir::ScaleLayout::columns_tma};
    if (info.scale != Storage::f32) layouts.push_back(ir::ScaleLayout::blocked_128x4);
    int number = 0;
    const auto out = [&](ir::TensorType type, const std::string& shape) {
      // Every output has another rule, policy and element, so that all are seen with all layouts.
      type.rule = *ir::parse_rule(rules[number % rules.size()]);
      type.nonfinite = number / 2 % 2 ? ir::NonFinite::te : ir::NonFinite::propagate;
      if (info.element != Storage::e2m1 && number % 3 == 2) type.element = Storage::e5m2;
      if (info.scale == Storage::e4m3 && number % 2 == 1) type.amax_input = "most";
      kernel.g.out("y" + std::to_string(number++), type, shape, kernel.x);
    };
    for (ir::ScaleLayout layout : layouts) {
      ir::TensorType type = GraphBuilder::type(format);
      type.layout = layout;
      if (info.block_rows == 1) out(type, "M, I");
      out(type, "P, I");
      out(type, "I, P");
      if (info.block_columns <= 32) out(type, "I, Q");
      type.along_axis = 0;
      out(type, "P, I");
      if (info.block_columns <= 32) out(type, "Q, I");
      // Neighbours of different groups would share a byte of 4-bit codes.
      if (info.block_rows == 1 && info.element != Storage::e2m1) out(type, "I, M");
      out(type, "I, P");
    }
    check_all(kernel);
  }
}

TEST_CASE("stochastic rounding follows places in groups, whatever the alignment and the direction") {
  Kernel kernel;
  int number = 0;
  for (const std::string format : {"mxfp8", "mxfp4", "fp8_1x128", "nvfp4", "nvfp4_16x16", "fp8_128x128"})
    for (const std::string shape : {"P, I", "I, P"}) {
      ir::TensorType type = GraphBuilder::type(format);
      type.seed_input = "rng";
      if (number % 4 == 1) type.nonfinite = ir::NonFinite::te;
      kernel.g.out("y" + std::to_string(number++), type, shape, kernel.x);
    }
  check_all(kernel);
}

TEST_CASE("a leading axis numbers the matrices of random bits and of scales") {
  GraphBuilder g;
  g.dim("B", 3), g.dim("R", 6), g.dim("C", 48);
  g.in("rng", "i64", "2");
  g.in("most", "f32", "B");
  ir::TensorType type = GraphBuilder::type("nvfp4");
  type.seed_input = "rng", type.amax_input = "most", type.layout = ir::ScaleLayout::blocked_128x4;
  g.out("y", type, "B, R, C", g.in("x", "f32", "B, R, C"));
  Buffers buffers;
  buffers["x"] = normal_tensor(Storage::f32, {3, 6, 48}, 3);
  buffers["rng"] = tensor_of(Storage::i64, {2}, {11, 12});
  buffers["most"] = tensor_of(Storage::f32, {3}, {3, 5, 7});
  const Result<Buffers> out = run(g.graph, buffers);
  REQUIRE(out);
  const std::vector<double> x = values_of(buffers["x"]);
  const auto quantiser = *make_quantiser(type);
  REQUIRE(out->at("y.scale").extents == std::vector<int64_t>{3, 1, 1, 512});
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t r = 0; r < 6; ++r)
      for (int64_t k = 0; k < 3; ++k) {
        const double* block = x.data() + (b * 6 + r) * 48 + k * 16;
        const BlockScale scale = quantiser->block_scale(quantiser->amax(block, 16), 3.0f + 2 * static_cast<float>(b));
        CHECK(load_code(out->at("y.scale"), b * 512 + r * 16 + k) == scale.code);
        for (int64_t i = 0; i < 16; ++i) {
          const uint32_t random = RandomBits(11, 12, 0).at({r, k * 16 + i, b});
          CHECK(load_code(out->at("y"), (b * 6 + r) * 48 + k * 16 + i) ==
                quantiser->element(block[i], scale.factor, random));
        }
      }
}

TEST_CASE("a maximum that differs within a block is refused by name") {
  GraphBuilder g;
  g.dim("R", 4), g.dim("C", 32);
  g.in("most", "f32", "C");
  ir::TensorType type = GraphBuilder::type("nvfp4");
  type.amax_input = "most";
  g.out("y", type, "R, C", g.in("x", "f32", "R, C"));
  Buffers buffers;
  buffers["x"] = make_tensor(Storage::f32, {4, 32});
  buffers["most"] = make_tensor(Storage::f32, {32});
  const Result<Buffers> refused = run(g.graph, buffers);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("'most'") != std::string::npos);
}

TEST_CASE("scaled inputs are read back in every layout") {
  for (const std::string format : {"mxfp8", "mxfp4", "fp8_1x128", "fp8_128x128", "nvfp4", "nvfp4_16x16"})
    for (ir::ScaleLayout layout :
         {ir::ScaleLayout::rows, ir::ScaleLayout::columns_tma, ir::ScaleLayout::blocked_128x4}) {
      ir::TensorType type = GraphBuilder::type(format);
      if (ir::format_info(type.format).scale == Storage::f32 && layout == ir::ScaleLayout::blocked_128x4) continue;
      type.layout = layout;
      if (ir::format_info(type.format).scale == Storage::e4m3) type.amax_input = "most";
      Kernel store, load;
      for (int64_t i = 0; i < rows * width; ++i)
        if (!std::isfinite(load_one(store.buffers["x"], i))) store_one(store.buffers["x"], i, 1);
      store_one(store.buffers["most"], 2, 30);
      store.g.out("y", type, "I, P", store.x);
      const Buffers stored = store.run_poisoned();
      const Value y = load.g.in("y", type, "I, P");
      load.g.out("z", "f32", "M, I", y);
      load.buffers = store.buffers;
      load.buffers.insert(stored.begin(), stored.end());
      const std::vector<double> z = values_of(load.run_poisoned().at("z")), x = values_of(store.buffers["x"]);
      double error = 0, norm = 0;
      for (int64_t i = 0; i < 295 * width; ++i) error += (z[i] - x[i]) * (z[i] - x[i]), norm += x[i] * x[i];
      INFO(ir::print_type(type));
      const double limit = type.element == Storage::e2m1 ? 0.16 : 0.04;
      CHECK(std::sqrt(error / norm) < limit);
      CHECK(error > 0);
    }
}

}  // namespace
}  // namespace epifuse::interpreter
