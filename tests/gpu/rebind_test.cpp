// A call that is rebound computes from the buffers it was moved to, through maps that the driver only moved, and leaves
// the old ones alone.
#include "compiler/interpreter/compare.h"
#include "jit/device_call.h"
#include "tests/gpu/support/kernels.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Side {
  interpreter::Buffers inputs, outputs;
  jit::DeviceCall call;
};

Side make_side(const jit::LoadedKernel& kernel, const ir::Graph& graph, uint64_t seed) {
  jit::InputOptions options;
  options.counts = {130, 0, 257, 64};
  options.seed = seed;
  interpreter::Buffers inputs = must(jit::make_inputs(graph, options));
  interpreter::Buffers outputs = must(interpreter::make_outputs(must(interpreter::Problem::bind(graph, inputs, {}))));
  jit::DeviceCall call = must(jit::DeviceCall::make(kernel, inputs, outputs, {}));
  return {std::move(inputs), std::move(outputs), std::move(call)};
}

}  // namespace

TEST_CASE("a call that is rebound works on its new buffers alone") {
  constexpr uint8_t poison = 0xAA;
  const auto kernel = compile_spec(file_text("specs/moe_fc1_swiglu.epi"), {{"E", 4}, {"K", 256}, {"I", 256}});
  const ir::Graph& graph = kernel->planned.graph;
  const jit::LoadedKernel loaded = must(engine().load(kernel, gpu().device));
  Side first = make_side(loaded, graph, 1), second = make_side(loaded, graph, 2);
  must(first.call.fill_outputs(poison, {}));
  must(second.call.fill_outputs(poison, {}));
  must(first.call.bound().synchronize(first.call.stream()));

  std::vector<cuda::DevicePointer> addresses;
  for (const RecipeTensor& tensor : kernel->image.recipe.tensors)
    addresses.push_back(second.call.memory(tensor.name).pointer());
  jit::BoundSequence moved = first.call.bound();
  must(moved.rebind(addresses, 0));
  must(moved.launch(second.call.stream()));
  must(moved.synchronize(second.call.stream()));

  must(second.call.download(second.outputs));
  const auto gemm = interpreter::cpu_gemm();
  const auto reference = must(interpreter::Reference::make(graph, second.inputs, {}, *gemm));
  for (const ir::Output& output : graph.outputs) {
    const auto verdict = must(interpreter::judge(reference, output, second.outputs, {nullptr, poison}));
    INFO(verdict.print());
    CHECK(verdict.ok);
  }
  CHECK(must(second.call.misplaced_writes(second.inputs)).empty());
  must(first.call.download(first.outputs));
  for (const auto& [name, tensor] : first.outputs) {
    INFO(name);
    CHECK(std::all_of(tensor.bytes.begin(), tensor.bytes.end(), [](uint8_t byte) { return byte == poison; }));
  }
}
