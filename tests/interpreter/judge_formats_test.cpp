// The judge of scaled outputs: what f32 arithmetic may make of them is accepted in every format, nothing else is.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/stored_ranges.h"
#include "tests/interpreter/quantise_block.h"
#include "tests/support/host_data.h"

namespace epifuse::interpreter {
namespace {

using test::GraphBuilder;
using test::normal_tensor;
using test::tensor_of;
using test::Value;

constexpr int64_t rows = 60, k_size = 64, width = 96;
// The second group is empty; the third one's rows begin at the first aligned place.
constexpr int64_t first_size = 21, tokens = 55, third = 128;

// A grouped product with an activation, stored once.
struct Kernel {
  GraphBuilder g;
  Buffers buffers;
  std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  std::optional<Reference> reference;

  Kernel(const ir::TensorType& type, const std::string& shape) {
    g.dim("E", 3), g.dim("K", k_size), g.dim("I", width);
    g.group("M", "E");
    g.align("P", "M", 128);
    const Value h = g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, I, K"), "K");
    g.in("most", "f32", "E");
    g.in("rng", "i64", "2");
    g.out("q", type, shape, silu(h));
    buffers["M.ends"] = tensor_of(Storage::i32, {3}, {first_size, first_size, tokens});
    buffers["x"] = normal_tensor(Storage::bf16, {rows, k_size}, 1);
    buffers["w"] = normal_tensor(Storage::bf16, {3, width, k_size}, 2, 0.16);
    buffers["most"] = tensor_of(Storage::f32, {3}, {5, 5, 6});
    buffers["rng"] = tensor_of(Storage::i64, {2}, {77, 5});
    Result<Reference> made = Reference::make(g.graph, buffers, {}, *gemm);
    INFO((made ? "" : made.error().message));
    REQUIRE(made);
    reference.emplace(*std::move(made));
  }

  const ir::Output& output() const { return g.graph.outputs[0]; }
  Verdict judged(const Buffers& stored) const {
    const Result<Verdict> verdict = judge(*reference, output(), stored);
    INFO((verdict ? "" : verdict.error().message));
    REQUIRE(verdict);
    return *verdict;
  }
  Buffers exact() const {
    Buffers stored = *make_outputs(reference->problem(), 0xFF);
    REQUIRE(reference->store(output(), stored));
    return stored;
  }
  // What a device stores whose f32 values lie in the intervals, each anywhere (-1: at the low end, 1: at the high one).
  Buffers device(double where) const {
    Buffers stored = exact();
    const Result<OutputWalk> walk = reference->walk(output(), true);
    const Quantiser& quantiser = walk->scaled()->quantiser();
    for (int64_t t = 0; t < walk->tiles(); ++t) {
      const Tile tile = walk->tile(t);
      for_each_block(*walk, tile, [&](const TileBlock& block) {
        std::vector<double> values;
        block.for_each_element([&](int64_t, int64_t, int64_t i) {
          const double middle = (tile.low[i] + tile.high[i]) / 2, radius = (tile.high[i] - tile.low[i]) / 2;
          values.push_back(static_cast<float>(middle + where * radius));
        });
        const BlockScale scale =
            quantiser.block_scale(quantiser.amax(values.data(), static_cast<int64_t>(values.size())), block.maximum);
        store_code(stored.at("q.scale"), block.scale, scale.code);
        size_t n = 0;
        block.for_each_element([&](int64_t r, int64_t c, int64_t) {
          store_code(stored.at("q"), walk->position(tile, r, c),
                     quantiser.element(values[n++], scale.factor, random_of(*walk, tile, r, c)));
        });
      });
    }
    return stored;
  }
};

std::vector<ir::TensorType> all_types() {
  std::vector<ir::TensorType> types;
  for (const auto& [format, rules] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"mxfp8", {"up", "even"}},
           {"mxfp8_32x32", {"up"}},
           {"mxfp4", {"floor", "up"}},
           {"fp8_1x128", {"up", "te_f32", "deepgemm", "torchao", "vllm"}},
           {"fp8_128x128", {"te_f32", "vllm"}},
           {"nvfp4", {"up", "torchao"}},
           {"nvfp4_16x16", {"up"}}})
    for (const std::string& rule : rules)
      for (bool stochastic : {false, true}) {
        ir::TensorType type = test::scaled_type(format, rule);
        if (stochastic) type.seed_input = "rng";
        const Storage scale = ir::format_info(type.format).scale;
        if (scale == Storage::e4m3) type.amax_input = "most";
        type.layout = scale == Storage::f32 ? ir::ScaleLayout::columns_tma : ir::ScaleLayout::blocked_128x4;
        types.push_back(type);
      }
  return types;
}

