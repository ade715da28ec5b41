// The C interface over Engine and runtime: conversions and error codes, no decisions.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "jit/c_objects.h"

using namespace epifuse;
using namespace epifuse::c;

namespace {

static_assert(EPIFUSE_OK == ok && EPIFUSE_ERROR_USER == user_failure && EPIFUSE_ERROR_USAGE == usage_failure &&
              EPIFUSE_ERROR_MACHINE == machine_failure && EPIFUSE_ERROR_BUG == bug && EPIFUSE_ERROR_WRONG == wrong);
static_assert(EPIFUSE_DEVICE_NONE == deploy::no_device && EPIFUSE_DEVICE_CURRENT == deploy::current_device);

LogSink callback_log(const epifuse_engine_options& options) {
  return [log = options.log, data = options.log_data](LogLevel level, std::string_view text) {
    log(static_cast<int32_t>(level), std::string(text).c_str(), data);
  };
}

// The caller's options into the settings of the environment; a usage error's text when they make no sense.
std::optional<std::string> apply(const epifuse_engine_options& options, Settings& settings) {
  if (options.cache_directory) {
    settings.cache_directory = options.cache_directory;
    settings.cache_wanted = !settings.cache_directory.empty();
  }
  if (options.bundle_count && !options.bundles) return "an array is NULL";
  std::vector<std::string> bundles;
  for (size_t i = 0; i < options.bundle_count; ++i) bundles.push_back(text_of(options.bundles[i]));
  settings.bundles.insert(settings.bundles.begin(), bundles.begin(), bundles.end());
  if (options.jit < EPIFUSE_JIT_DEFAULT || options.jit > EPIFUSE_JIT_OFF) return fmt::format("jit is {}", options.jit);
  if (options.jit != EPIFUSE_JIT_DEFAULT) settings.jit = options.jit == EPIFUSE_JIT_ON;
  if (options.cache_trust < EPIFUSE_CACHE_TRUST_DEFAULT || options.cache_trust > EPIFUSE_CACHE_TRUST_SHARED)
    return fmt::format("cache_trust is {}", options.cache_trust);
  if (options.cache_trust != EPIFUSE_CACHE_TRUST_DEFAULT)
    settings.trust_shared = options.cache_trust == EPIFUSE_CACHE_TRUST_SHARED;
  if (options.cache_bytes < EPIFUSE_CACHE_UNLIMITED) return fmt::format("cache_bytes is {}", options.cache_bytes);
  if (options.cache_bytes != 0)
    settings.cache_bytes =
        options.cache_bytes == EPIFUSE_CACHE_UNLIMITED ? 0 : static_cast<uint64_t>(options.cache_bytes);
  return std::nullopt;
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

nlohmann::ordered_json dims_json(const std::vector<runtime::NamedInteger>& dims) {
  auto json = nlohmann::ordered_json::object();
  for (const runtime::NamedInteger& dim : dims) json[dim.name] = dim.value;
  return json;
}

std::string info_json(const jit::CompiledUnfused& kernel, int toolchain_calls) {
  auto stages = nlohmann::ordered_json::array();
  for (const jit::CompiledKernelPtr& stage : kernel.stages) {
    stages.push_back({{"kernel", stage->image.recipe.kernel},
                      {"key", stage->key},
                      {"from", jit::from_name(stage->from)},
                      {"registers", stage->image.registers},
                      {"spill_bytes", stage->image.spill_bytes}});
  }
  return dump({{"kernel", kernel.recipe.kernel},
               {"target", kernel.recipe.target},
               {"unfused", true},
               {"compiled", toolchain_calls > 0},
               {"toolchain_calls", toolchain_calls},
               {"ms", kernel.milliseconds},
               {"dims", dims_json(kernel.dims())},
               {"workspace_bytes", nullptr},
               {"stages", std::move(stages)}});
}

std::string info_json(const jit::CompiledKernel& kernel, int toolchain_calls) {
  nlohmann::ordered_json json = {{"kernel", kernel.image.recipe.kernel},
                                 {"target", kernel.image.recipe.target},
                                 {"key", kernel.key},
                                 {"compiled", kernel.from == jit::From::toolchain},
                                 {"from", jit::from_name(kernel.from)},
                                 {"toolchain_calls", toolchain_calls},
                                 {"ms", kernel.milliseconds}};
  json["dims"] = dims_json(kernel.dims());
  json["schedule"] = kernel.schedule();
  json["registers"] = kernel.image.registers;
  json["spill_bytes"] = kernel.image.spill_bytes;
  json["wgmma_serialized"] = kernel.image.wgmma_serialized;
  const IntExpr workspace = kernel.workspace_bytes();
  if (const auto bytes = workspace.constant())
    json["workspace_bytes"] = *bytes;
  else
    json["workspace_bytes"] = workspace.text();
  json["refused"] = nlohmann::ordered_json::array();
  for (const jit::RefusedPlan& plan : kernel.refused) {
    json["refused"].push_back({{"schedule", plan.schedule}, {"reason", plan.reason}});
  }
  json["warnings"] = kernel.image.warnings;
  return dump(json);
}

epifuse_status load_kernel(epifuse_engine& engine, const epifuse_kernel_options& options, epifuse_kernel** made) {
  if (!options.spec_path && !options.spec_text) return usage("epifuse_kernel_load: neither spec_path nor spec_text");
  if ((options.dim_count && !options.dims) || (options.left_out_count && !options.left_out)) {
    return usage("epifuse_kernel_load: an array is NULL");
  }
  CompilerOptions compiler;
  for (size_t i = 0; i < options.dim_count; ++i) {
    if (!options.dims[i].name) return usage("epifuse_kernel_load: a dim without a name");
    compiler.dims[options.dims[i].name] = options.dims[i].value;
  }
  for (size_t i = 0; i < options.left_out_count; ++i) compiler.left_out.insert(text_of(options.left_out[i]));
  compiler.schedule = text_of(options.schedule);

  const Result<runtime::DevicePtr> opened = engine.devices.open(options.device);
  if (!opened) return fail_with(opened.error());
  const runtime::DevicePtr& device = *opened;
  if (options.target || device) {
    const Result<Target> target = options.target ? parse_target(options.target) : runtime::target_of(device->info());
    if (!target) return fail_with(target.error());
    compiler.target = *target;
  }

  DiskSource files(real_file_system());
  Diagnostics diagnostics;
  std::optional<Program> program;
  if (options.spec_text) {
    program = load_program(options.spec_path ? options.spec_path : "<text>", options.spec_text, files, diagnostics);
  } else {
    Result<Program> read = load_program(options.spec_path, files, diagnostics);
    if (!read) return fail_with(read.error());
    program = *std::move(read);
  }
  auto kernel = std::make_unique<epifuse_kernel>();
  const int calls_before = engine.engine->toolchain_calls();
  if (options.unfused) {
    const auto compiled =
        jit::compile_unfused(*engine.engine, *program, text_of(options.kernel), compiler, diagnostics);
    if (!compiled) return fail_with(compiled.error());
    if (!*compiled) return fail_with(EPIFUSE_ERROR_USER, diagnostics.print());
    kernel->recipe = (**compiled)->recipe;
    kernel->dims = (**compiled)->dims();
    kernel->info = info_json(***compiled, engine.engine->toolchain_calls() - calls_before);
    if (device) {
      Result<jit::LaunchSequence> loaded = jit::load_unfused(*engine.engine, **compiled, device);
      if (!loaded) return fail_with(loaded.error());
      kernel->loaded = *std::move(loaded);
    }
    kernel->buffers = list_buffers(kernel->recipe);
    *made = kernel.release();
    return EPIFUSE_OK;
  }
  auto compiled = engine.engine->compile(*program, text_of(options.kernel), compiler, diagnostics);
  if (!compiled) return fail_with(compiled.error());
  if (!*compiled) return fail_with(EPIFUSE_ERROR_USER, diagnostics.print());
  kernel->recipe = (**compiled)->image.recipe;
  kernel->dims = (**compiled)->dims();
  kernel->info = info_json(***compiled, engine.engine->toolchain_calls() - calls_before);
  kernel->buffers = list_buffers(kernel->recipe);
  if (device) {
    Result<jit::LoadedKernel> loaded = engine.engine->load(**compiled, device);
    if (!loaded) return fail_with(loaded.error());
    kernel->loaded = *std::move(loaded);
  }
  *made = kernel.release();
  return EPIFUSE_OK;
}

// Runs `body(arguments)` for a kernel that is on a GPU.
template <class F>
epifuse_status with_arguments(const char* function, const epifuse_kernel* kernel, const epifuse_arguments* arguments,
                              const void* result, F body) {
  const auto given = take(arguments);
  if (!kernel || !given || !result) {
    return usage(fmt::format("{}: a pointer is NULL, or a struct does not start with its size", function));
  }
  if (!kernel->loaded) return usage(fmt::format("{}: the kernel was loaded onto no GPU", function));
  runtime::Arguments converted;
  if (const auto wrong = convert(*given, converted)) return usage(fmt::format("{}: {}", function, *wrong));
  converted.dims = kernel->dims;
  return body(converted);
}

}  // namespace

const char* epifuse_version(void) {
  static const std::string text(version);
  return text.c_str();
}

const char* epifuse_last_error(void) { return last_error().c_str(); }

epifuse_status epifuse_engine_create(const epifuse_engine_options* options, epifuse_engine** engine) {
  return guarded([&]() -> epifuse_status {
    if (!engine) return usage("epifuse_engine_create: engine is NULL");
    const auto given = options ? take(options) : epifuse_engine_options{};
    if (!given) return usage("epifuse_engine_create: the options do not start with their size");
    Result<Settings> settings = read_settings();
    if (!settings) return fail_with(settings.error());
    if (const auto wrong = apply(*given, *settings)) return usage(fmt::format("epifuse_engine_create: {}", *wrong));
    jit::EngineOptions engine_options;
    engine_options.log = given->log ? callback_log(*given) : stderr_log(settings->log);
    engine_options.settings = *settings;
    auto made = std::make_shared<jit::Engine>(
        std::move(engine_options), std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), *settings),
        real_file_system());
    *engine = new epifuse_engine{std::move(made), deploy::DeviceTable([] { return runtime::load_driver(); })};
    return EPIFUSE_OK;
  });
}

