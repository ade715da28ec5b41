// Launching a bound call: the hot path. No allocation, no lock, no lookup; only an error makes a string.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "runtime/bind.h"
#include "runtime/group_sizes.h"
#include "runtime/store_integer.h"
#include "runtime/stream.h"

namespace epifuse::runtime {

Status BoundCall::launch(cuda::Stream stream, const LaunchOptions& options) const {
  const Device& device = module_->device();
  const int sm_count = device.info().sm_count - options.sm_margin;
  if (options.sm_margin < 0 || sm_count < 1) {
    return user_error(fmt::format("kernel '{}': an sm_margin of {} on a GPU of {} multiprocessors",
                                  module_->recipe().kernel, options.sm_margin, device.info().sm_count));
  }
  if (options.sm_margin != 0) {
    if (Status s = check_margin(sm_count); !s) return s;
  }
  // Without rows no kernel runs, and then nothing needs a cleared workspace either.
  bool has_work = false;
  for (const Step& step : steps_) has_work |= !step.is_memset && value_at(step.grid, sm_count) >= 1;
  if (!has_work) return {};

  const CurrentContext scope(device);
  if (scope.code() != cuda::Code::success) return failed(scope.code(), "launching", "");
  bool overlaps = options.overlap_previous;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (Status s = launch_step(i, stream, sm_count, scope.is_primary(), overlaps); !s) return s;
  }
  return {};
}

int64_t BoundCall::value_at(const PerSmCount& value, int sm_count) const {
  if (value.factor != 0) return std::min(value.factor * sm_count, value.most);
  if (!value.program || sm_count == module_->device().info().sm_count) return value.whole;
  return *value.program->evaluate(slots_, module_->compiled().sm_count_slot, sm_count);
}

Status BoundCall::check_margin(int sm_count) const {
  const int slot = module_->compiled().sm_count_slot;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].grid.program) {
      const auto blocks = steps_[i].grid.program->evaluate(slots_, slot, sm_count);
      if (!blocks) return blocks.error();
      if (Status s = check_grid(module_->recipe().steps[i].entry, *blocks); !s) return s;
    }
    for (const SmField& field : steps_[i].sm_fields) {
      if (!field.value.program) continue;  // less than with all multiprocessors
      const auto value = field.value.program->evaluate(slots_, slot, sm_count);
      if (!value) return value.error();
      if (Status s = check_fits(*field.field, *value); !s) return s;
    }
  }
  return {};
}

Status BoundCall::launch_step(size_t index, cuda::Stream stream, int sm_count, bool primary, bool& overlaps) const {
  const Step& step = steps_[index];
  const DriverApi& driver = module_->device().driver();
  if (step.is_memset) {
    if (step.bytes == 0) return {};
    overlaps = false;
    const auto code = driver.memset_d8_async(buffers_.back().begin + step.workspace_offset, 0, step.bytes, stream);
    if (code == cuda::Code::success) return {};
    return failed(code, "clearing the workspace", "");
  }
  const int64_t grid = value_at(step.grid, sm_count);
  if (grid < 1) return {};
  cuda::LaunchConfig config = step.config;
  config.grid_x = static_cast<unsigned>(grid);
  config.stream = stream;
  cuda::LaunchAttribute overlap{};
  if (step.waits && overlaps) {
    overlap.id = cuda::LaunchAttributeId::programmatic_stream_serialization;
    overlap.value.programmatic_stream_serialization = 1;
    config.attributes = &overlap;
    config.attribute_count = 1;
  }
  overlaps = true;

  // The driver copies the struct before it returns, so a launch with a margin may patch a copy of its own.
  const void* parameters = step.parameters.data();
  alignas(64) std::byte patched[max_parameter_bytes];
  if (sm_count != module_->device().info().sm_count && !step.sm_fields.empty()) {
    std::memcpy(patched, parameters, module_->recipe().steps[index].parameter_bytes);
    for (const SmField& field : step.sm_fields) {
      store_integer(patched + field.field->offset, field.field->size, value_at(field.value, sm_count));
    }
    parameters = patched;
  }
  void* arguments[] = {const_cast<void*>(parameters)};
  // A function belongs to the primary context; in another context of the device the kernel's own handle is launched.
  const Module::Entry& entry = module_->entry(index);
  const auto function = primary ? entry.function : reinterpret_cast<cuda::Function>(entry.kernel);
  const auto code = driver.launch_kernel_ex(&config, function, arguments, nullptr);
  if (code == cuda::Code::success) return {};
  return failed(code, "launching", module_->recipe().steps[index].entry);
}

Status BoundCall::synchronize(cuda::Stream stream) const {
  const Device& device = module_->device();
  return runtime::synchronize(
      device, stream,
      fmt::format("kernel '{}' on GPU {} ({})", module_->recipe().kernel, device.info().ordinal, device.info().name));
}

Status BoundCall::check_group_sizes(cuda::Stream stream) const {
  const Device& device = module_->device();
  const DriverApi& driver = device.driver();
  const std::string doing = fmt::format("reading the group sizes of kernel '{}'", module_->recipe().kernel);
  const CurrentContext scope(device);
  if (scope.code() != cuda::Code::success) return driver_error(driver, scope.code(), doing);
  for (const GroupSizes& sizes : group_sizes_) {
    if (sizes.count == 0) continue;
    const auto count = static_cast<size_t>(sizes.count);
    const RecipeTensor& tensor = module_->recipe().tensors[sizes.buffer];
    const auto width = static_cast<size_t>(storage_bits(tensor.storage)) / 8;
    std::vector<std::byte> raw(count * width);
    auto code = driver.memcpy_dtoh_async(raw.data(), buffers_[sizes.buffer].begin, raw.size(), stream);
    if (code == cuda::Code::success) code = driver.stream_synchronize(stream);
    if (const Status s = check(driver, code, doing); !s) return s;
    std::vector<int64_t> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = load_integer(raw.data() + i * width, width);
    if (Status s = runtime::check_group_sizes(tensor, values, sizes.capacity, sizes.slot); !s) return s;
  }
  return {};
}

Error BoundCall::failed(cuda::Code code, std::string_view doing, const std::string& entry) const {
  const Device& device = module_->device();
  return driver_error(
      device.driver(), code,
      fmt::format("{} kernel '{}'{} on GPU {} ({})", doing, module_->recipe().kernel,
                  entry.empty() ? "" : fmt::format(" (entry '{}')", entry), device.info().ordinal, device.info().name));
}

}  // namespace epifuse::runtime
