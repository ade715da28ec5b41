// Other addresses for a bound call: those fields and maps are rewritten that hold one which changed.
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "runtime/bind.h"

namespace epifuse::runtime {

Status BoundCall::rebind(std::span<const cuda::DevicePointer> tensors, cuda::DevicePointer workspace) {
  const LaunchRecipe& recipe = module_->recipe();
  if (tensors.size() != recipe.tensors.size()) {
    return user_error(fmt::format("kernel '{}' has {} buffers, and {} addresses are given", recipe.kernel,
                                  recipe.tensors.size(), tensors.size()));
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    previous_[i] = buffers_[i].begin;
    buffers_[i].begin = i < tensors.size() ? tensors[i] : workspace;
  }
  Status done;
  for (size_t i = 0; i < buffers_.size() && done; ++i) done = check_address(recipe, i, buffers_[i]);
  if (done) done = check_overlap(recipe, buffers_);
  if (done) {
    done = write_addresses();
    if (done) return done;
  }
  for (size_t i = 0; i < buffers_.size(); ++i) std::swap(buffers_[i].begin, previous_[i]);
  // To what it was before. The driver took these addresses once, so it takes them again.
  (void)write_addresses();
  return done;
}

Status BoundCall::write_addresses() {
  std::optional<CurrentContext> scope;  // without one, the driver moves no map
  for (const Place& place : places_) {
    const cuda::DevicePointer begin = buffers_[place.buffer].begin;
    if (begin == previous_[place.buffer]) continue;
    const cuda::DevicePointer address = begin == 0 ? 0 : begin + place.offset;
    std::byte* const at = steps_[place.step].parameters.front().bytes + place.at;
    if (!place.is_map) {
      std::memcpy(at, &address, sizeof address);
      continue;
    }
    if (!scope) scope.emplace(module_->device());
    if (scope->code() != cuda::Code::success) return failed(scope->code(), "rebinding", "");
    const auto code = module_->device().driver().tensor_map_replace_address(reinterpret_cast<cuda::TensorMap*>(at),
                                                                            reinterpret_cast<void*>(address));
    if (code != cuda::Code::success) {
      return failed(code, fmt::format("moving {} to {:#x} for", buffer_text(module_->recipe(), place.buffer), address),
                    "");
    }
  }
  return {};
}

}  // namespace epifuse::runtime
