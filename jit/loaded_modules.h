// The modules that an engine has on devices: each is loaded once, by the first who asks for it, and after a seal by
// nobody.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "runtime/module.h"

namespace epifuse::jit {

// Thread-safe. Different modules are loaded at the same time.
class LoadedModules {
 public:
  // The module of this name on the device, else that which `load` makes. After seal() there is nothing else: an error
  // (environment) that begins with what `who` calls the kernel.
  Result<runtime::ModulePtr> get(const std::string& name, const runtime::DevicePtr& device,
                                 const std::function<std::string()>& who,
                                 const std::function<Result<runtime::ModulePtr>()>& load);

  // Waits for what is being loaded.
  void seal();

 private:
  struct Slot {
    std::mutex mutex;
    runtime::ModulePtr module;
  };

  std::mutex mutex_;  // guards the table, not the slots
  // A loaded module keeps its device, so no other one can come to have the address.
  std::map<std::pair<std::string, const runtime::Device*>, std::shared_ptr<Slot>> slots_;
  std::shared_mutex loading_;  // shared: something is being loaded; guards what follows
  bool sealed_ = false;
};

}  // namespace epifuse::jit
