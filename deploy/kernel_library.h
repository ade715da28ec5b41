// Kernels of bundles on GPUs, with a driver and without a compiler: one is found by its label or its request, checked,
// loaded onto a GPU once, and kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/digest.h"
#include "base/forks.h"
#include "base/result.h"
#include "base/shared_bytes.h"
#include "cache/bundle_reader.h"
#include "deploy/device_table.h"
#include "runtime/bind.h"

namespace epifuse::deploy {

// What finds a kernel: its canonical request (docs/bundles.md), or, where that is empty, its label, all of it. A label
// without a target takes that of the GPU.
struct KernelQuery {
  std::string request;
  cache::BundleLabel label;
};

// A kernel of a bundle; with a module when it is on a GPU.
struct DeployedKernel {
  std::string bundle;  // its name
  cache::BundleLabel label;
  SharedBytes info;  // how it was made, JSON
  KernelImage image;
  runtime::ModulePtr module;

  // The numbers that a call is bound with (runtime::Arguments::dims).
  std::vector<runtime::NamedInteger> dims() const;
};
using KernelPtr = std::shared_ptr<const DeployedKernel>;

// Thread-safe; finding and loading take turns. Does not survive a fork: in the child everything is an error.
class KernelLibrary {
 public:
  using LoadDriver = DeviceTable::LoadDriver;
  explicit KernelLibrary(LoadDriver load_driver) : devices_(std::move(load_driver)) {}

  // Behind those that are there. Errors: the reader's (cache/bundle_reader.h); after seal() (user).
  Status add_bundle(const std::string& path);
  Status add_bundle(SharedBytes bytes, std::string name);

  struct Listed {
    std::string bundle;
    cache::BundleLabel label;
    Digest request;  // of the canonical request
  };
  // Every kernel of every bundle, in the order they are searched in and then by label.
  Result<std::vector<Listed>> list() const;

  // In the first bundle that has it, and loads it. Errors: no bundle has it, or it is sealed and not loaded
  // (environment); several of one bundle have the label, so that only a request tells them apart (user); damage
  // (wrong), which names the bundle; what the driver says (environment).
  Result<KernelPtr> find(const KernelQuery& query, int device);

  // Loads every kernel that is for this GPU, so that no later find() loads any. Gives their number; that there is none
  // is an error (environment).
  Result<size_t> prepare(int device);
  // From here on find() gives what is loaded, and everything else is an error.
  Status seal();

 private:
  Status add(Result<cache::BundlePtr> reader);

  struct Place {
    size_t bundle, entry;
  };

  Result<Place> look_up(const KernelQuery& query) const;
  Result<KernelPtr> load(const Place& place, const runtime::DevicePtr& device);
  Result<runtime::ModulePtr> load_module(const DeployedKernel& kernel, const cache::BundleEntry& entry,
                                         const runtime::DevicePtr& device);
  std::string explain_miss(const KernelQuery& query) const;

  const MadeHere made_here_;
  DeviceTable devices_;
  mutable std::mutex mutex_;  // guards what follows
  bool sealed_ = false;
  std::vector<cache::BundlePtr> bundles_;
  std::map<std::tuple<size_t, size_t, const runtime::Device*>, KernelPtr> kernels_;  // by bundle and entry
  // Entries that share a cubin and a recipe, as those of several sets of dims do, share a module.
  std::map<std::tuple<const char*, const char*, const runtime::Device*>, runtime::ModulePtr> modules_;
};

}  // namespace epifuse::deploy
