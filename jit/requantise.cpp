#include "jit/requantise.h"

#include <cmath>

#include "base/numbers.h"
#include "compiler/interpreter/element_judge.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/unfuse.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;

// The f32 output of the same value, if there is one.
const ir::Output* same_value(const ir::Graph& graph, const ir::Output& output) {
  for (const ir::Output& other : graph.outputs)
    if (!other.left_out && other.value == output.value && other.tensor.type.format == ir::Format::f32 &&
        other.reduction == ir::Reduction::none && !other.accumulate)
      return &other;
  return nullptr;
}

// out NAME : mxfp8[..] = values
ir::Graph quantiser_of(const ir::Graph& graph, const ir::Output& values, const ir::Output& output) {
  ir::Graph alone;
  alone.name = graph.name;
  alone.dims = graph.dims;
  alone.inputs.push_back({values.tensor, std::nullopt, false});
  for (const ir::Input& input : graph.inputs)
    if (input.tensor.name == output.tensor.type.amax_input || input.tensor.name == output.tensor.type.seed_input)
      alone.inputs.push_back(input);
  ir::Node node;
  node.op = ir::Op::input;
  node.index = 0;
  node.shape = values.tensor.shape;
  alone.nodes.push_back(std::move(node));
  alone.outputs.push_back(output);
  alone.outputs.back().value = 0;
  alone.outputs.back().ordinal = graph.ordinal(output);  // its random bits are those of the whole kernel's
  lowering::drop_unused_dims(alone);                     // the size of each would be asked for
  return alone;
}

struct Apart {
  int64_t different = 0, one_step = 0;
};

// Codes of elements, of which any NaN is NaN.
Apart codes_apart(const HostTensor& a, const HostTensor& b) {
  Apart apart;
  if (a.bytes == b.bytes) return apart;
  const auto is_nan = [&](uint32_t code) { return std::isnan(decode(a.storage, code)); };
  for (int64_t i = 0; i < a.elements(); ++i) {
    const uint32_t x = interpreter::load_code(a, i), y = interpreter::load_code(b, i);
    if (x == y || (is_nan(x) && is_nan(y))) continue;
    ++apart.different;
    apart.one_step += interpreter::one_step(float_format(a.storage), x, y);
  }
  return apart;
}

// Scales, compared as they are.
Apart scales_apart(const HostTensor& a, const HostTensor& b) {
  Apart apart;
  if (a.bytes == b.bytes) return apart;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const uint32_t x = interpreter::load_code(a, i), y = interpreter::load_code(b, i);
    apart.different += x != y;
    apart.one_step += x + 1 == y || y + 1 == x;
  }
  return apart;
}

}  // namespace

Result<std::vector<Requantised>> requantise(const ir::Graph& graph, const Buffers& inputs, const Buffers& stored,
                                            uint8_t poison, int threads) {
  std::vector<Requantised> list;
  for (const ir::Output& output : graph.outputs) {
    if (output.left_out || !output.tensor.type.scaled() || output.reduction != ir::Reduction::none) continue;
    const ir::Output* values = same_value(graph, output);
    if (!values) continue;
    const ir::Graph alone = quantiser_of(graph, *values, output);
    const std::string &name = output.tensor.name, scale = name + ".scale";
    Buffers buffers = inputs;
    buffers[values->tensor.name] = stored.at(values->tensor.name);
    for (const std::string& buffer : {name, scale}) {
      const HostTensor& tensor = stored.at(buffer);
      buffers[buffer] = interpreter::make_tensor(tensor.storage, tensor.extents, poison);
    }
    const Result<Buffers> again = interpreter::run(alone, buffers, {}, nullptr, threads);
    if (!again) return again.error();
    Requantised result;
    result.output = name;
    result.values = values->tensor.name;
    result.codes = stored.at(name).elements();
    const Apart codes = codes_apart(stored.at(name), again->at(name));
    result.codes_different = codes.different;
    result.codes_one_step = codes.one_step;
    result.scales = stored.at(scale).elements();
    const Apart scales = scales_apart(stored.at(scale), again->at(scale));
    result.scales_different = scales.different;
    result.scales_one_step = scales.one_step;
    list.push_back(std::move(result));
  }
  return list;
}

}  // namespace epifuse::jit
