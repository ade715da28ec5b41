// Binding: arguments in, filled parameter structs out. What happens at a launch is in bound_call.cpp.
#include "runtime/bind.h"

#include <cstring>
#include <fmt/format.h>
#include <limits>

#include "runtime/store_integer.h"
#include "runtime/tensor_map.h"

namespace epifuse::runtime {
namespace {

constexpr int pointer_alignment = 8;

struct Range {
  std::string name;
  uint64_t begin = 0, end = 0;
  bool written = false;
};

}  // namespace

class Binder {
 public:
  Binder(ModulePtr module, const Arguments& arguments)
      : module_(std::move(module)),
        compiled_(module_->compiled()),
        recipe_(module_->recipe()),
        arguments_(arguments),
        sm_count_(module_->device().info().sm_count),
        call_(module_) {}

  Result<BoundCall> run() {
    auto resolved = resolve_arguments(compiled_, arguments_, sm_count_);
    if (!resolved) return resolved.error();
    resolved_ = std::move(*resolved);
    const CurrentContext scope(module_->device());
    if (scope.code() != cuda::Code::success) {
      return driver_error(driver(), scope.code(), fmt::format("binding kernel '{}'", recipe_.kernel));
    }
    if (const Status s = check_pointers(); !s) return s.error();
    if (const Status s = check_workspace(); !s) return s.error();
    if (const Status s = check_overlap(); !s) return s.error();
    if (const Status s = read_params(); !s) return s.error();
    for (size_t i = 0; i < recipe_.steps.size(); ++i) {
      const bool is_memset = recipe_.steps[i].kind == RecipeStep::Kind::memset;
      const Status s = is_memset ? make_memset(i) : make_launch(i);
      if (!s) return Error{s.error().kind, fmt::format("kernel '{}': {}", recipe_.kernel, s.error().message)};
    }
    if (const Status s = collect_group_sizes(); !s) return s.error();
    return std::move(call_);
  }

 private:
  const DriverApi& driver() const { return module_->device().driver(); }

  Status check_pointers() {
    for (size_t i = 0; i < recipe_.tensors.size(); ++i) {
      const RecipeTensor& wanted = recipe_.tensors[i];
      const auto& tensor = resolved_.tensors[i];
      const int alignment = wanted.pointer_axes == 0 ? wanted.alignment : pointer_alignment;
      if (const Status s = check_pointer(what(wanted), tensor.argument->pointer, tensor.bytes, alignment); !s) return s;
    }
    return {};
  }

  static std::string what(const RecipeTensor& tensor) {
    return fmt::format("{}tensor '{}'", tensor.pointer_axes == 0 ? "" : "the array of pointers of ", tensor.name);
  }

  Status check_pointer(const std::string& what, cuda::DevicePointer pointer, int64_t bytes, int alignment) const {
    if (bytes == 0) return {};
    if (pointer == 0) return user_error(fmt::format("{} has a null pointer", what));
    if (pointer % static_cast<uint64_t>(alignment) != 0) {
      return user_error(
          fmt::format("{} is at {:#x}, wanted an address that is a multiple of {}", what, pointer, alignment));
    }
    if (pointer + static_cast<uint64_t>(bytes) < pointer) {
      return user_error(fmt::format("{} at {:#x} reaches past the end of memory", what, pointer));
    }
    unsigned memory_type = 0;
    int ordinal = -1;
    cuda::PointerAttribute attributes[] = {cuda::PointerAttribute::memory_type, cuda::PointerAttribute::device_ordinal};
    void* values[] = {&memory_type, &ordinal};
    const auto code = driver().pointer_get_attributes(2, attributes, values, pointer);
    if (const Status s = check(driver(), code, what); !s) return s;
    if (memory_type == static_cast<unsigned>(cuda::MemoryType::none)) {
      return user_error(fmt::format("{} at {:#x} is not in memory that CUDA knows", what, pointer));
    }
    const int wanted = module_->device().info().ordinal;
    if (memory_type == static_cast<unsigned>(cuda::MemoryType::device) && ordinal != wanted) {
      return user_error(fmt::format("{} is in memory of GPU {}, wanted GPU {}", what, ordinal, wanted));
    }
    return {};
  }

  Status check_workspace() {
    const auto wanted = compiled_.workspace_bytes.evaluate(resolved_.slots);
    if (!wanted) return wanted.error();
    if (*wanted <= 0) return {};
    workspace_bytes_ = *wanted;
    if (arguments_.workspace.bytes < *wanted) {
      return user_error(fmt::format("the workspace of kernel '{}' has {} bytes, wanted {}", recipe_.kernel,
                                    arguments_.workspace.bytes, *wanted));
    }
    return check_pointer("the workspace", arguments_.workspace.pointer, *wanted, workspace_alignment);
  }

