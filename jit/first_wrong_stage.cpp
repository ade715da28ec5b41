#include "jit/first_wrong_stage.h"

#include "base/ensure.h"
#include "jit/device_call.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::Verdict;

constexpr uint8_t poison = 0xFF;

// The kernel with its inner values as outputs: what they should be.
ir::Graph with_inner_outputs(const lowering::Unfused& unfused) {
  ir::Graph graph = unfused.graph;
  for (const lowering::Intermediate& made : unfused.intermediates) {
    ir::Output output;
    output.tensor = made.tensor;
    output.value = made.value;
    output.contracted.emplace();  // as it is computed, also of no terms
    graph.outputs.push_back(std::move(output));
  }
  return graph;
}

const ir::Output& output_of(const ir::Graph& graph, const std::string& name) {
  for (const ir::Output& output : graph.outputs)
    if (output.tensor.name == name) return output;
  fail("a stage makes no tensor of the kernel", __FILE__, __LINE__);
}

}  // namespace

Result<std::optional<Verdict>> first_wrong_stage(Engine& engine, const CompiledUnfusedPtr& unfused,
                                                 const Buffers& inputs, const Buffers& before,
                                                 const interpreter::Params& params, interpreter::GemmProvider& gemm,
                                                 int threads, const runtime::DevicePtr& device) {
  const ir::Graph graph = with_inner_outputs(unfused->unfused);
  const auto reference = interpreter::Reference::make(graph, inputs, params, gemm, threads);
  if (!reference) return reference.error();
  Result<Buffers> stored = interpreter::make_outputs(reference->problem());
  if (!stored) return stored.error();
  const Result<LaunchSequence> loaded = load_unfused(engine, unfused, device);
  if (!loaded) return loaded.error();
  Result<DeviceCall> call = DeviceCall::make(*loaded, inputs, *stored, params);
  if (!call) return call.error();
  if (Status filled = call->fill_outputs(poison, before); !filled) return filled.error();
  if (Status launched = call->launch(0); !launched) return launched.error();
  if (Status copied = call->download(*stored); !copied) return copied.error();
  for (const lowering::UnfusedStage& stage : unfused->unfused.stages) {
    const ir::Output& output = output_of(graph, stage.graph.outputs.front().tensor.name);
    Result<Verdict> verdict =
        interpreter::judge(*reference, output, *stored, {output.accumulate ? &before : nullptr, poison});
    if (!verdict) return verdict.error();
    if (!verdict->ok) return {*std::move(verdict)};
  }
  return {std::nullopt};
}

}  // namespace epifuse::jit
