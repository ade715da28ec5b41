#include "deploy/prepared_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cubin.h"
#include "deploy/bundle_miss.h"

namespace epifuse::deploy {
namespace {

// For messages about GPUs that Epifuse may have no kernels for.
std::string capability(const runtime::DeviceInfo& device) {
  return fmt::format("GPU {} ({}, compute capability {}.{})", device.ordinal, device.name, device.major, device.minor);
}

}  // namespace

Error sealed_error(std::string_view doing) {
  return environment_error(fmt::format("{}: everything was sealed, and nothing is loaded any more", doing));
}

Result<KernelsOfTarget> visit_kernels(
    const std::vector<cache::BundlePtr>& bundles, const std::string& target,
    const std::function<Status(size_t bundle, size_t entry, const cache::BundleLabel& label)>& visitor) {
  KernelsOfTarget found;
  for (size_t i = 0; i < bundles.size(); ++i) {
    for (size_t entry = 0; entry < bundles[i]->size(); ++entry) {
      const Result<cache::BundleLabel> label = bundles[i]->label(entry);
      if (!label) return label.error();
      if (!target.empty() && label->target != target) {
        found.other_targets.insert(label->target);
        continue;
      }
      if (const Status shown = visitor(i, entry, *label); !shown) return shown.error();
      ++found.count;
    }
  }
  return found;
}

Error nothing_to_prepare(const KernelsOfTarget& found, const std::string& target, const runtime::Device* device) {
  if (found.other_targets.empty() || !device)
    return environment_error("there is nothing to prepare: no bundle has a kernel");
  return environment_error(fmt::format("no bundle has a kernel for {}, which is {}; they have {}",
                                       capability(device->info()), target, fmt::join(found.other_targets, ", ")));
}

Result<runtime::ModulePtr> load_module(const runtime::DevicePtr& device, const KernelImage& image,
                                       const cache::BundleLabel& label, const std::string& bundle) {
  const auto unusable = [&](std::string_view why) {
    return fmt::format("{} of the bundle {} cannot be used: {}", cache::describe(label), bundle, why);
  };
  if (const std::optional<int> made_for = cubin_capability(image.cubin);
      made_for && *made_for != device->info().major * 10 + device->info().minor)
    return environment_error(
        unusable(fmt::format("its cubin is for sm_{}, and this is {}", *made_for, capability(device->info()))));
  Result<runtime::ModulePtr> loaded = runtime::Module::load(device, image);
  if (!loaded) return Error{loaded.error().kind, unusable(loaded.error().message)};
  return loaded;
}

Result<KernelImage> image_of(const cache::BundleEntry& entry, const std::string& bundle) {
  const cache::BundleLabel& label = entry.label;
  const auto unusable = [&](std::string_view why) {
    return Error{ErrorKind::wrong,
                 fmt::format("{} of the bundle {} cannot be used: {}", cache::describe(label), bundle, why)};
  };
  if (const cache::BundleLabel asked = label_of_request(entry.request); asked != label)
    return unusable(fmt::format("its request is of {}", cache::describe(asked)));
  Result<KernelImage> image = KernelImage::from_parts(entry.recipe, entry.image, entry.cubin);
  if (!image) return unusable(image.error().message);
  const LaunchRecipe& recipe = image->recipe;
  if (recipe.kernel != label.kernel || recipe.target != label.target)
    return unusable(fmt::format("its recipe is of kernel '{}' for {}", recipe.kernel, recipe.target));
  for (const RecipeSymbol& symbol : recipe.symbols)
    if (symbol.kind == SymbolKind::fixed && !label.dims.contains(symbol.name))
      return unusable(fmt::format("its recipe is of a kernel with a dim '{}'", symbol.name));
  return image;
}

}  // namespace epifuse::deploy
