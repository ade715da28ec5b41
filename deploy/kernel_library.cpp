#include "deploy/kernel_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "base/cubin.h"
#include "base/file_system.h"
#include "deploy/bundle_miss.h"

namespace epifuse::deploy {
namespace {

constexpr std::string_view what = "this library of kernels";

Error sealed(std::string_view doing) {
  return environment_error(fmt::format("{}: everything was sealed, and nothing is loaded any more", doing));
}

// "sm_90a" of 9.0, for messages about GPUs that Epifuse may have no kernels for.
std::string capability(const runtime::DeviceInfo& device) {
  return fmt::format("GPU {} ({}, compute capability {}.{})", device.ordinal, device.name, device.major, device.minor);
}

}  // namespace

std::vector<runtime::NamedInteger> DeployedKernel::dims() const {
  std::vector<runtime::NamedInteger> list;
  for (const auto& [name, value] : label.dims) list.push_back({name, value});
  return list;
}

Status KernelLibrary::add_bundle(const std::string& path) {
  // Reading takes no lock: a bundle on a slow disk keeps nobody from finding.
  Result<SharedBytes> bytes = real_file_system().map(path);
  if (!bytes) return bytes.error();
  return add_bundle(*std::move(bytes), path);
}

Status KernelLibrary::add_bundle(SharedBytes bytes, std::string name) {
  if (const Status here = made_here_.check(what); !here) return here;
  Result<cache::BundlePtr> reader = cache::BundleReader::from_bytes(bytes, std::move(name));
  if (!reader) return reader.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  if (sealed_) return sealed(fmt::format("the bundle {} is not added", (*reader)->name()));
  bundles_.push_back({std::move(bytes), *std::move(reader)});
  return {};
}

Result<std::vector<KernelLibrary::Listed>> KernelLibrary::list() const {
  if (const Status here = made_here_.check(what); !here) return here.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  std::vector<Listed> all;
  for (const Bundle& bundle : bundles_) {
    const Result<std::vector<size_t>> entries = bundle.reader->find_kernel("");
    if (!entries) return entries.error();
    for (const size_t index : *entries) {
      Result<cache::BundleLabel> label = bundle.reader->label(index);
      if (!label) return label.error();
      all.push_back({bundle.reader->name(), *std::move(label)});
    }
  }
  return all;
}

Result<runtime::DevicePtr> KernelLibrary::open_device(int ordinal) {
  if (ordinal == no_device) return runtime::DevicePtr();
  if (!driver_) {
    if (sealed_) return sealed("the driver was not opened");
    Result<runtime::Driver> driver = load_driver_();
    if (!driver) return driver.error();
    driver_ = *std::move(driver);
  }
  if (ordinal == current_device) {
    const Result<int> current = runtime::current_device(*driver_);
    if (!current) return current.error();
    ordinal = *current;
  }
  if (const auto open = devices_.find(ordinal); open != devices_.end()) return open->second;
  if (sealed_) return sealed(fmt::format("GPU {} was not prepared", ordinal));
  Result<runtime::DevicePtr> device = runtime::Device::open(driver_, ordinal);
  if (device) devices_[ordinal] = *device;
  return device;
}

Result<KernelLibrary::Place> KernelLibrary::look_up(const KernelQuery& query) const {
  for (size_t i = 0; i < bundles_.size(); ++i) {
    const cache::BundleReader& bundle = *bundles_[i].reader;
    if (!query.request.empty()) {
      const Result<std::optional<size_t>> entry = bundle.find(query.request);
      if (!entry) return entry.error();
      if (*entry) return Place{i, **entry};
      continue;
    }
    const cache::BundleLabel& wanted = query.label;
    const Result<std::vector<size_t>> entries = bundle.find(wanted.kernel, wanted.target, wanted.dims);
    if (!entries) return entries.error();
    std::vector<size_t> same;
    for (const size_t entry : *entries) {
      const Result<cache::BundleLabel> label = bundle.label(entry);
      if (!label) return label.error();
      if (*label == wanted) same.push_back(entry);
    }
    if (same.size() > 1)
      return user_error(
          fmt::format("the bundle {} has {} kernels that differ only in their text as {}: find it by its request",
                      bundle.name(), same.size(), cache::describe(wanted)));
    if (same.size() == 1) return Place{i, same.front()};
  }
  return environment_error(explain_miss(query));
}

std::string KernelLibrary::explain_miss(const KernelQuery& query) const {
  cache::BundleSet set(real_file_system(), {}, nullptr);
  for (const Bundle& bundle : bundles_) {
    // It was read once already.
    (void)set.add(bundle.bytes, bundle.reader->name());
  }
  return deploy::explain_miss(set, query.request,
                              query.request.empty() ? query.label : label_of_request(query.request));
}

Result<runtime::ModulePtr> KernelLibrary::load_module(const DeployedKernel& kernel, const cache::BundleEntry& entry,
                                                      const runtime::DevicePtr& device) {
  runtime::ModulePtr& module = modules_[{entry.cubin.data(), entry.recipe.data(), device.get()}];
  if (module) return module;
  const auto unusable = [&](std::string_view why) {
    return fmt::format("{} of the bundle {} cannot be used: {}", cache::describe(kernel.label), kernel.bundle, why);
  };
  // A driver would refuse it in fewer words.
  if (const std::optional<int> made_for = cubin_capability(kernel.image.cubin);
      made_for && *made_for != device->info().major * 10 + device->info().minor)
    return environment_error(
        unusable(fmt::format("its cubin is for sm_{}, and this is {}", *made_for, capability(device->info()))));
  Result<runtime::ModulePtr> loaded = runtime::Module::load(device, kernel.image);
  if (!loaded) return Error{loaded.error().kind, unusable(loaded.error().message)};
  module = *std::move(loaded);
  return module;
}

Result<KernelPtr> KernelLibrary::load(const Place& place, const runtime::DevicePtr& device) {
  const auto key = std::tuple(place.bundle, place.entry, device.get());
  if (const auto loaded = kernels_.find(key); loaded != kernels_.end()) return loaded->second;
  const cache::BundleReader& bundle = *bundles_[place.bundle].reader;
  if (sealed_) {
    const Result<cache::BundleLabel> label = bundle.label(place.entry);
    if (!label) return label.error();
    return sealed(fmt::format("{} of the bundle {} was not loaded", cache::describe(*label), bundle.name()));
  }
  Result<cache::BundleEntry> entry = bundle.entry(place.entry);
  if (!entry) return entry.error();
  auto kernel = std::make_shared<DeployedKernel>();
  kernel->bundle = bundle.name();
  kernel->label = std::move(entry->label);
  kernel->info = entry->info;
  Result<KernelImage> image = KernelImage::from_parts(entry->recipe, entry->image, entry->cubin);
  if (!image)
    return Error{ErrorKind::wrong, fmt::format("{} of the bundle {} cannot be read: {}", cache::describe(kernel->label),
                                               bundle.name(), image.error().message)};
  kernel->image = *std::move(image);
  if (device) {
    Result<runtime::ModulePtr> module = load_module(*kernel, *entry, device);
    if (!module) return module.error();
    kernel->module = *std::move(module);
  }
  return kernels_[key] = std::move(kernel);
}

Result<KernelPtr> KernelLibrary::find(const KernelQuery& query, int device) {
  if (const Status here = made_here_.check(what); !here) return here.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  const Result<runtime::DevicePtr> opened = open_device(device);
  if (!opened) return opened.error();
  KernelQuery wanted = query;
  if (wanted.request.empty() && wanted.label.target.empty()) {
    const Result<Target> target = *opened ? runtime::target_of((*opened)->info()) : Target();
    if (!target) return target.error();
    wanted.label.target = target->name;
  }
  const Result<Place> place = look_up(wanted);
  if (!place) return place.error();
  return load(*place, *opened);
}

Result<size_t> KernelLibrary::prepare(int device) {
  if (const Status here = made_here_.check(what); !here) return here.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  const Result<runtime::DevicePtr> opened = open_device(device);
  if (!opened) return opened.error();
  std::string target;  // empty: all, onto no GPU
  if (*opened) {
    const Result<Target> of_device = runtime::target_of((*opened)->info());
    if (!of_device) return of_device.error();
    target = of_device->name;
  }
  size_t count = 0;
  std::set<std::string> others;
  for (size_t i = 0; i < bundles_.size(); ++i) {
    for (size_t entry = 0; entry < bundles_[i].reader->size(); ++entry) {
      const Result<cache::BundleLabel> label = bundles_[i].reader->label(entry);
      if (!label) return label.error();
      if (!target.empty() && label->target != target) {
        others.insert(label->target);
        continue;
      }
      const Result<KernelPtr> loaded = load({i, entry}, *opened);
      if (!loaded) return loaded.error();
      ++count;
    }
  }
  if (count > 0) return count;
  if (others.empty()) return environment_error("there is nothing to prepare: no bundle has a kernel");
  return environment_error(fmt::format("no bundle has a kernel for {}, which is {}; they have {}",
                                       capability((*opened)->info()), target, fmt::join(others, ", ")));
}

Status KernelLibrary::seal() {
  if (const Status here = made_here_.check(what); !here) return here;
  const std::lock_guard<std::mutex> guard(mutex_);
  sealed_ = true;
  return {};
}

}  // namespace epifuse::deploy
