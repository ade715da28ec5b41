// The comparisons of stored bytes, for every scaled format and layout: quantised again, and against another kernel's.
#include "compiler/interpreter/interpreter.h"
#include "jit/inputs.h"
#include "jit/requantise.h"
#include "jit/stored_difference.h"
#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

using namespace epifuse;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

constexpr uint8_t poison = 0xFF;

// v as f32 beside `type`, and behind another output, so that its number among them matters.
struct Kernel {
  test::GraphBuilder g;
  Buffers inputs, stored;

  explicit Kernel(ir::TensorType type) {
    g.dim("E", 3), g.dim("I", 96);
    g.group("M", "E", ir::GroupSizes::counts);
    g.align("P", "M", 128);
    const test::Value v = g.in("x", "f32", "M, I") * g.in("s", "f32", "M");
    g.in("most", "f32", "E");
    g.in("rng", "i64", "2");
    if (ir::format_info(type.format).scale == Storage::e4m3) type.amax_input = "most";
    g.out("y", "f32", "M, I", v);
    g.out("q", type, "P, I", v);
    g.out("qt", type, "I, P", v);
    jit::InputOptions options;
    options.counts = {{40, 0, 33}};
    options.slack_rows = 3;
    inputs = must(jit::make_inputs(g.graph, options));
    // The f32 values as a device has them: rounded once.
    Buffers all = inputs;
    const auto problem = must(interpreter::Problem::bind(g.graph, inputs, {}));
    const Buffers outputs = must(interpreter::make_outputs(problem, poison));
    all.insert(outputs.begin(), outputs.end());
    stored = must(interpreter::run(g.graph, all));
    const std::vector<jit::Requantised> again = requantised();
    REQUIRE(again.size() == 2);
  }

  std::vector<jit::Requantised> requantised() const {
    return must(jit::requantise(g.graph, inputs, stored, poison, 1));
  }
  jit::StoredDifference difference(const Buffers& other, size_t output) const {
    return must(jit::stored_difference(g.graph, inputs, {}, g.graph.outputs[output], stored, other, 1));
  }

  template <class T>
  static T must(Result<T> result) {
    INFO((result ? std::string() : result.error().message));
    REQUIRE(result);
    return *std::move(result);
  }
};

std::vector<ir::TensorType> all_types() {
  std::vector<ir::TensorType> types;
  for (const std::string format : {"mxfp8", "mxfp8_32x32", "mxfp4", "fp8_1x128", "fp8_128x128", "nvfp4", "nvfp4_16x16"})
    for (ir::ScaleLayout layout : {ir::ScaleLayout::rows, ir::ScaleLayout::columns_tma, ir::ScaleLayout::blocked_128x4})
      for (bool stochastic : {false, true}) {
        ir::TensorType type = test::GraphBuilder::type(format);
        if (ir::format_info(type.format).scale == Storage::f32) {
          if (layout == ir::ScaleLayout::blocked_128x4) continue;
          type.rule = ir::ScaleRule::te_f32;
        }
        type.layout = layout;
        if (stochastic) type.seed_input = "rng";
        types.push_back(type);
      }
  return types;
}

// A code of the first group that has neighbours on both sides.
int64_t inner_code(const HostTensor& codes) {
  for (int64_t i = 0; i < codes.elements(); ++i)
    if (const uint32_t magnitude = interpreter::load_code(codes, i) & 7; magnitude >= 3 && magnitude < 6) return i;
  FAIL("no such code");
  return 0;
}

}  // namespace

