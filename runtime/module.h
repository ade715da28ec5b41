// A kernel image on a device: loaded, checked against its recipe, ready to be bound and launched.
#pragma once

#include <memory>
#include <vector>

#include "base/kernel_image.h"
#include "runtime/compiled_recipe.h"
#include "runtime/owned.h"

namespace epifuse::runtime {

class Module {
 public:
  // Loads the cubin and forces every entry onto the device now, so that no launch (perhaps in a capture, perhaps while
  // other work spins on the device) loads anything. Sets the shared memory that each entry may use, and compares each
  // entry's parameters with the recipe.
  // Errors: the binary is for another GPU, or damaged; an entry is missing; its parameters are not one struct of the
  // recipe's size; the device has less shared memory than the recipe wants. All name the kernel.
  static Result<std::shared_ptr<const Module>> load(const DevicePtr& device, const KernelImage& image);

  struct Entry {
    cuda::Kernel kernel = nullptr;      // valid in every context of the device
    cuda::Function function = nullptr;  // of the primary context
  };

  const Device& device() const { return *library_.device(); }
  const DevicePtr& device_ptr() const { return library_.device(); }
  const LaunchRecipe& recipe() const { return compiled_.recipe; }
  const CompiledRecipe& compiled() const { return compiled_; }
  const Entry& entry(size_t step) const { return entries_[step]; }  // of a launch step

 private:
  using OwnedLibrary = Owned<cuda::Library, &DriverApi::library_unload>;
  Module(OwnedLibrary library, LaunchRecipe recipe) : library_(std::move(library)), compiled_(std::move(recipe)) {}
  Status load_entry(const RecipeStep& step);

  OwnedLibrary library_;
  CompiledRecipe compiled_;
  std::vector<Entry> entries_;  // one per step; null for a memset
};

using ModulePtr = std::shared_ptr<const Module>;

}  // namespace epifuse::runtime
