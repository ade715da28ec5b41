// The C interface over KernelLibrary and runtime: conversions and error codes, no decisions.
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "base/version.h"
#include "deploy/c_interface.h"
#include "deploy/c_objects.h"

using namespace epifuse;
using namespace epifuse::c;

namespace {

using Json = nlohmann::ordered_json;

static_assert(EPIFUSE_RUNTIME_ERROR_USER == user_failure && EPIFUSE_RUNTIME_ERROR_USAGE == usage_failure &&
              EPIFUSE_RUNTIME_ERROR_MACHINE == machine_failure && EPIFUSE_RUNTIME_ERROR_BUG == bug &&
              EPIFUSE_RUNTIME_ERROR_WRONG == wrong);
static_assert(EPIFUSE_RUNTIME_DEVICE_NONE == deploy::no_device &&
              EPIFUSE_RUNTIME_DEVICE_CURRENT == deploy::current_device);

std::string dump(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json label_json(const std::string& bundle, const cache::BundleLabel& label) {
  Json dims = Json::object();
  for (const auto& [name, value] : label.dims) dims[name] = value;
  return {{"bundle", bundle},          {"kernel", label.kernel},
          {"target", label.target},    {"dims", std::move(dims)},
          {"without", label.left_out}, {"schedule", label.schedule.empty() ? Json() : Json(label.schedule)}};
}

std::string info_json(const deploy::DeployedKernel& kernel) {
  Json json = label_json(kernel.bundle, kernel.label);
  json["registers"] = kernel.image.registers;
  json["spill_bytes"] = kernel.image.spill_bytes;
  json["wgmma_serialized"] = kernel.image.wgmma_serialized;
  const IntExpr workspace =
      kernel.image.recipe.workspace_bytes.substitute([&](std::string_view name) -> std::optional<int64_t> {
        const auto dim = kernel.label.dims.find(std::string(name));
        return dim == kernel.label.dims.end() ? std::nullopt : std::optional(dim->second);
      });
  if (const auto bytes = workspace.constant())
    json["workspace_bytes"] = *bytes;
  else
    json["workspace_bytes"] = workspace.text();
  json["warnings"] = kernel.image.warnings;
  const Result<Json> made = read_json(kernel.info);
  json["made"] = made ? *made : Json();
  // As `epifuse bundle list` has it: whether the plan is a tuning file's.
  if (Json& of = json["made"]; of.is_object() && of.contains("tuned"))
    of["tuned"] = of["tuned"] != "" && of["tuned"] == of.value("plan", Json());
  return dump(json);
}

int32_t load_kernel(epifuse_runtime& runtime, const epifuse_runtime_kernel_options& options,
                    epifuse_runtime_kernel** made) {
  const auto given = [](const char* text) { return text && *text; };
  if (!given(options.kernel) && !given(options.request))
    return usage("epifuse_runtime_kernel_load: neither kernel nor request");
  if ((options.dim_count && !options.dims) || (options.left_out_count && !options.left_out))
    return usage("epifuse_runtime_kernel_load: an array is NULL");
  deploy::KernelQuery query;
  query.request = text_of(options.request);
  query.label.kernel = text_of(options.kernel);
  query.label.target = text_of(options.target);
  query.label.schedule = text_of(options.schedule);
  for (const epifuse_runtime_dim& dim : std::span(options.dims, options.dim_count)) {
    if (!dim.name) return usage("epifuse_runtime_kernel_load: a dim without a name");
    const auto [known, is_new] = query.label.dims.emplace(dim.name, dim.value);
    if (!is_new && known->second != dim.value)
      return usage(fmt::format("epifuse_runtime_kernel_load: the dim '{}' is given as {} and as {}", dim.name,
                               known->second, dim.value));
  }
  for (const char* name : std::span(options.left_out, options.left_out_count)) {
    if (!given(name)) return usage("epifuse_runtime_kernel_load: a name in left_out is NULL, or empty");
    query.label.left_out.insert(name);
  }
  Result<deploy::KernelPtr> found = runtime.library.find(query, options.device);
  if (!found) return fail_with(found.error());
  *made = new epifuse_runtime_kernel{*found, info_json(**found), list_buffers((*found)->image.recipe)};
  return ok;
}

// Runs `body(arguments)` for a kernel that is on a GPU.
template <class F>
int32_t with_arguments(const char* function, const epifuse_runtime_kernel* kernel,
                       const epifuse_runtime_arguments* arguments, const void* result, F body) {
  const auto given = take(arguments);
  if (!kernel || !given || !result)
    return usage(fmt::format("{}: a pointer is NULL, or a struct does not start with its size", function));
  if (!kernel->kernel->module)
    return usage(fmt::format("{}: the kernel was loaded onto no GPU (EPIFUSE_RUNTIME_DEVICE_NONE)", function));
  runtime::Arguments converted;
  if (const auto wrong = convert(*given, converted)) return usage(fmt::format("{}: {}", function, *wrong));
  converted.dims = kernel->kernel->dims();
  return body(converted);
}

}  // namespace

const char* epifuse_runtime_version(void) {
  static const std::string text(version);
  return text.c_str();
}

const char* epifuse_runtime_last_error(void) { return last_error().c_str(); }

epifuse_runtime_status epifuse_runtime_create(const epifuse_runtime_options* options, epifuse_runtime** runtime) {
  return guarded([&] {
    if (!runtime) return usage("epifuse_runtime_create: runtime is NULL");
    const auto given = options ? take(options) : epifuse_runtime_options{};
    if (!given) return usage("epifuse_runtime_create: the options do not start with their size");
    if (given->bundle_count && !given->bundles) return usage("epifuse_runtime_create: an array is NULL");
    auto made = std::make_unique<epifuse_runtime>([] { return runtime::load_driver(); });
    for (const char* path : std::span(given->bundles, given->bundle_count))
      if (const Status added = made->library.add_bundle(text_of(path)); !added) return fail_with(added.error());
    *runtime = made.release();
    return ok;
  });
}

void epifuse_runtime_destroy(epifuse_runtime* runtime) { delete runtime; }

epifuse_runtime_status epifuse_runtime_add_bundle(epifuse_runtime* runtime, const char* path) {
  return guarded([&] {
    if (!runtime || !path) return usage("epifuse_runtime_add_bundle: a pointer is NULL");
    return done(runtime->library.add_bundle(std::string(path)));
  });
}

epifuse_runtime_status epifuse_runtime_add_bundle_memory(epifuse_runtime* runtime, const void* bytes, size_t size,
                                                         const char* name) {
  return guarded([&] {
    if (!runtime || !bytes) return usage("epifuse_runtime_add_bundle_memory: a pointer is NULL");
    return done(runtime->library.add_bundle(SharedBytes(nullptr, {static_cast<const char*>(bytes), size}),
                                            name ? name : "in memory"));
  });
}

epifuse_runtime_status epifuse_runtime_list(epifuse_runtime* runtime, const char** list) {
  return guarded([&] {
    if (!runtime || !list) return usage("epifuse_runtime_list: a pointer is NULL");
    const auto kernels = runtime->library.list();
    if (!kernels) return fail_with(kernels.error());
    Json json = Json::array();
    for (const deploy::KernelLibrary::Listed& kernel : *kernels)
      json.push_back(label_json(kernel.bundle, kernel.label)), json.back()["request"] = kernel.request.hex();
    const std::lock_guard<std::mutex> guard(runtime->mutex);
    *list = runtime->lists.insert(dump(json)).first->c_str();
    return ok;
  });
}

epifuse_runtime_status epifuse_runtime_prepare(epifuse_runtime* runtime, int32_t device, size_t* count) {
  return guarded([&] {
    if (!runtime) return usage("epifuse_runtime_prepare: the runtime is NULL");
    const Result<size_t> prepared = runtime->library.prepare(device);
    if (!prepared) return fail_with(prepared.error());
    if (count) *count = *prepared;
    return ok;
  });
}

epifuse_runtime_status epifuse_runtime_seal(epifuse_runtime* runtime) {
  return guarded([&] {
    if (!runtime) return usage("epifuse_runtime_seal: the runtime is NULL");
    return done(runtime->library.seal());
  });
}

epifuse_runtime_status epifuse_runtime_kernel_load(epifuse_runtime* runtime,
                                                   const epifuse_runtime_kernel_options* options,
                                                   epifuse_runtime_kernel** kernel) {
  return guarded([&] {
    const auto given = take(options);
    if (!runtime || !given || !kernel)
      return usage("epifuse_runtime_kernel_load: a pointer is NULL, or the options do not start with their size");
    return load_kernel(*runtime, *given, kernel);
  });
}

void epifuse_runtime_kernel_destroy(epifuse_runtime_kernel* kernel) { delete kernel; }

const char* epifuse_runtime_kernel_info(const epifuse_runtime_kernel* kernel) {
  return kernel ? kernel->info.c_str() : "";
}

size_t epifuse_runtime_kernel_buffer_count(const epifuse_runtime_kernel* kernel) {
  return kernel ? kernel->buffers.size() : 0;
}

epifuse_runtime_status epifuse_runtime_kernel_buffer(const epifuse_runtime_kernel* kernel, size_t index,
                                                     epifuse_runtime_buffer_info* info) {
  return guarded([&] {
    if (!kernel || !info || info->size < sizeof(size_t))
      return usage("epifuse_runtime_kernel_buffer: a pointer is NULL, or the struct does not start with its size");
    return describe_buffer("epifuse_runtime_kernel_buffer", kernel->kernel->image.recipe, kernel->buffers, index, info);
  });
}

epifuse_runtime_status epifuse_runtime_workspace_bytes(const epifuse_runtime_kernel* kernel,
                                                       const epifuse_runtime_arguments* arguments, int64_t* bytes) {
  return guarded([&] {
    return with_arguments("epifuse_runtime_workspace_bytes", kernel, arguments, bytes,
                          [&](const runtime::Arguments& converted) {
                            const Result<int64_t> needed = runtime::workspace_bytes(*kernel->kernel->module, converted);
                            if (!needed) return fail_with(needed.error());
                            *bytes = *needed;
                            return ok;
                          });
  });
}

epifuse_runtime_status epifuse_runtime_bind(const epifuse_runtime_kernel* kernel,
                                            const epifuse_runtime_arguments* arguments, epifuse_runtime_call** call) {
  return guarded([&] {
    return with_arguments("epifuse_runtime_bind", kernel, arguments, call, [&](const runtime::Arguments& converted) {
      Result<runtime::BoundCall> bound = runtime::bind_call(kernel->kernel->module, converted);
      if (!bound) return fail_with(bound.error());
      *call = new epifuse_runtime_call{*std::move(bound)};
      return ok;
    });
  });
}

void epifuse_runtime_call_destroy(epifuse_runtime_call* call) { delete call; }

epifuse_runtime_status epifuse_runtime_rebind(epifuse_runtime_call* call, void* const* pointers, size_t pointer_count,
                                              void* workspace) {
  return guarded([&] { return rebind("epifuse_runtime_rebind", call, pointers, pointer_count, workspace); });
}

epifuse_runtime_status epifuse_runtime_launch(const epifuse_runtime_call* call, void* stream, int32_t sm_margin) {
  return guarded([&] {
    if (!call) return usage("epifuse_runtime_launch: the call is NULL");
    return done(call->bound.launch(static_cast<cuda::Stream>(stream), sm_margin));
  });
}

epifuse_runtime_status epifuse_runtime_launch_with(const epifuse_runtime_call* call, void* stream,
                                                   const epifuse_runtime_launch_options* options) {
  return guarded([&] {
    const auto given = options ? take(options) : epifuse_runtime_launch_options{};
    if (!call || !given)
      return usage("epifuse_runtime_launch_with: the call is NULL, or the options do not start with their size");
    return done(
        call->bound.launch(static_cast<cuda::Stream>(stream), {given->sm_margin, given->overlap_previous != 0}));
  });
}

epifuse_runtime_status epifuse_runtime_synchronize(const epifuse_runtime_call* call, void* stream) {
  return guarded([&] {
    if (!call) return usage("epifuse_runtime_synchronize: the call is NULL");
    return done(call->bound.synchronize(static_cast<cuda::Stream>(stream)));
  });
}

epifuse_runtime_status epifuse_runtime_check_group_sizes(const epifuse_runtime_call* call, void* stream) {
  return guarded([&] {
    if (!call) return usage("epifuse_runtime_check_group_sizes: the call is NULL");
    return done(call->bound.check_group_sizes(static_cast<cuda::Stream>(stream)));
  });
}
