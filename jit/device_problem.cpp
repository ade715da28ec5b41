#include "jit/device_problem.h"

#include <span>

#include "base/ensure.h"
#include "compiler/ir/buffers.h"

namespace epifuse::jit {
namespace {

constexpr size_t buffer_alignment = 256;

std::span<const std::byte> bytes_of(const interpreter::HostTensor& tensor) {
  return std::as_bytes(std::span(tensor.bytes));
}

std::map<std::string, std::vector<int64_t>> group_counts(const interpreter::Problem& problem) {
  std::map<std::string, std::vector<int64_t>> counts;
  const ir::Graph& graph = problem.graph();
  for (size_t i = 0; i < graph.dims.size(); ++i) {
    const interpreter::Groups* groups = problem.groups(static_cast<ir::DimId>(i));
    if (!groups || graph.dims[i].kind != ir::DimKind::grouped) continue;
    for (size_t e = 0; e < groups->start.size(); ++e) counts[graph.dims[i].name].push_back(groups->count(e));
  }
  return counts;
}

}  // namespace

Result<DeviceProblem> DeviceProblem::make(const ir::Graph& graph, const InputOptions& options,
                                          const interpreter::Params& params, const runtime::DevicePtr& device) {
  const Result<interpreter::Buffers> inputs = make_inputs(graph, options);
  if (!inputs) return inputs.error();
  const Result<interpreter::Problem> problem = interpreter::Problem::bind(graph, *inputs, params);
  if (!problem) return problem.error();
  const Result<interpreter::Buffers> outputs = interpreter::make_outputs(*problem);
  if (!outputs) return outputs.error();
  Result<runtime::OwnedStream> stream = runtime::make_stream(device);
  if (!stream) return stream.error();

  DeviceProblem made(device, *std::move(stream), params);
  made.counts_ = group_counts(*problem);
  for (const ir::Buffer& buffer : ir::buffers(graph)) {
    const interpreter::Buffers& source = buffer.role == TensorRole::output ? *outputs : *inputs;
    const auto found = source.find(buffer.name);
    if (found == source.end()) continue;  // an input that is left out
    const interpreter::HostTensor& host = found->second;
    Tensor tensor{buffer.name, host.storage, host.extents, buffer.pointer_axes, 0, {}};
    if (Status placed = made.place(tensor, bytes_of(host)); !placed) return placed.error();
    made.tensors_.push_back(std::move(tensor));
  }
  return made;
}

Status DeviceProblem::place(Tensor& tensor, std::span<const std::byte> holds) {
  std::vector<uint64_t> array;
  if (tensor.pointer_axes > 0) {
    size_t count = 1;
    for (int axis = 0; axis < tensor.pointer_axes; ++axis)
      count *= static_cast<size_t>(tensor.extents[static_cast<size_t>(axis)]);
    const size_t part = count == 0 ? 0 : holds.size() / count;
    for (size_t i = 0; i < count; ++i) {
      const Result<cuda::DevicePointer> pointer = allocate(part, holds.subspan(i * part, part));
      if (!pointer) return pointer.error();
      array.push_back(*pointer);
    }
    holds = std::as_bytes(std::span(array));
  }
  const Result<cuda::DevicePointer> pointer = allocate(holds.size(), holds);
  if (!pointer) return pointer.error();
  tensor.bound_bytes = holds.size();
  tensor.pointers.push_back(*pointer);
  return {};
}

Status DeviceProblem::copy(Tensor& tensor) {
  const Result<cuda::DevicePointer> pointer = allocate(tensor.bound_bytes, {});
  if (!pointer) return pointer.error();
  const cuda::DevicePointer from = tensor.pointers.front();
  tensor.pointers.push_back(*pointer);
  if (tensor.bound_bytes == 0) return {};
  const runtime::CurrentContext scope(*device_);
  auto code = scope.code();
  if (code == cuda::Code::success)
    code = device_->driver().memcpy_dtod_async(*pointer, from, tensor.bound_bytes, stream_.get());
  if (code == cuda::Code::success) code = device_->driver().stream_synchronize(stream_.get());
  return runtime::check(device_->driver(), code, "copying a buffer on the GPU");
}

Result<cuda::DevicePointer> DeviceProblem::allocate(size_t bytes, std::span<const std::byte> holds) {
  Result<runtime::DeviceBuffer> buffer = runtime::DeviceBuffer::allocate(device_, bytes);
  if (!buffer) return buffer.error();
  EPIFUSE_ENSURE(buffer->pointer() % buffer_alignment == 0, "device memory at an unusual address");
  if (!holds.empty())
    if (Status uploaded = buffer->upload(holds, stream_.get()); !uploaded) return uploaded.error();
  memory_.push_back(*std::move(buffer));
  return memory_.back().pointer();
}

Result<size_t> DeviceProblem::add_copy() {
  for (Tensor& tensor : tensors_)
    if (Status copied = copy(tensor); !copied) return copied.error();
  return tensors_.empty() ? 1 : tensors_.front().pointers.size() - 1;
}

Result<runtime::Arguments> DeviceProblem::arguments(const LaunchSequence& form, size_t copy) {
  runtime::Arguments arguments;
  for (const RecipeTensor& wanted : form.recipe().tensors)
    for (const Tensor& tensor : tensors_)
      if (tensor.name == wanted.name)
        arguments.tensors.push_back({tensor.name, tensor.pointers[copy], tensor.extents, {}, tensor.storage});
  arguments.dims = form.dims();
  for (const auto& [name, value] : params_) arguments.params.push_back({name, value});
  const Result<int64_t> workspace = form.workspace_bytes(arguments);
  if (!workspace) return workspace.error();
  if (*workspace > 0) {
    const Result<cuda::DevicePointer> pointer = allocate(static_cast<size_t>(*workspace), {});
    if (!pointer) return pointer.error();
    arguments.workspace = {*pointer, *workspace};
  }
  return arguments;
}

Result<BoundSequence> DeviceProblem::bind(const LaunchSequence& form) {
  const Result<runtime::Arguments> bound_with = arguments(form);
  if (!bound_with) return bound_with.error();
  return form.bind(*bound_with);
}

int64_t DeviceProblem::bytes() const {
  int64_t sum = 0;
  for (const runtime::DeviceBuffer& buffer : memory_) sum += static_cast<int64_t>(buffer.bytes());
  return sum;
}

}  // namespace epifuse::jit
