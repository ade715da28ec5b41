#include "deploy/kernel_library.h"

#include <fmt/format.h>

#include "base/file_system.h"
#include "deploy/bundle_miss.h"
#include "deploy/prepared_kernels.h"

namespace epifuse::deploy {
namespace {

constexpr std::string_view what = "this library of kernels";

}  // namespace

std::vector<runtime::NamedInteger> DeployedKernel::dims() const {
  std::vector<runtime::NamedInteger> list;
  for (const auto& [name, value] : label.dims) list.push_back({name, value});
  return list;
}

Status KernelLibrary::add_bundle(const std::string& path) {
  // Reading takes no lock: a bundle on a slow disk keeps nobody from finding.
  return add(cache::BundleReader::open(real_file_system(), path));
}

Status KernelLibrary::add_bundle(SharedBytes bytes, std::string name) {
  return add(cache::BundleReader::from_bytes(std::move(bytes), std::move(name)));
}

Status KernelLibrary::add(Result<cache::BundlePtr> reader) {
  if (const Status here = made_here_.check(what); !here) return here;
  if (!reader) return reader.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  if (sealed_) return sealed_error(fmt::format("the bundle {} is not added", (*reader)->name()));
  bundles_.push_back(*std::move(reader));
  return {};
}

Result<std::vector<KernelLibrary::Listed>> KernelLibrary::list() const {
  if (const Status here = made_here_.check(what); !here) return here.error();
  const std::lock_guard<std::mutex> guard(mutex_);
  std::vector<Listed> all;
  for (const cache::BundlePtr& bundle : bundles_) {
    const Result<std::vector<size_t>> entries = bundle->find_kernel("");
    if (!entries) return entries.error();
    for (const size_t index : *entries) {
      Result<cache::BundleLabel> label = bundle->label(index);
      if (!label) return label.error();
      const Result<SharedBytes> request = bundle->request(index);
      if (!request) return request.error();
      all.push_back({bundle->name(), *std::move(label), digest(*request)});
    }
  }
  return all;
}

Result<KernelLibrary::Place> KernelLibrary::look_up(const KernelQuery& query) const {
  for (size_t i = 0; i < bundles_.size(); ++i) {
    const cache::BundleReader& bundle = *bundles_[i];
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
  for (const cache::BundlePtr& bundle : bundles_) set.add(bundle);
  return deploy::explain_miss(set, query.request,
                              query.request.empty() ? query.label : label_of_request(query.request));
}

Result<runtime::ModulePtr> KernelLibrary::load_module(const DeployedKernel& kernel, const cache::BundleEntry& entry,
                                                      const runtime::DevicePtr& device) {
  runtime::ModulePtr& module = modules_[{entry.cubin.data(), entry.recipe.data(), device.get()}];
  if (module) return module;
  Result<runtime::ModulePtr> loaded = deploy::load_module(device, kernel.image, kernel.label, kernel.bundle);
  if (loaded) module = *loaded;
  return loaded;
}

Result<KernelPtr> KernelLibrary::load(const Place& place, const runtime::DevicePtr& device) {
  const auto key = std::tuple(place.bundle, place.entry, device.get());
  if (const auto loaded = kernels_.find(key); loaded != kernels_.end()) return loaded->second;
  const cache::BundleReader& bundle = *bundles_[place.bundle];
  if (sealed_) {
    const Result<cache::BundleLabel> label = bundle.label(place.entry);
    if (!label) return label.error();
    return sealed_error(fmt::format("{} of the bundle {} was not loaded", cache::describe(*label), bundle.name()));
  }
  Result<cache::BundleEntry> entry = bundle.entry(place.entry);
  if (!entry) return entry.error();
  auto kernel = std::make_shared<DeployedKernel>();
  kernel->bundle = bundle.name();
  kernel->label = entry->label;
  kernel->info = entry->info;
  Result<KernelImage> image = image_of(*entry, bundle.name());
  if (!image) return image.error();
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
  const Result<runtime::DevicePtr> opened = devices_.open(device);
  if (!opened) return opened.error();
  KernelQuery wanted = query;
  if (!wanted.request.empty() && !is_request(wanted.request))
    return user_error("what is given for a request is none: it is the text that `epifuse bundle extract` writes");
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
  const Result<runtime::DevicePtr> opened = devices_.open(device);
  if (!opened) return opened.error();
  std::string target;  // empty: all, onto no GPU
  if (*opened) {
    const Result<Target> of_device = runtime::target_of((*opened)->info());
    if (!of_device) return of_device.error();
    target = of_device->name;
  }
  const Result<KernelsOfTarget> found =
      visit_kernels(bundles_, target, [&](size_t bundle, size_t entry, const cache::BundleLabel&) -> Status {
        const Result<KernelPtr> loaded = load({bundle, entry}, *opened);
        return loaded ? Status() : Status(loaded.error());
      });
  if (!found) return found.error();
  if (found->count == 0) return nothing_to_prepare(*found, target, opened->get());
  return found->count;
}

Status KernelLibrary::seal() {
  if (const Status here = made_here_.check(what); !here) return here;
  const std::lock_guard<std::mutex> guard(mutex_);
  sealed_ = true;
  devices_.seal();
  return {};
}

}  // namespace epifuse::deploy