TEST_CASE("what the interpreter stores is right in every format, and so is what lies in the intervals") {
  for (const ir::TensorType& type : all_types())
    for (const std::string shape : {"P, I", "I, P"}) {
      const Kernel kernel(type, shape);
      INFO(ir::print_type(type) << " " << shape);
      const Verdict exact = kernel.judged(kernel.exact());
      INFO(exact.print());
      CHECK(exact.ok);
      CHECK(exact.different == 0);
      CHECK(exact.scales_different == 0);
      CHECK(exact.elements == tokens * width);
      for (double where : {-1.0, 0.9}) {
        const Verdict verdict = kernel.judged(kernel.device(where));
        INFO(verdict.print());
        CHECK(verdict.outside == 0);
        CHECK(verdict.scales_outside == 0);
        CHECK(verdict.touched + verdict.gap == 0);
      }
    }
}

TEST_CASE("a wrong scale is told by its place") {
  for (const ir::TensorType& type : all_types()) {
    const Kernel kernel(type, "P, I");
    Buffers wrong = kernel.device(0.3);
    const ScalePlaces places(kernel.reference->problem(), kernel.output().tensor);
    const int64_t place[] = {third + 2, 70};
    const int64_t position = places.position(place, 2);
    HostTensor& scales = wrong.at("q.scale");
    // A unit of an 8-bit scale; of an f32 scale a thousandth.
    const uint32_t step = scales.storage == Storage::f32 ? 1 << 13 : 1;
    store_code(scales, position, load_code(scales, position) + step);
    const Verdict verdict = kernel.judged(wrong);
    INFO(ir::print_type(type) << "\n" << verdict.print());
    CHECK(!verdict.ok);
    CHECK(verdict.scales_outside == 1);
    REQUIRE(verdict.worst.found);
    CHECK(verdict.worst.is_scale);
    CHECK(verdict.worst.group == 2);
    CHECK(verdict.worst.position == position);
    const ir::FormatInfo& info = ir::format_info(type.format);
    const std::map<std::string, int64_t> at(verdict.worst.place.begin(), verdict.worst.place.end());
    CHECK(at.at("M") == first_size + 2 / info.block_rows * info.block_rows);
    CHECK(at.at("I") == 70 / info.block_columns * info.block_columns);
    CHECK(verdict.worst.stored > verdict.worst.high);
    CHECK(nlohmann::json::parse(verdict.to_json())["worst"]["position"] == position);
  }
}

TEST_CASE("wrong codes are counted as one step and more, in nibbles too") {
  for (const std::string format : {"mxfp8", "mxfp4", "nvfp4"}) {
    const Kernel kernel(test::scaled_type(format), "P, I");
    Buffers wrong = kernel.exact();
    HostTensor& codes = wrong.at("q");
    // Neighbours of codes in the middle of the range; the last one has its sign turned.
    int64_t at = 0;
    for (int changed = 0; changed < 3; at += 5) {
      const uint32_t code = load_code(codes, at), magnitude = code & 7;
      if (magnitude < 3 || magnitude > 6) continue;
      store_code(codes, at, changed == 2 ? code ^ (storage_bits(codes.storage) == 4 ? 8u : 0x80u) : code + 1);
      ++changed;
    }
    const Verdict verdict = kernel.judged(wrong);
    INFO(format << "\n" << verdict.print());
    CHECK(verdict.different == 3);
    CHECK(verdict.one_step == 2);
    CHECK(verdict.more_steps == 1);
    CHECK(verdict.outside >= 1);
    CHECK(!verdict.ok);
  }
}

