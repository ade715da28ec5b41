#include "jit/host_cost.h"

#include <chrono>
#include <cstring>

#include "base/ensure.h"
#include "jit/launch_sequence.h"

namespace epifuse::jit {

// One thread records at a time, by itself: entries of a driver table are plain functions.
struct RecordedLaunch::Recording {
  const runtime::Module* module;
  std::vector<Call> calls;

  // Of the struct that a kernel takes.
  uint32_t parameter_bytes(cuda::Function function) const {
    const LaunchRecipe& recipe = module->recipe();
    for (size_t i = 0; i < recipe.steps.size(); ++i) {
      const runtime::Module::Entry& entry = module->entry(i);
      if (function == entry.function || function == reinterpret_cast<cuda::Function>(entry.kernel))
        return recipe.steps[i].parameter_bytes;
    }
    EPIFUSE_ENSURE(false, "a launch of a kernel that is not the module's");
    return 0;
  }
};

thread_local RecordedLaunch::Recording* RecordedLaunch::recording_ = nullptr;

runtime::Driver RecordedLaunch::recording(const runtime::DriverApi& real) {
  auto table = std::make_shared<runtime::DriverApi>(real);
  table->launch_kernel_ex = [](const cuda::LaunchConfig* config, cuda::Function function, void** arguments, void**) {
    EPIFUSE_ENSURE(recording_, "a launch that nobody records");
    Call call;
    call.config = *config;
    const auto* attributes = static_cast<const cuda::LaunchAttribute*>(config->attributes);
    call.attributes.assign(attributes, attributes + config->attribute_count);
    call.function = function;
    const uint32_t bytes = recording_->parameter_bytes(function);
    call.parameters.resize((bytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    std::memcpy(call.parameters.data(), arguments[0], bytes);
    recording_->calls.push_back(std::move(call));
    return cuda::Code::success;
  };
  table->memset_d8_async = [](cuda::DevicePointer address, unsigned char value, size_t bytes, cuda::Stream) {
    EPIFUSE_ENSURE(recording_, "a memset that nobody records");
    Call call;
    call.is_memset = true;
    call.address = address, call.value = value, call.bytes = bytes;
    recording_->calls.push_back(std::move(call));
    return cuda::Code::success;
  };
  return table;
}

Result<RecordedLaunch> RecordedLaunch::record(const runtime::Module& module, const std::function<Status()>& launch) {
  Recording recording{&module, {}};
  recording_ = &recording;
  const Status launched = launch();
  recording_ = nullptr;
  if (!launched) return launched.error();
  RecordedLaunch made;
  made.calls_ = std::move(recording.calls);
  for (Call& call : made.calls_) call.config.attributes = call.attributes.data();
  return made;
}

cuda::Code RecordedLaunch::replay(const runtime::DriverApi& driver, cuda::Stream stream) const {
  for (const Call& call : calls_) {
    cuda::Code code;
    if (call.is_memset) {
      code = driver.memset_d8_async(call.address, call.value, call.bytes, stream);
    } else {
      cuda::LaunchConfig config = call.config;
      config.stream = stream;
      void* arguments[] = {const_cast<Chunk*>(call.parameters.data())};
      code = driver.launch_kernel_ex(&config, call.function, arguments, nullptr);
    }
    if (code != cuda::Code::success) return code;
  }
  return cuda::Code::success;
}

namespace {

using Clock = std::chrono::steady_clock;

// Addresses in the recipe's order, as rebind wants them.
std::vector<cuda::DevicePointer> addresses_of(const runtime::Arguments& arguments) {
  std::vector<cuda::DevicePointer> addresses;
  for (const runtime::TensorArgument& tensor : arguments.tensors) addresses.push_back(tensor.pointer);
  return addresses;
}

// One of the ways to launch.
struct Way {
  std::function<Status(int i)> run;  // the i-th launch
  std::vector<double> microseconds;  // of one launch, by batch
};

Status run_batch(Way& way, const runtime::Device& device, cuda::Stream stream, int launches) {
  const auto start = Clock::now();
  for (int i = 0; i < launches; ++i)
    if (Status run = way.run(i); !run) return run;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  way.microseconds.push_back(1e6 * seconds / launches);
  return runtime::synchronize(device, stream, "waiting for launches");
}

Status run_all(std::vector<Way*> ways, const runtime::Device& device, cuda::Stream stream,
               const HostCostOptions& options) {
  // A framework's thread has a context, too.
  const runtime::CurrentContext scope(device);
  if (scope.code() != cuda::Code::success) return runtime::driver_error(device.driver(), scope.code(), "launching");
  for (Way* way : ways)  // to load what is loaded at first use
    if (Status run = run_batch(*way, device, stream, options.batch); !run) return run;
  for (Way* way : ways) way->microseconds.clear();
  for (int done = 0; done < options.launches; done += options.batch)
    for (Way* way : ways)
      if (Status run = run_batch(*way, device, stream, options.batch); !run) return run;
  return {};
}

}  // namespace

Result<HostCost> measure_host_cost(Engine& engine, const LoadedKernel& kernel, DeviceProblem& problem,
                                   const HostCostOptions& options) {
  const LaunchSequence form(kernel);
  const runtime::DevicePtr& device = form.device();
  const Result<size_t> copy = problem.add_copy();
  if (!copy) return copy.error();
  runtime::Arguments arguments[2];
  for (size_t i = 0; i < 2; ++i) {
    Result<runtime::Arguments> made = problem.arguments(form, i == 0 ? 0 : *copy);
    if (!made) return made.error();
    arguments[i] = *std::move(made);
  }
  const Result<runtime::OwnedStream> owned_stream = runtime::make_stream(device);
  if (!owned_stream) return owned_stream.error();
  const cuda::Stream stream = owned_stream->get();

  // The same kernel, loaded once more through a driver that only takes notes.
  const auto noting = runtime::Device::open(RecordedLaunch::recording(device->driver()), device->info().ordinal);
  if (!noting) return noting.error();
  const Result<LoadedKernel> noted = engine.load(kernel.compiled, *noting);
  if (!noted) return noted.error();
  const Result<runtime::BoundCall> noted_call = runtime::bind_call(noted->module, arguments[0]);
  if (!noted_call) return noted_call.error();
  const Result<RecordedLaunch> calls =
      RecordedLaunch::record(*noted->module, [&] { return noted_call->launch(stream); });
  if (!calls) return calls.error();

  const Result<BoundSequence> bound = form.bind(arguments[0]);
  if (!bound) return bound.error();
  Result<BoundSequence> changing = form.bind(arguments[0]);
  if (!changing) return changing.error();
  const std::vector<cuda::DevicePointer> addresses[2] = {addresses_of(arguments[0]), addresses_of(arguments[1])};

  const auto bare_launch = [&](int) {
    return runtime::check(device->driver(), calls->replay(device->driver(), stream), "launching");
  };
  const auto rebind_and_launch = [&](int i) -> Status {
    const auto to = static_cast<size_t>((i + 1) % 2);
    if (Status changed = changing->rebind(addresses[to], arguments[to].workspace.pointer); !changed) return changed;
    return changing->launch(stream);
  };
  const auto bind_and_launch = [&](int i) -> Status {
    const Result<BoundSequence> fresh = form.bind(arguments[i % 2]);
    if (!fresh) return fresh.error();
    return fresh->launch(stream);
  };
  Way bare{bare_launch, {}}, launch{[&](int) { return bound->launch(stream); }, {}}, rebinding{rebind_and_launch, {}},
      binding{bind_and_launch, {}};
  if (Status run = run_all({&bare, &launch, &rebinding, &binding}, *device, stream, options); !run) return run.error();

  HostCost cost;
  cost.driver_calls = calls->calls();
  cost.bare = distribution(std::move(bare.microseconds));
  cost.launch = distribution(std::move(launch.microseconds));
  cost.rebind_and_launch = distribution(std::move(rebinding.microseconds));
  cost.bind_and_launch = distribution(std::move(binding.microseconds));
  return cost;
}

}  // namespace epifuse::jit
