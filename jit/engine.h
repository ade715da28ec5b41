// Engine: the only place where compiler, cache and runtime meet. A spec becomes a Kernel: planned, found in the cache
// or compiled, and, where there is a device, loaded.
//
// An Engine owns all state (settings, cache, loaded kernels); it is thread-safe and several may live. A Kernel is
// immutable and shared. Nothing here is needed on a launch's way: a BoundCall (runtime/bind.h) launches by itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "base/kernel_image.h"
#include "base/log.h"
#include "base/settings.h"
#include "cache/bundle_set.h"
#include "cache/kernel_cache.h"
#include "compiler/compiler.h"
#include "compiler/toolchain/toolchain.h"
#include "jit/artifact_store.h"
#include "runtime/bind.h"
#include "runtime/device.h"
#include "runtime/module.h"

namespace epifuse::jit {

// Another plan that was tried and refused, and why ("spills 48 bytes").
struct RefusedPlan {
  std::string schedule;
  std::string reason;
};

// Where the milliseconds of CompiledKernel went, summed over the plans that were tried.
struct CompileTimes {
  double plan = 0;     // from the spec's tree to plans; 0 where a plan was given
  double emit = 0;     // CUDA text
  double look_up = 0;  // key, cache, reading and publishing
  double toolchain = 0;
  toolchain::PhaseTimes phases;  // of `toolchain`
};

struct CompiledKernel {
  PlannedKernel planned;
  // Index into planned.lowered.plans: the one that was taken. A bundle may hold a plan that this compiler does not
  // list: then 0, and schedule() has the name.
  size_t plan = 0;
  KernelImage image;
  std::string ptx;  // only when it was compiled just now
  std::string key;  // artifact key: the entry's file name
  From from = From::toolchain;
  std::string bundle;                // its name, when it is from one
  std::vector<RefusedPlan> refused;  // the others that were tried, in order
  std::string said;                  // the one of the image's warnings that is in the log already; empty: none
  double milliseconds = 0;           // spec to image, in this call
  CompileTimes times;

  std::string schedule_name;                              // of the plan taken
  std::string schedule() const { return schedule_name; }  // "pingpong 128x192"
  std::vector<runtime::NamedInteger> dims() const;        // the numbers that a call is bound with (Arguments::dims)
  // Bytes of workspace for a call, over what only a launch knows: `dyn`s, capacities, multiprocessors. 0: none.
  IntExpr workspace_bytes() const;
};
using CompiledKernelPtr = std::shared_ptr<const CompiledKernel>;

struct LoadedKernel {
  CompiledKernelPtr compiled;
  runtime::ModulePtr module;
};

struct EngineOptions {
  Settings settings;
  LogSink log;
  bool read_cache = true;   // false: nothing on disk is looked at or written, bundles too; kernels are kept in memory
  bool write_cache = true;  // false: what is compiled is not stored
};

class Engine {
 public:
  // Toolchain and disk may be fakes. `disk` must outlive the engine.
  Engine(EngineOptions options, std::shared_ptr<toolchain::Toolchain> toolchain, FileSystem& disk);
  ~Engine();
  // With NVRTC, the real disk, and the settings of the environment. Without a sink, stderr at the level that is set.
  static Result<std::shared_ptr<Engine>> from_environment(LogSink log = nullptr);

  // Plans, and looks for the request in the bundles (Settings::bundles, add_bundle), in their order. Else, for each
  // plan in order: looks into the cache, else compiles. A plan that spills or serialises wgmma is left (a redirect in
  // the cache remembers that) and the next is taken; when all do, the one that spills least is used with a warning.
  // Mistakes in the spec are in the diagnostics; other failures are the Result's error. An empty optional goes with
  // diagnostics.
  Result<std::optional<CompiledKernelPtr>> compile(const Program& program, std::string_view kernel,
                                                   const CompilerOptions& options, Diagnostics& diagnostics);

  // The first half of it: plan_kernel(), by the tuning file where the options name no plan.
  std::optional<PlannedKernel> plan(const Program& program, std::string_view kernel, const CompilerOptions& options,
                                    Diagnostics& diagnostics);

  // The second half: from a plan on.
  Result<CompiledKernelPtr> compile(PlannedKernel planned);

  // What compile() would give now, where nothing has to be compiled for it; null: something has. Nothing is recorded.
  CompiledKernelPtr find(PlannedKernel planned);

  // Several at the same time, on up to so many threads (0: one for each core); results in the order of the plans.
  std::vector<Result<CompiledKernelPtr>> compile_all(std::vector<PlannedKernel> planned, int threads = 0);

  // Compiles a CUDA text that is no spec's, through the same cache.
  Result<KernelImage> compile_text(const toolchain::CompileRequest& request, const LaunchRecipe& recipe);

  // Loads onto the device; once for each kernel and device, however many threads ask.
  Result<LoadedKernel> load(CompiledKernelPtr compiled, const runtime::DevicePtr& device);

  // Loads onto the device every kernel of the bundles that is for its target, and every kernel that this engine has
  // compiled or taken from the cache, so that no later load() loads any: loading takes locks of the driver and may wait
  // until the device is idle. Gives their number. Errors: there is none (environment); damage in a bundle (wrong); what
  // the driver says of a kernel, which is named.
  Result<size_t> prepare(const runtime::DevicePtr& device);
  // From here on compile() gives what is in the bundles or the cache, load() what is loaded; a miss of either is an
  // error (environment) that names the kernel. No bundle is added any more. Waits for the loads of other threads; what
  // they are compiling is compiled to its end, and not loaded.
  Status seal();

  // One more bundle to look into, behind the others; of a file, or of memory that outlives every kernel that is loaded
  // from it. Errors: BundleReader's; after seal() (environment).
  Status add_bundle(const std::string& path);
  Status add_bundle(SharedBytes bytes, std::string name);

  // Notes a request in the file of Settings::record, where there is one. compile() of a spec does so by itself; who
  // compiles the unfused form of a kernel calls this.
  void record(const Program& program, const ir::Graph& graph, const CompilerOptions& options, bool unfused);

  // Whether what is found nowhere is compiled: not under Settings::jit off, nor after seal().
  bool may_compile() const;

  // Toolchain calls of this engine so far: tests and `--json` count them.
  int toolchain_calls() const;
  cache::KernelCache& cache();
  toolchain::Toolchain& toolchain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace epifuse::jit