  Status check_overlap() const {
    std::vector<Range> ranges;
    for (size_t i = 0; i < recipe_.tensors.size(); ++i) {
      const RecipeTensor& wanted = recipe_.tensors[i];
      const auto& tensor = resolved_.tensors[i];
      if (tensor.bytes == 0) continue;
      const uint64_t begin = tensor.argument->pointer;
      const bool written = wanted.role == TensorRole::output && wanted.pointer_axes == 0;
      ranges.push_back({what(wanted), begin, begin + static_cast<uint64_t>(tensor.bytes), written});
    }
    if (arguments_.workspace.bytes > 0) {
      const auto& workspace = arguments_.workspace;
      ranges.push_back(
          {"the workspace", workspace.pointer, workspace.pointer + static_cast<uint64_t>(workspace.bytes), true});
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Range &a = ranges[j], &b = ranges[i];
        if ((a.written || b.written) && a.begin < b.end && b.begin < a.end) {
          return user_error(
              fmt::format("{} ({:#x} to {:#x}) and {} ({:#x} to {:#x}) overlap, and one of them is written", a.name,
                          a.begin, a.end, b.name, b.begin, b.end));
        }
      }
    }
    return {};
  }

  Status read_params() {
    for (const RecipeParam& param : recipe_.params) {
      std::optional<double> value = param.default_value;
      for (const NamedNumber& given : arguments_.params) {
        if (given.name == param.name) value = given.value;
      }
      if (!value) return user_error(fmt::format("param '{}' of kernel '{}' is not given", param.name, recipe_.kernel));
      params_.push_back(static_cast<float>(*value));
    }
    for (const NamedNumber& given : arguments_.params) {
      bool known = false;
      for (const RecipeParam& param : recipe_.params) known |= given.name == param.name;
      if (!known) return user_error(fmt::format("kernel '{}' has no param '{}'", recipe_.kernel, given.name));
    }
    return {};
  }

  // The value at the device's own count, or, where the expression depends on the count, at every count.
  Result<PerSmCount> per_sm_count(const IntProgram& program) {
    PerSmCount out;
    if (!program.uses(compiled_.sm_count_slot)) {
      const auto value = program.evaluate(resolved_.slots);
      if (!value) return value.error();
      out.fixed = *value;
      return out;
    }
    auto& slot = resolved_.slots[static_cast<size_t>(compiled_.sm_count_slot)];
    out.table.push_back(0);  // no launch has 0 multiprocessors
    for (int count = 1; count <= sm_count_; ++count) {
      slot = count;
      const auto value = program.evaluate(resolved_.slots);
      if (!value) return value.error();
      out.table.push_back(*value);
    }
    return out;  // the slot holds the device's count again
  }

  Status make_memset(size_t index) {
    const auto offset = compiled_.steps[index].workspace_offset.evaluate(resolved_.slots);
    if (!offset) return offset.error();
    const auto bytes = compiled_.steps[index].bytes.evaluate(resolved_.slots);
    if (!bytes) return bytes.error();
    BoundCall::Step& step = call_.steps_.emplace_back();
    step.is_memset = true;
    if (*bytes <= 0) return {};
    if (*offset < 0 || *offset > workspace_bytes_ || *bytes > workspace_bytes_ - *offset) {
      return user_error(
          fmt::format("a memset of {} bytes at {} leaves the workspace of {}", *bytes, *offset, workspace_bytes_));
    }
    step.address = arguments_.workspace.pointer + static_cast<uint64_t>(*offset);
    step.bytes = static_cast<size_t>(*bytes);
    return {};
  }

  Status make_launch(size_t index) {
    const RecipeStep& from = recipe_.steps[index];
    BoundCall::Step& step = call_.steps_.emplace_back();
    auto grid = per_sm_count(compiled_.steps[index].grid);
    if (!grid) return grid.error();
    step.grid = std::move(*grid);
    for (const int64_t blocks : step.grid.table) {
      if (const Status s = check_grid(from.entry, blocks); !s) return s;
    }
    if (const Status s = check_grid(from.entry, step.grid.fixed); !s) return s;
    step.config = {1, 1, 1, from.block, 1, 1, from.shared_bytes, nullptr, nullptr, 0};
    step.parameters.resize((from.parameter_bytes + sizeof(BoundCall::Chunk) - 1) / sizeof(BoundCall::Chunk));
    auto* block = step.parameters.front().bytes;
    std::memset(block, 0, step.parameters.size() * sizeof(BoundCall::Chunk));
    for (size_t i = 0; i < from.fields.size(); ++i) {
      if (const Status s = fill(from.fields[i], compiled_.steps[index].fields[i], block, step); !s) return s;
    }
    return {};
  }