TEST_CASE("bytes that are quantised again are the same, or told apart in steps") {
  for (const ir::TensorType& type : all_types()) {
    Kernel kernel(type);
    INFO(ir::print_type(type));
    for (const jit::Requantised& again : kernel.requantised()) {
      INFO(again.output);
      // The products are not exact in f32, so what the interpreter quantised is not what y holds to the last bit.
      CHECK(again.codes_different <= again.codes / 200);
      CHECK(again.scales == kernel.stored.at(again.output + ".scale").elements());
    }
    // Of the very f32 values the bytes are the same.
    Buffers of_values = kernel.inputs;
    of_values["x"] = kernel.stored.at("y");
    for (int64_t i = 0; i < of_values["s"].elements(); ++i) interpreter::store_one(of_values["s"], i, 1);
    const Buffers outputs = Kernel::must(
        interpreter::make_outputs(Kernel::must(interpreter::Problem::bind(kernel.g.graph, of_values, {})), poison));
    of_values.insert(outputs.begin(), outputs.end());
    kernel.stored = Kernel::must(interpreter::run(kernel.g.graph, of_values));
    for (const jit::Requantised& again : kernel.requantised()) CHECK(again.ok());
    HostTensor &codes = kernel.stored.at("q"), &scales = kernel.stored.at("qt.scale");
    const int64_t at = inner_code(codes);
    interpreter::store_code(codes, at, interpreter::load_code(codes, at) + 1);
    interpreter::store_code(codes, at + 500, interpreter::load_code(codes, at + 500) ^ 4);
    interpreter::store_code(scales, 0, interpreter::load_code(scales, 0) + 1);
    const std::vector<jit::Requantised> wrong = kernel.requantised();
    CHECK(wrong[0].codes_different == 2);
    CHECK(wrong[0].codes_one_step == 1);
    CHECK(wrong[0].scales_different == 0);
    CHECK(wrong[1].codes_different == 0);
    CHECK(wrong[1].scales_different == 1);
    CHECK(wrong[1].scales_one_step == 1);
  }
}

TEST_CASE("two results for one output, in every format and layout") {
  for (const ir::TensorType& type : all_types()) {
    const Kernel kernel(type);
    INFO(ir::print_type(type));
    for (size_t output : {1, 2}) {
      const jit::StoredDifference same = kernel.difference(kernel.stored, output);
      CHECK(same.different == 0);
      CHECK(same.norm == 0);
      CHECK(same.elements == 73 * 96);
      CHECK(same.groups.size() == 3);
      CHECK(same.scales > 0);
    }
    Buffers other = kernel.stored;
    HostTensor& codes = other.at("q");
    const int64_t at = inner_code(codes);
    interpreter::store_code(codes, at, interpreter::load_code(codes, at) - 1);
    const jit::StoredDifference apart = kernel.difference(other, 1);
    CHECK(apart.different == 1);
    CHECK(apart.one_step == 1);
    CHECK(apart.norm > 0);
    CHECK(apart.worst_group() == 0);
    CHECK(apart.scales_different == 0);
  }
}

TEST_CASE("a scale of f32 that is a unit off leaves codes neighbours") {
  ir::TensorType type = test::GraphBuilder::type("fp8_1x128");
  type.rule = ir::ScaleRule::te_f32;
  const Kernel kernel(type);
  Buffers other = kernel.stored;
  HostTensor& scales = other.at("q.scale");
  interpreter::store_code(scales, 3, interpreter::load_code(scales, 3) + 1);
  const jit::StoredDifference near = kernel.difference(other, 1);
  CHECK(near.scales_different == 1);
  CHECK(near.different > 90);
  CHECK(near.one_step == near.different);
  interpreter::store_code(scales, 3, interpreter::load_code(scales, 3) + (1 << 22));
  CHECK(kernel.difference(other, 1).one_step == 0);
}

TEST_CASE("largest magnitudes that are made are positive, and seeds are random") {
  ir::TensorType type = test::GraphBuilder::type("nvfp4");
  type.seed_input = "rng";
  const Kernel kernel(type);
  for (int64_t e = 0; e < 3; ++e) CHECK(interpreter::load_one(kernel.inputs.at("most"), e) >= 1);
  const int64_t seed = interpreter::load_integer(kernel.inputs.at("rng"), 0);
  CHECK(seed != 0);
  CHECK(seed != interpreter::load_integer(kernel.inputs.at("rng"), 1));
}