TEST_CASE("padding must be zero, and what belongs to nobody is not touched") {
  for (const std::string format : {"mxfp8", "mxfp4", "nvfp4", "fp8_1x128"}) {
    ir::TensorType type = test::scaled_type(format);
    const bool f32 = format == "fp8_1x128";
    type.layout = f32 ? ir::ScaleLayout::columns_tma : ir::ScaleLayout::blocked_128x4;
    const Kernel kernel(type, "P, I");
    const ScalePlaces places(kernel.reference->problem(), kernel.output().tensor);
    const auto kinds = places.kinds();
    const Buffers right = kernel.exact();
    CHECK(kernel.judged(right).ok);
    int gaps = 0, outside = 0;
    for (size_t i = 0; i < kinds.size(); i += 7) {
      if (kinds[i] == StoredRange::Kind::owned) continue;
      Buffers wrong = right;
      HostTensor& scales = wrong.at("q.scale");
      scales.bytes[i * (f32 ? 4 : 1)] ^= 0x01;
      const Verdict verdict = kernel.judged(wrong);
      const bool gap = kinds[i] == StoredRange::Kind::gap;
      CHECK(!verdict.ok);
      CHECK(verdict.gap == (gap ? 1 : 0));
      CHECK(verdict.touched == (gap ? 0 : 1));
      if (++(gap ? gaps : outside) == 3) i = std::max(i, kinds.size() / 2);
      if (gaps > 4) break;
    }
    CHECK(gaps > 0);
    // Codes in a gap, and behind all groups; of 4-bit codes a half of a byte.
    const auto change = [&](int64_t row, bool gap) {
      Buffers wrong = right;
      store_code(wrong.at("q"), row * width + 3, load_code(wrong.at("q"), row * width + 3) ^ 1);
      const Verdict verdict = kernel.judged(wrong);
      CHECK(verdict.gap == (gap ? 1 : 0));
      CHECK(verdict.touched == (gap ? 0 : 1));
    };
    change(40, true);
    change(250, true);
    change(260, false);
  }
}

TEST_CASE("the codes under a scale of zero are judged too") {
  // Blocks whose scale underflows: Transformer Engine stores the largest codes there.
  GraphBuilder g;
  g.dim("R", 2), g.dim("C", 16);
  g.in("most", "f32", "");
  ir::TensorType type = test::scaled_type("nvfp4");
  type.amax_input = "most";
  g.out("q", type, "R, C", g.in("x", "f32", "R, C"));
  Buffers buffers;
  buffers["x"] = test::tensor_by(Storage::f32, {2, 16}, [](int64_t i) { return 1e-6 * static_cast<double>(i + 1); });
  buffers["most"] = tensor_of(Storage::f32, {}, {1000});
  const std::unique_ptr<GemmProvider> gemm = cpu_gemm();
  const Result<Reference> reference = Reference::make(g.graph, buffers, {}, *gemm);
  REQUIRE(reference);
  Buffers stored = *make_outputs(reference->problem());
  REQUIRE(reference->store(g.graph.outputs[0], stored));
  CHECK(load_code(stored["q.scale"], 0) == 0);
  CHECK(load_code(stored["q"], 0) == 7);
  CHECK(judge(*reference, g.graph.outputs[0], stored)->ok);
  store_code(stored["q"], 0, 3);
  const Verdict verdict = *judge(*reference, g.graph.outputs[0], stored);
  CHECK(verdict.outside == 1);
  CHECK(verdict.more_steps == 1);
}

TEST_CASE("NaN under both policies, in types with and without a NaN") {
  for (const std::string format : {"mxfp8", "mxfp4", "fp8_1x128", "nvfp4"})
    for (ir::NonFinite policy : {ir::NonFinite::propagate, ir::NonFinite::te}) {
      ir::TensorType type = test::scaled_type(format);
      type.nonfinite = policy;
      Kernel kernel(type, "P, I");
      store_code(kernel.buffers["x"], (first_size + 3) * k_size + 3, 0x7FC0);
      Result<Reference> made = Reference::make(kernel.g.graph, kernel.buffers, {}, *kernel.gemm);
      REQUIRE(made);
      kernel.reference.emplace(*std::move(made));
      const Buffers right = kernel.exact();
      const Verdict verdict = kernel.judged(right);
      INFO(ir::print_type(type) << "\n" << verdict.print());
      CHECK(verdict.ok);
      CHECK(verdict.different == 0);
      CHECK(verdict.nan_reference == verdict.nan_stored);
      const bool has_nan = policy == ir::NonFinite::propagate || type.element != Storage::e2m1;
      CHECK(verdict.nan_stored == (has_nan ? width : 0));
      Buffers wrong = right;
      const int64_t row = third + 3;
      store_code(wrong["q"], row * width + 9, 2);
      CHECK(kernel.judged(wrong).outside == 1);
    }
}

}  // namespace
}  // namespace epifuse::interpreter
