#include "jit/run.h"

#include "jit/device_call.h"

namespace epifuse::jit {

Result<interpreter::Buffers> run_on_gpu(Engine& engine, const CompiledKernelPtr& kernel,
                                        const interpreter::Buffers& buffers, const RunOptions& options,
                                        const runtime::DevicePtr& device) {
  const Result<LoadedKernel> loaded = engine.load(kernel, device);
  if (!loaded) return loaded.error();
  return run_on_gpu(kernel->planned.graph, *loaded, buffers, options);
}

Result<interpreter::Buffers> run_on_gpu(const ir::Graph& graph, const LaunchSequence& kernel,
                                        const interpreter::Buffers& buffers, const RunOptions& options) {
  const Result<interpreter::Problem> problem = interpreter::Problem::bind(graph, buffers, options.params);
  if (!problem) return problem.error();
  Result<interpreter::Buffers> outputs = interpreter::make_outputs(*problem);
  if (!outputs) return outputs.error();
  interpreter::Buffers before;
  for (const auto& [name, tensor] : *outputs)
    if (const auto given = buffers.find(name); given != buffers.end()) before.insert(*given);
  Result<DeviceCall> call = DeviceCall::make(kernel, buffers, *outputs, options.params);
  if (!call) return call.error();
  if (Status filled = call->fill_outputs(0, before); !filled) return filled.error();
  if (Status launched = call->launch(options.sm_margin); !launched) return launched.error();
  if (Status copied = call->download(*outputs); !copied) return copied.error();
  return outputs;
}

}  // namespace epifuse::jit
