#include "jit/device_call.h"

#include <fmt/format.h>

#include "base/ensure.h"

namespace epifuse::jit {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;

std::span<const std::byte> bytes_of(const HostTensor& tensor) { return std::as_bytes(std::span(tensor.bytes)); }

}  // namespace

Result<DeviceCall> DeviceCall::make(const LaunchSequence& kernel, const Buffers& buffers, const Buffers& outputs,
                                    const interpreter::Params& params) {
  const runtime::DevicePtr& device = kernel.device();
  Result<runtime::OwnedStream> stream = runtime::make_stream(device);
  if (!stream) return stream.error();
  runtime::Arguments arguments;
  std::vector<Tensor> tensors;
  std::vector<RecipeTensor> all = kernel.recipe().tensors;
  for (const BetweenTensor& between : kernel.between())
    if (outputs.contains(between.tensor.name)) all.push_back(between.tensor);
  for (const RecipeTensor& wanted : all) {
    const bool is_output = wanted.role == TensorRole::output;
    const Buffers& source = is_output ? outputs : buffers;
    const auto found = source.find(wanted.name);
    if (found == source.end()) return user_error(fmt::format("'{}' is not given", wanted.name));
    const HostTensor& tensor = found->second;
    Result<DeviceTensor> memory =
        DeviceTensor::allocate(device, wanted, tensor.extents, tensor.bytes.size(), stream->get());
    if (!memory) return memory.error();
    if (!is_output) {
      if (Status uploaded = memory->upload(bytes_of(tensor), stream->get()); !uploaded) return uploaded.error();
    }
    arguments.tensors.push_back({wanted.name, memory->pointer(), tensor.extents, {}, tensor.storage});
    tensors.push_back({wanted.name, is_output, *std::move(memory)});
  }
  arguments.dims = kernel.dims();
  for (const auto& [name, value] : params) arguments.params.push_back({name, value});

  std::vector<runtime::GuardBuffer> workspace;
  const Result<int64_t> workspace_bytes = kernel.workspace_bytes(arguments);
  if (!workspace_bytes) return workspace_bytes.error();
  if (*workspace_bytes > 0) {
    Result<runtime::GuardBuffer> memory =
        runtime::GuardBuffer::allocate(device, static_cast<size_t>(*workspace_bytes), workspace_alignment);
    if (!memory) return memory.error();
    arguments.workspace = {memory->pointer(), *workspace_bytes};
    workspace.push_back(*std::move(memory));
  }
  Result<BoundSequence> call = kernel.bind(arguments);
  if (!call) return call.error();
  return DeviceCall(*std::move(call), std::move(tensors), std::move(workspace), *std::move(stream));
}

Status DeviceCall::fill_outputs(uint8_t byte, const Buffers& before) {
  for (Tensor& tensor : tensors_) {
    if (!tensor.is_output) continue;
    const auto held = before.find(tensor.name);
    const Status filled = held == before.end() ? tensor.memory.fill(byte, stream_.get())
                                               : tensor.memory.upload(bytes_of(held->second), stream_.get());
    if (!filled) return filled;
  }
  for (runtime::GuardBuffer& workspace : workspace_)
    if (Status filled = workspace.fill(byte == 0 ? 0xFF : byte, stream_.get()); !filled) return filled;
  return {};
}

Status DeviceCall::launch(int sm_margin) {
  if (Status sound = call_.check_group_sizes(stream_.get()); !sound) return sound;
  if (Status launched = call_.launch(stream_.get(), sm_margin); !launched) return launched;
  return call_.synchronize(stream_.get());
}

Status DeviceCall::download(Buffers& outputs) const {
  for (const Tensor& tensor : tensors_) {
    if (!tensor.is_output) continue;
    HostTensor& to = outputs.at(tensor.name);
    if (Status copied = tensor.memory.download(std::as_writable_bytes(std::span(to.bytes)), stream_.get()); !copied) {
      return copied;
    }
  }
  return {};
}

DeviceTensor& DeviceCall::memory(std::string_view name) {
  for (Tensor& tensor : tensors_)
    if (tensor.name == name) return tensor.memory;
  fail("a kernel has no such tensor", __FILE__, __LINE__);
}

Result<std::vector<std::string>> DeviceCall::misplaced_writes(const Buffers& buffers) const {
  std::vector<std::string> found;
  for (const Tensor& tensor : tensors_) {
    const Result<size_t> touched = tensor.memory.bytes_touched_around(stream_.get());
    if (!touched) return touched.error();
    if (*touched != 0)
      found.push_back(fmt::format("{} bytes around the buffer '{}' were written", *touched, tensor.name));
    const Result<bool> written = tensor.memory.pointers_written(stream_.get());
    if (!written) return written.error();
    if (*written) found.push_back(fmt::format("the array of pointers of '{}' was written", tensor.name));
    if (tensor.is_output) continue;
    std::vector<uint8_t> now(tensor.memory.bytes());
    if (Status copied = tensor.memory.download(std::as_writable_bytes(std::span(now)), stream_.get()); !copied) {
      return copied.error();
    }
    if (now != buffers.at(tensor.name).bytes) found.push_back(fmt::format("the input '{}' was written", tensor.name));
  }
  for (const runtime::GuardBuffer& memory : workspace_) {
    const Result<size_t> touched = memory.bytes_touched_around(stream_.get());
    if (!touched) return touched.error();
    if (*touched != 0) found.push_back(fmt::format("{} bytes around the workspace were written", *touched));
  }
  return found;
}

}  // namespace epifuse::jit
