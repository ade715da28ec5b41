// What the library without a compiler and the engine do alike before a program may not wait for its GPU any more: which
// kernels of the bundles are for it, how one gets there, and what is said of one that is asked for too late.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel_image.h"
#include "cache/bundle_reader.h"
#include "runtime/module.h"

namespace epifuse::deploy {

// The error (environment) of whatever would load something after a seal: "DOING: everything was sealed, …".
Error sealed_error(std::string_view doing);

struct KernelsOfTarget {
  size_t count = 0;
  std::set<std::string> other_targets;  // of the kernels that are for another one
};
// Shows every kernel that is for the target (empty: for any), bundle by bundle, until one cannot be shown.
Result<KernelsOfTarget> visit_kernels(
    const std::vector<cache::BundlePtr>& bundles, const std::string& target,
    const std::function<Status(size_t bundle, size_t entry, const cache::BundleLabel& label)>& visitor);

// What is said when there was none (environment). `device` is null where the target was any.
Error nothing_to_prepare(const KernelsOfTarget& found, const std::string& target, const runtime::Device* device);

// A bundle's kernel onto a GPU. Its cubin is looked at before the driver is asked, which would say less.
Result<runtime::ModulePtr> load_module(const runtime::DevicePtr& device, const KernelImage& image,
                                       const cache::BundleLabel& label, const std::string& bundle);

// An entry's parts as an image, on every use: an error (wrong) names the kernel and the bundle, and says which parts do
// not belong to each other. Label, request, recipe and cubin must be of one kernel, target and dims. That they are of
// one build as well is seen by `bundle verify` (jit/bundled_kernels.h), and that today's compiler would make them by
// `prebuild --check`.
Result<KernelImage> image_of(const cache::BundleEntry& entry, const std::string& bundle);

}  // namespace epifuse::deploy
