// Binding: arguments in, filled parameter structs out. What happens at a launch is in bound_call.cpp.
#include "runtime/bind.h"

#include <cstring>
#include <fmt/format.h>
#include <limits>

#include "base/recipe_limits.h"
#include "runtime/store_integer.h"
#include "runtime/tensor_map.h"

namespace epifuse::runtime {
namespace {

constexpr int pointer_alignment = 8;
constexpr int64_t most_blocks_per_sm = 1 << 16;  // far more than any GPU runs

}  // namespace

Status check_grid(const std::string& entry, int64_t blocks) {
  if (blocks <= most_integer32) return {};
  return user_error(fmt::format("entry '{}' would need {} blocks, more than a GPU can launch", entry, blocks));
}

Status check_fits(const ParameterField& field, int64_t value) {
  const bool narrow = field.kind == FieldKind::integer32;
  if (!narrow || (value >= std::numeric_limits<int32_t>::min() && value <= most_integer32)) {
    return {};
  }
  return user_error(fmt::format("the value {} of '{}' does not fit in 32 bits", value, field.name));
}

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
    if (const Status s = check_overlap(recipe_, call_.buffers_); !s) return s.error();
    if (const Status s = read_params(); !s) return s.error();
    for (size_t i = 0; i < recipe_.steps.size(); ++i) {
      const bool is_memset = recipe_.steps[i].kind == RecipeStep::Kind::memset;
      const Status s = is_memset ? make_memset(i) : make_launch(i);
      if (!s) return Error{s.error().kind, fmt::format("kernel '{}': {}", recipe_.kernel, s.error().message)};
    }
    if (const Status s = collect_group_sizes(); !s) return s.error();
    call_.slots_ = std::move(resolved_.slots);
    return std::move(call_);
  }

 private:
  const DriverApi& driver() const { return module_->device().driver(); }

  Status check_pointers() {
    call_.buffers_.resize(recipe_.tensors.size() + 1);
    call_.previous_.resize(call_.buffers_.size());
    for (size_t i = 0; i < recipe_.tensors.size(); ++i) {
      const RecipeTensor& wanted = recipe_.tensors[i];
      const auto& tensor = resolved_.tensors[i];
      const bool is_buffer = wanted.pointer_axes == 0;
      call_.buffers_[i] = {tensor.argument->pointer, static_cast<uint64_t>(tensor.bytes),
                           static_cast<uint32_t>(is_buffer ? wanted.alignment : pointer_alignment),
                           is_buffer && wanted.role == TensorRole::output};
      if (const Status s = check_buffer(i); !s) return s;
    }
    return {};
  }

  // What the host sees of the address, then what the driver knows of it.
  Status check_buffer(size_t index) const {
    const BufferRange& buffer = call_.buffers_[index];
    if (buffer.bytes == 0) return {};
    if (const Status s = check_address(recipe_, index, buffer); !s) return s;
    unsigned memory_type = 0;
    int ordinal = -1;
    cuda::PointerAttribute attributes[] = {cuda::PointerAttribute::memory_type, cuda::PointerAttribute::device_ordinal};
    void* values[] = {&memory_type, &ordinal};
    const auto code = driver().pointer_get_attributes(2, attributes, values, buffer.begin);
    if (code != cuda::Code::success) return driver_error(driver(), code, buffer_text(recipe_, index));
    if (memory_type == static_cast<unsigned>(cuda::MemoryType::none)) {
      return user_error(
          fmt::format("{} at {:#x} is not in memory that CUDA knows", buffer_text(recipe_, index), buffer.begin));
    }
    const int wanted = module_->device().info().ordinal;
    if (memory_type == static_cast<unsigned>(cuda::MemoryType::device) && ordinal != wanted) {
      return user_error(
          fmt::format("{} is in memory of GPU {}, wanted GPU {}", buffer_text(recipe_, index), ordinal, wanted));
    }
    return {};
  }

  Status check_workspace() {
    const auto wanted = compiled_.workspace_bytes.evaluate(resolved_.slots);
    if (!wanted) return wanted.error();
    call_.buffers_.back().begin = arguments_.workspace.pointer;
    if (*wanted <= 0) return {};
    workspace_bytes_ = *wanted;
    if (arguments_.workspace.bytes < *wanted) {
      return user_error(fmt::format("the workspace of kernel '{}' has {} bytes, wanted {}", recipe_.kernel,
                                    arguments_.workspace.bytes, *wanted));
    }
    call_.buffers_.back() = {arguments_.workspace.pointer, static_cast<uint64_t>(arguments_.workspace.bytes),
                             workspace_alignment, true};
    return check_buffer(recipe_.tensors.size());
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

  Result<PerSmCount> per_sm_count(const IntProgram& program) const {
    const auto whole = program.evaluate(resolved_.slots);
    if (!whole) return whole.error();
    PerSmCount value{*whole, 0, 0, nullptr};
    const int slot = compiled_.sm_count_slot, uses = program.uses_of(slot);
    if (uses == 0) return value;
    const IntExpr& e = program.expression();
    if (uses == 1)
      value.factor = e.op() == IntExpr::Op::min ? sm_factor(e.left()) + sm_factor(e.right()) : sm_factor(e);
    if (value.factor == 0) {
      value.program = &program;
      return value;
    }
    // A count that no device reaches leaves what the other side of a `min` says.
    const auto most = program.evaluate(resolved_.slots, slot, int64_t{1} << 31);
    if (!most) return most.error();
    value.most = *most;
    return value;
  }

  // c of `sm_count * c`; 0: it is something else.
  static int64_t sm_factor(const IntExpr& e) {
    const auto is_count = [](const IntExpr& part) {
      return part.op() == IntExpr::Op::symbol && part.name() == multiprocessors_name;
    };
    if (is_count(e)) return 1;
    if (e.op() != IntExpr::Op::mul || !is_count(e.left())) return 0;
    const auto factor = e.right().constant();
    return factor && *factor > 0 && *factor < most_blocks_per_sm ? *factor : 0;
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
    step.workspace_offset = static_cast<uint64_t>(*offset);
    step.bytes = static_cast<size_t>(*bytes);
    return {};
  }

  Status make_launch(size_t index) {
    const RecipeStep& from = recipe_.steps[index];
    BoundCall::Step& step = call_.steps_.emplace_back();
    auto grid = per_sm_count(compiled_.steps[index].grid);
    if (!grid) return grid.error();
    step.grid = *grid;
    if (const Status s = check_grid(from.entry, step.grid.whole); !s) return s;
    step.waits = from.waits && module_->device().info().overlaps_launches;
    step.config = {1, 1, 1, from.block, 1, 1, from.shared_bytes, nullptr, nullptr, 0};
    step.parameters.resize((from.parameter_bytes + sizeof(BoundCall::Chunk) - 1) / sizeof(BoundCall::Chunk));
    auto* block = step.parameters.front().bytes;
    std::memset(block, 0, step.parameters.size() * sizeof(BoundCall::Chunk));
    for (size_t i = 0; i < from.fields.size(); ++i) {
      if (const Status s = fill(from.fields[i], compiled_.steps[index].fields[i], block, step); !s) return s;
    }
    return {};
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
        if (const Status s = encode_tensor_map(driver(), compiled_, map, pointer, resolved_.slots, at); !s) return s;
        if (!no_base) add_place(field, index, true, *compiled_.maps[map].byte_offset.evaluate(resolved_.slots));
        return {};
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
        const size_t index = compiled.tensor < 0 ? recipe_.tensors.size() : static_cast<size_t>(compiled.tensor);
        const cuda::DevicePointer base = call_.buffers_[index].begin;
        put(base == 0 ? base : base + static_cast<uint64_t>(*offset));
        add_place(field, index, false, *offset);
        return {};
      }
      case FieldKind::integer32:
      case FieldKind::integer64: break;
    }
    auto value = per_sm_count(compiled.value);
    if (!value) return value.error();
    if (const Status s = check_fits(field, value->whole); !s) return s;
    store_integer(at, field.size, value->whole);
    if (!value->is_fixed()) step.sm_fields.push_back({&field, *value});
    return {};
  }

  // An address of the step that is being made, for a rebind to find.
  void add_place(const ParameterField& field, size_t buffer, bool is_map, int64_t offset) {
    call_.places_.push_back({static_cast<uint32_t>(call_.steps_.size() - 1), field.offset,
                             static_cast<uint32_t>(buffer), is_map, static_cast<uint64_t>(offset)});
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
      call_.group_sizes_.push_back({static_cast<uint32_t>(i), resolved_.tensors[i].elements, capacity, *slot});
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
