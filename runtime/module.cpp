// Loading a cubin and comparing it with its recipe.
#include "runtime/module.h"

#include <fmt/format.h>

namespace epifuse::runtime {

Result<std::shared_ptr<const Module>> Module::load(const DevicePtr& device, const KernelImage& image) {
  if (const Status valid = image.recipe.validate(); !valid) return valid.error();
  const DriverApi& driver = device->driver();
  const DeviceInfo& info = device->info();
  const std::string doing =
      fmt::format("loading kernel '{}' (built for {}) on GPU {} ({}, compute capability {}.{})", image.recipe.kernel,
                  image.recipe.target, info.ordinal, info.name, info.major, info.minor);
  const CurrentContext scope(*device);
  if (const Status current = check(driver, scope.code(), doing); !current) return current.error();
  cuda::Library library = nullptr;
  const auto code = driver.library_load_data(&library, image.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (const Status loaded = check(driver, code, doing); !loaded) return loaded.error();

  const std::shared_ptr<Module> module(new Module(OwnedLibrary(device, library), image.recipe));
  for (const RecipeStep& step : module->recipe().steps) {
    if (const Status loaded = module->load_entry(step); !loaded) {
      return Error{loaded.error().kind, fmt::format("{}: {}", doing, loaded.error().message)};
    }
  }
  return std::shared_ptr<const Module>(module);
}

Status Module::load_entry(const RecipeStep& step) {
  Entry& entry = entries_.emplace_back();
  if (step.kind == RecipeStep::Kind::memset) return {};
  const DriverApi& driver = device().driver();
  const cuda::DeviceHandle handle = device().handle();

  auto code = driver.library_get_kernel(&entry.kernel, library_.get(), step.entry.c_str());
  if (const Status s = check(driver, code, fmt::format("entry '{}'", step.entry)); !s) return s;
  code = driver.kernel_get_function(&entry.function, entry.kernel);
  if (const Status s = check(driver, code, fmt::format("entry '{}'", step.entry)); !s) return s;

  // One parameter, the struct. The device-side struct and the recipe's fields come from one list; this catches an image
  // whose two halves do not belong together. Where the struct starts in the parameter space follows from its alignment
  // (a tensor map moves it) and is the driver's business.
  size_t offset = 0, size = 0, beyond = 0;
  code = driver.kernel_get_param_info(entry.kernel, 0, &offset, &size);
  if (code != cuda::Code::success || size != step.parameter_bytes ||
      driver.kernel_get_param_info(entry.kernel, 1, &beyond, &beyond) == cuda::Code::success) {
    return environment_error(
        fmt::format("entry '{}' does not take one struct of {} bytes as its recipe says (found {})", step.entry,
                    step.parameter_bytes, size));
  }

  int most_threads = 0, static_bytes = 0;
  code =
      driver.kernel_get_attribute(&most_threads, cuda::FunctionAttribute::max_threads_per_block, entry.kernel, handle);
  if (code == cuda::Code::success) {
    code =
        driver.kernel_get_attribute(&static_bytes, cuda::FunctionAttribute::static_shared_bytes, entry.kernel, handle);
  }
  if (const Status s = check(driver, code, fmt::format("entry '{}'", step.entry)); !s) return s;
  if (step.block > static_cast<uint32_t>(most_threads)) {
    return environment_error(fmt::format("entry '{}' needs blocks of {} threads; its registers allow {} on this GPU",
                                         step.entry, step.block, most_threads));
  }
  const int64_t wanted = int64_t{step.shared_bytes} + static_bytes;
  if (wanted > device().info().shared_bytes_per_block) {
    return environment_error(fmt::format("entry '{}' needs {} bytes of shared memory per block; this GPU has {}",
                                         step.entry, wanted, device().info().shared_bytes_per_block));
  }
  // The attribute takes a lock in the driver, so it is set here and never again.
  code = driver.kernel_set_attribute(cuda::FunctionAttribute::max_dynamic_shared_bytes,
                                     static_cast<int>(step.shared_bytes), entry.kernel, handle);
  return check(driver, code, fmt::format("entry '{}': {} bytes of shared memory", step.entry, step.shared_bytes));
}

}  // namespace epifuse::runtime