void epifuse_engine_destroy(epifuse_engine* engine) { delete engine; }

epifuse_status epifuse_engine_add_bundle(epifuse_engine* engine, const char* path) {
  return guarded([&] {
    if (!engine || !path) return usage("epifuse_engine_add_bundle: a pointer is NULL");
    return done(engine->engine->add_bundle(std::string(path)));
  });
}

epifuse_status epifuse_engine_add_bundle_memory(epifuse_engine* engine, const void* bytes, size_t size,
                                                const char* name) {
  return guarded([&] {
    if (!engine || !bytes) return usage("epifuse_engine_add_bundle_memory: a pointer is NULL");
    return done(engine->engine->add_bundle(SharedBytes(nullptr, {static_cast<const char*>(bytes), size}),
                                           name ? name : "in memory"));
  });
}

epifuse_status epifuse_engine_prepare(epifuse_engine* engine, int32_t device, size_t* count) {
  return guarded([&]() -> epifuse_status {
    if (!engine) return usage("epifuse_engine_prepare: engine is NULL");
    if (device == EPIFUSE_DEVICE_NONE) return usage("epifuse_engine_prepare: it is for a GPU");
    const Result<runtime::DevicePtr> opened = engine->devices.open(device);
    if (!opened) return fail_with(opened.error());
    const Result<size_t> prepared = engine->engine->prepare(*opened);
    if (!prepared) return fail_with(prepared.error());
    if (count) *count = *prepared;
    return EPIFUSE_OK;
  });
}