  static Status check_grid(const std::string& entry, int64_t blocks) {
    if (blocks <= std::numeric_limits<int32_t>::max()) return {};
    return user_error(fmt::format("entry '{}' would need {} blocks, more than a GPU can launch", entry, blocks));
  }

  Status fill(const ParameterField& field, const CompiledRecipe::Field& compiled, std::byte* block,
              BoundCall::Step& step) {
    std::byte* at = block + field.offset;
    const auto put = [at](const auto& value) { std::memcpy(at, &value, sizeof value); };
    switch (field.kind) {
      case FieldKind::tensor_map: {
        const auto map = static_cast<size_t>(field.index);
        const auto index = static_cast<size_t>(compiled_.maps[map].tensor);
        const auto& tensor = resolved_.tensors[index];
        const bool no_base = tensor.bytes == 0 || recipe_.tensors[index].pointer_axes != 0;
        const cuda::DevicePointer pointer = no_base ? 0 : tensor.argument->pointer;
        return encode_tensor_map(driver(), compiled_, map, pointer, resolved_.slots, at);
      }
      case FieldKind::param: put(params_[static_cast<size_t>(field.index)]); return {};
      case FieldKind::address: {
        if (field.tensor.empty()) return {};  // left out: null
        const auto offset = compiled.value.evaluate(resolved_.slots);
        if (!offset) return offset.error();
        if (compiled.tensor < 0 && (*offset < 0 || *offset > workspace_bytes_)) {
          return user_error(
              fmt::format("'{}' would be {} bytes into the workspace of {}", field.name, *offset, workspace_bytes_));
        }
        const cuda::DevicePointer base =
            compiled.tensor < 0 ? arguments_.workspace.pointer
                                : resolved_.tensors[static_cast<size_t>(compiled.tensor)].argument->pointer;
        put(base == 0 ? base : base + static_cast<uint64_t>(*offset));
        return {};
      }
      case FieldKind::integer32:
      case FieldKind::integer64: break;
    }
    auto value = per_sm_count(compiled.value);
    if (!value) return value.error();
    for (const int64_t v : value->table) {
      if (const Status s = check_fits(field, v); !s) return s;
    }
    if (const Status s = check_fits(field, value->fixed); !s) return s;
    store_integer(at, field.size, value->at(sm_count_));
    if (!value->table.empty()) step.sm_fields.push_back({field.offset, field.size, std::move(*value)});
    return {};
  }

  static Status check_fits(const ParameterField& field, int64_t value) {
    const bool narrow = field.kind == FieldKind::integer32;
    if (!narrow || (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max())) {
      return {};
    }
    return user_error(fmt::format("the value {} of '{}' does not fit in 32 bits", value, field.name));
  }

  Status collect_group_sizes() {
    for (size_t i = 0; i < recipe_.tensors.size(); ++i) {
      const RecipeTensor& tensor = recipe_.tensors[i];
      if (tensor.role != TensorRole::group_sizes) continue;
      const auto symbol = compiled_.slot(tensor.name.substr(0, tensor.name.rfind('.')));
      const int64_t capacity =
          symbol ? resolved_.slots[static_cast<size_t>(*symbol)].value_or(0) : std::numeric_limits<int64_t>::max();
      const auto slot = compiled_.tensors[i].group_slot.evaluate(resolved_.slots);
      if (!slot) return slot.error();
      call_.group_sizes_.push_back(
          {&tensor, resolved_.tensors[i].argument->pointer, resolved_.tensors[i].elements, capacity, *slot});
    }
    return {};
  }

  ModulePtr module_;
  const CompiledRecipe& compiled_;
  const LaunchRecipe& recipe_;
  const Arguments& arguments_;
  const int sm_count_;
  ResolvedArguments resolved_;
  std::vector<float> params_;
  int64_t workspace_bytes_ = 0;  // that the kernel asks for
  BoundCall call_;
};

Result<BoundCall> bind_call(ModulePtr module, const Arguments& arguments) {
  return Binder(std::move(module), arguments).run();
}

Result<int64_t> workspace_bytes(const Module& module, const Arguments& arguments) {
  const auto resolved = resolve_arguments(module.compiled(), arguments, module.device().info().sm_count);
  if (!resolved) return resolved.error();
  const auto bytes = module.compiled().workspace_bytes.evaluate(resolved->slots);
  if (!bytes) return bytes.error();
  return *bytes > 0 ? *bytes : 0;
}

}  // namespace epifuse::runtime
