// What launching a bound kernel costs the host, beside the driver calls that any program would have to make.
#pragma once

#include <functional>
#include <vector>

#include "jit/device_problem.h"
#include "jit/distribution.h"
#include "jit/engine.h"
#include "runtime/driver_api.h"

namespace epifuse::jit {

// The driver calls of a launch, with copies of all that they are given, to make them again without us.
class RecordedLaunch {
 public:
  // What `launch` puts on its stream through `driver`, which is a table from recording(). Kernels of `module` alone.
  static Result<RecordedLaunch> record(const runtime::Module& module, const std::function<Status()>& launch);

  // A table that does nothing but note launches and memsets while one is recorded on this thread; every other call goes
  // to `real`.
  static runtime::Driver recording(const runtime::DriverApi& real);

  // The calls once more, through `driver`. The context must be current.
  cuda::Code replay(const runtime::DriverApi& driver, cuda::Stream stream) const;
  size_t calls() const { return calls_.size(); }

 private:
  struct alignas(64) Chunk {
    std::byte bytes[64];
  };
  struct Call {
    bool is_memset = false;
    cuda::LaunchConfig config{};
    std::vector<cuda::LaunchAttribute> attributes;
    cuda::Function function = nullptr;
    std::vector<Chunk> parameters;
    cuda::DevicePointer address = 0;
    unsigned char value = 0;
    size_t bytes = 0;
  };
  struct Recording;
  static thread_local Recording* recording_;

  std::vector<Call> calls_;
};

struct HostCost {
  size_t driver_calls = 0;         // of one launch
  Distribution bare;               // microseconds of one: these calls alone
  Distribution launch;             // of a bound call
  Distribution rebind_and_launch;  // with other buffers of the same sizes
  Distribution bind_and_launch;    // all of it anew
};

struct HostCostOptions {
  int launches = 10000;  // of each kind, in all
  // Launched one behind the other; then the stream is drained, so that its queue never fills up and makes the host
  // wait.
  int batch = 200;
};

// `kernel` is loaded on the device of `problem`. Each distribution is over batches.
Result<HostCost> measure_host_cost(Engine& engine, const LoadedKernel& kernel, DeviceProblem& problem,
                                   const HostCostOptions& options);

}  // namespace epifuse::jit