epifuse_status epifuse_engine_seal(epifuse_engine* engine) {
  return guarded([&]() -> epifuse_status {
    if (!engine) return usage("epifuse_engine_seal: engine is NULL");
    if (const Status sealed = engine->engine->seal(); !sealed) return fail_with(sealed.error());
    engine->devices.seal();
    return EPIFUSE_OK;
  });
}

int64_t epifuse_engine_toolchain_calls(const epifuse_engine* engine) {
  return engine ? engine->engine->toolchain_calls() : 0;
}

epifuse_status epifuse_kernel_load(epifuse_engine* engine, const epifuse_kernel_options* options,
                                   epifuse_kernel** kernel) {
  return guarded([&]() -> epifuse_status {
    const auto given = take(options);
    if (!engine || !given || !kernel) {
      return usage("epifuse_kernel_load: a pointer is NULL, or the options do not start with their size");
    }
    return load_kernel(*engine, *given, kernel);
  });
}

void epifuse_kernel_destroy(epifuse_kernel* kernel) { delete kernel; }

const char* epifuse_kernel_info(const epifuse_kernel* kernel) { return kernel ? kernel->info.c_str() : ""; }

size_t epifuse_kernel_buffer_count(const epifuse_kernel* kernel) { return kernel ? kernel->buffers.size() : 0; }

