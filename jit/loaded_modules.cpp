#include "jit/loaded_modules.h"

#include <fmt/format.h>

#include "deploy/prepared_kernels.h"

namespace epifuse::jit {

Result<runtime::ModulePtr> LoadedModules::get(const std::string& name, const runtime::DevicePtr& device,
                                              const std::function<std::string()>& who,
                                              const std::function<Result<runtime::ModulePtr>()>& load) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::shared_ptr<Slot>& place = slots_[{name, device.get()}];
    if (!place) place = std::make_shared<Slot>();
    slot = place;
  }
  const std::lock_guard<std::mutex> guard(slot->mutex);
  if (slot->module) return slot->module;
  const std::shared_lock<std::shared_mutex> shared(loading_);
  if (sealed_) return deploy::sealed_error(fmt::format("{} was not loaded onto GPU {}", who(), device->info().ordinal));
  Result<runtime::ModulePtr> module = load();
  if (module) slot->module = *module;
  return module;
}

void LoadedModules::seal() {
  const std::lock_guard<std::shared_mutex> guard(loading_);
  sealed_ = true;
}

}  // namespace epifuse::jit
