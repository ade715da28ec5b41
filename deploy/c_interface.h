// What a C interface of Epifuse does alike for each of its functions: error codes with a text for each thread, structs
// that start with their size, tensors, params and workspace as the runtime takes them, and buffers as they are listed.
// The codes are those of the exit status (0 good, 1 user, 2 usage, 3 machine, 4 bug, 5 wrong).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/launch_recipe.h"
#include "base/launch_recipe_names.h"
#include "base/result.h"
#include "base/storage.h"
#include "runtime/arguments.h"

namespace epifuse::c {

inline constexpr int32_t ok = 0, user_failure = 1, usage_failure = 2, machine_failure = 3, bug = 4, wrong = 5;

// Of this thread.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

inline int32_t fail_with(int32_t status, std::string_view message) {
  last_error() = message;
  return status;
}

inline int32_t fail_with(const Error& error) {
  switch (error.kind) {
    case ErrorKind::user: return fail_with(user_failure, error.message);
    case ErrorKind::environment: return fail_with(machine_failure, error.message);
    case ErrorKind::wrong: break;
  }
  return fail_with(wrong, error.message);
}

inline int32_t usage(std::string_view message) { return fail_with(usage_failure, message); }

inline int32_t done(const Status& status) { return status ? ok : fail_with(status.error()); }

// Nothing is thrown across the interface.
template <class F>
int32_t guarded(F body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail_with(machine_failure, "no host memory is left");
  } catch (const std::exception& failure) {
    return fail_with(bug, fmt::format("a bug of Epifuse: {}", failure.what()));
  } catch (...) {
    return fail_with(bug, "a bug of Epifuse: an unknown exception");
  }
}

// A struct of the caller as ours: fields that it does not have are 0.
template <class T>
std::optional<T> take(const T* given) {
  T ours{};
  if (!given || given->size < sizeof(size_t)) return std::nullopt;
  std::memcpy(&ours, given, std::min(given->size, sizeof(T)));
  return ours;
}

inline std::string text_of(const char* text) { return text ? text : ""; }

// The caller's arguments (epifuse_runtime_arguments and its like) as the runtime's, but for the dims; a usage error's
// text when they make no sense.
template <class Arguments>
std::optional<std::string> convert(const Arguments& given, runtime::Arguments& into) {
  using Tensor = std::remove_reference_t<decltype(*given.tensors)>;
  if ((given.tensor_count && !given.tensors) || (given.param_count && !given.params)) return "an array is NULL";
  const auto* bytes = reinterpret_cast<const char*>(given.tensors);
  const size_t distance = given.tensor_count ? given.tensors->size : 0;
  for (size_t i = 0; i < given.tensor_count; ++i) {
    const auto tensor = take(reinterpret_cast<Tensor*>(bytes + i * distance));
    if (!tensor || distance < sizeof(size_t)) return fmt::format("tensor {} does not start with its size", i);
    if (!tensor->name) return fmt::format("tensor {} has no name", i);
    if (tensor->rank < 0 || (tensor->rank > 0 && !tensor->extents))
      return fmt::format("tensor '{}' has a rank of {} and {} extents", tensor->name, tensor->rank,
                         tensor->extents ? "some" : "no");
    runtime::TensorArgument argument;
    argument.name = tensor->name;
    argument.pointer = reinterpret_cast<cuda::DevicePointer>(tensor->pointer);
    argument.extents.assign(tensor->extents, tensor->extents + tensor->rank);
    if (tensor->strides) argument.strides.assign(tensor->strides, tensor->strides + tensor->rank);
    if (tensor->storage) {
      argument.storage = parse_storage(tensor->storage);
      if (!argument.storage)
        return fmt::format("tensor '{}': no storage is called '{}'", tensor->name, tensor->storage);
    }
    into.tensors.push_back(std::move(argument));
  }
  for (size_t i = 0; i < given.param_count; ++i) {
    if (!given.params[i].name) return fmt::format("param {} has no name", i);
    into.params.push_back({given.params[i].name, given.params[i].value});
  }
  into.workspace = {reinterpret_cast<cuda::DevicePointer>(given.workspace), given.workspace_bytes};
  return std::nullopt;
}

// A buffer of a recipe as texts, which live as long as the kernel that holds them.
struct ListedBuffer {
  std::string name, storage;
  std::vector<std::string> extents;
  std::vector<const char*> extent_texts;
};

inline std::vector<ListedBuffer> list_buffers(const LaunchRecipe& recipe) {
  std::vector<ListedBuffer> buffers;
  for (const RecipeTensor& tensor : recipe.tensors) {
    ListedBuffer& buffer = buffers.emplace_back();
    buffer.name = tensor.name;
    buffer.storage = storage_name(tensor.storage);
    for (const IntExpr& extent : tensor.extents) buffer.extents.push_back(extent.text());
  }
  // After the last move: short strings move with their owner.
  for (ListedBuffer& buffer : buffers)
    for (const std::string& extent : buffer.extents) buffer.extent_texts.push_back(extent.c_str());
  return buffers;
}

inline const char* role_name(TensorRole role) {
  for (const auto& [value, name] : role_names)
    if (value == role) return name.data();  // of a literal
  return "";
}

// Buffer `index` of a recipe into the caller's struct (epifuse_runtime_buffer_info and its like).
template <class Info>
int32_t describe_buffer(std::string_view function, const LaunchRecipe& recipe, const std::vector<ListedBuffer>& buffers,
                        size_t index, Info* info) {
  if (index >= buffers.size())
    return usage(fmt::format("{}: there is no buffer {} of {}", function, index, buffers.size()));
  const RecipeTensor& tensor = recipe.tensors[index];
  const ListedBuffer& buffer = buffers[index];
  const Info ours = {info->size,
                     buffer.name.c_str(),
                     buffer.storage.c_str(),
                     role_name(tensor.role),
                     static_cast<int32_t>(buffer.extents.size()),
                     tensor.alignment,
                     buffer.extent_texts.data(),
                     tensor.strided,
                     tensor.pointer_axes};
  std::memcpy(info, &ours, std::min(info->size, sizeof ours));
  return ok;
}

// Other addresses for a bound call. Allocates nothing.
template <class Call>
int32_t rebind(std::string_view function, Call* call, void* const* pointers, size_t count, void* workspace) {
  if (!call || (count && !pointers)) return usage(fmt::format("{}: a pointer is NULL", function));
  // No kernel has more: each has its address among the parameters.
  std::array<cuda::DevicePointer, max_parameter_bytes / sizeof(cuda::DevicePointer)> addresses;
  if (count > addresses.size()) return usage(fmt::format("{}: no kernel has {} buffers", function, count));
  for (size_t i = 0; i < count; ++i) addresses[i] = reinterpret_cast<cuda::DevicePointer>(pointers[i]);
  return done(call->bound.rebind({addresses.data(), count}, reinterpret_cast<cuda::DevicePointer>(workspace)));
}

}  // namespace epifuse::c