epifuse_status epifuse_kernel_buffer(const epifuse_kernel* kernel, size_t index, epifuse_buffer_info* info) {
  return guarded([&]() -> epifuse_status {
    if (!kernel || !info || info->size < sizeof(size_t)) {
      return usage("epifuse_kernel_buffer: a pointer is NULL, or the struct does not start with its size");
    }
    return describe_buffer("epifuse_kernel_buffer", kernel->recipe, kernel->buffers, index, info);
  });
}

epifuse_status epifuse_workspace_bytes(const epifuse_kernel* kernel, const epifuse_arguments* arguments,
                                       int64_t* bytes) {
  return guarded([&] {
    return with_arguments("epifuse_workspace_bytes", kernel, arguments, bytes,
                          [&](const runtime::Arguments& converted) {
                            const Result<int64_t> needed = kernel->loaded->workspace_bytes(converted);
                            if (!needed) return fail_with(needed.error());
                            *bytes = *needed;
                            return epifuse_status{EPIFUSE_OK};
                          });
  });
}

epifuse_status epifuse_bind(const epifuse_kernel* kernel, const epifuse_arguments* arguments, epifuse_call** call) {
  return guarded([&] {
    return with_arguments("epifuse_bind", kernel, arguments, call, [&](const runtime::Arguments& converted) {
      Result<jit::BoundSequence> bound = kernel->loaded->bind(converted);
      if (!bound) return fail_with(bound.error());
      *call = new epifuse_call{*std::move(bound)};
      return epifuse_status{EPIFUSE_OK};
    });
  });
}

epifuse_status epifuse_rebind(epifuse_call* call, void* const* pointers, size_t pointer_count, void* workspace) {
  return guarded([&] { return rebind("epifuse_rebind", call, pointers, pointer_count, workspace); });
}

void epifuse_call_destroy(epifuse_call* call) { delete call; }

epifuse_status epifuse_launch(const epifuse_call* call, void* stream, int32_t sm_margin) {
  return guarded([&] {
    if (!call) return usage("epifuse_launch: the call is NULL");
    return done(call->bound.launch(static_cast<cuda::Stream>(stream), sm_margin));
  });
}

epifuse_status epifuse_launch_with(const epifuse_call* call, void* stream, const epifuse_launch_options* options) {
  return guarded([&]() -> epifuse_status {
    const auto given = options ? take(options) : epifuse_launch_options{};
    if (!call || !given)
      return usage("epifuse_launch_with: the call is NULL, or the options do not start with their size");
    return done(
        call->bound.launch(static_cast<cuda::Stream>(stream), {given->sm_margin, given->overlap_previous != 0}));
  });
}

epifuse_status epifuse_synchronize(const epifuse_call* call, void* stream) {
  return guarded([&] {
    if (!call) return usage("epifuse_synchronize: the call is NULL");
    return done(call->bound.synchronize(static_cast<cuda::Stream>(stream)));
  });
}

epifuse_status epifuse_check_group_sizes(const epifuse_call* call, void* stream) {
  return guarded([&] {
    if (!call) return usage("epifuse_check_group_sizes: the call is NULL");
    return done(call->bound.check_group_sizes(static_cast<cuda::Stream>(stream)));
  });
}
