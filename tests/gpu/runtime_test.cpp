// The runtime on a real device: load, bind, launch, capture, and what a fault says.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/guard_buffer.h"
#include "tests/gpu/support/gpu.h"

using namespace epifuse;
using namespace epifuse::test;
using runtime::Arguments;
using runtime::GuardBuffer;

namespace {

// out[i] = in[i] + add for i < total, where total is read from the device, as group sizes are. `extra` bytes more are
// read, to fall off the end on purpose.
constexpr auto source = R"(
struct Parameters {
  const unsigned char* in;
  unsigned char* out;
  const int* ends;
  long long capacity;
  int blocks;
  float add;
  int extra;
};
extern "C" __global__ void copy_entry(const __grid_constant__ Parameters p) {
  const long long total = p.ends[0] + p.extra;
  for (long long i = blockIdx.x * 128ll + threadIdx.x; i < total; i += 128ll * p.blocks) {
    const unsigned char value = *(const volatile unsigned char*)(p.in + i);
    if (i < p.capacity) p.out[i] = value + (unsigned char)p.add;
  }
}
)";

LaunchRecipe copy_recipe(int extra = 0) {
  const IntExpr m = IntExpr::symbol("M"), sms = IntExpr::symbol("sm_count");
  LaunchRecipe r;
  r.kernel = "copy";
  r.tensors = {{"in", Storage::e8m0, TensorRole::input, {m}, false, 16},
               {"out", Storage::e8m0, TensorRole::output, {m}, false, 16},
               {"M.ends", Storage::i32, TensorRole::group_sizes, {1}, false, 4}};
  r.symbols = {{"M", SymbolKind::launch, 1}};
  r.params = {{"add", 1.0}};
  RecipeStep step;
  step.entry = "copy_entry";
  step.block = 128;
  step.grid = min(ceil_div(m, 128), sms);
  step.parameter_bytes = 48;
  step.fields = {{"in", FieldKind::address, 0, 8, "in"},
                 {"out", FieldKind::address, 8, 8, "out"},
                 {"ends", FieldKind::address, 16, 8, "M.ends"},
                 {"capacity", FieldKind::integer64, 24, 8, "", m},
                 {"blocks", FieldKind::integer32, 32, 4, "", step.grid},
                 {"add", FieldKind::param, 36, 4, "", 0, 0},
                 {"extra", FieldKind::integer32, 40, 4, "", extra}};
  r.steps = {step};
  return r;
}

// Buffers of `rows` bytes that end at unmapped pages, and the arguments over them.
struct CopyProblem {
  explicit CopyProblem(int64_t rows)
      : in(must(GuardBuffer::allocate(gpu().device, static_cast<size_t>(rows)))),
        out(must(GuardBuffer::allocate(gpu().device, static_cast<size_t>(rows)))),
        ends(upload(std::vector<int32_t>{static_cast<int32_t>(rows)})) {
    std::vector<uint8_t> values(static_cast<size_t>(rows));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7);
    must(in.upload(std::as_bytes(std::span(values)), gpu().stream.get()));
    arguments.tensors = {{"in", in.pointer(), {rows}}, {"out", out.pointer(), {rows}}, {"M.ends", ends.pointer(), {1}}};
  }

  void set_rows(int32_t rows) { must(ends.upload(std::as_bytes(std::span(&rows, 1)), gpu().stream.get())); }

  // Elements of the output that are in[i] + add below `rows`, and 0xff, as it was filled, from there on.
  void expect(int32_t rows, int add) const {
    const auto got = download<uint8_t>(out);
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto wanted = i < static_cast<size_t>(rows) ? static_cast<uint8_t>(i * 7 + static_cast<size_t>(add)) : 0xff;
      wrong += got[i] != wanted;
    }
    CHECK(wrong == 0);
  }

  GuardBuffer in, out;
  runtime::DeviceBuffer ends;
  Arguments arguments;
};

}  // namespace

TEST_CASE("the device says what it is") {
  const auto& info = gpu().device->info();
  CHECK(info.sm_count > 0);
  CHECK(info.memory_bytes > (size_t{1} << 30));
  CHECK(info.l2_bytes > 0);
  CHECK_FALSE(info.name.empty());
  CHECK(must(runtime::driver_version(gpu().device->driver())) >= 12040);
  const auto list = must(runtime::list_devices(gpu().device->driver()));
  CHECK(list.front().name == info.name);
}

TEST_CASE("a kernel goes from text to a right result, at every margin") {
  const auto module = compile_module(source, copy_recipe());
  for (const int64_t rows : {16, 4096, 1000000}) {
    CopyProblem problem(rows);
    auto call = must(runtime::bind_call(module, problem.arguments));
    for (const int margin : {0, 16, gpu().device->info().sm_count - 1}) {
      must(problem.out.fill(0xff, gpu().stream.get()));
      must(call.launch(gpu().stream.get(), margin));
      must(call.synchronize(gpu().stream.get()));
      problem.expect(static_cast<int32_t>(rows), 1);
    }
    must(call.check_group_sizes(gpu().stream.get()));
    problem.set_rows(static_cast<int32_t>(rows) + 1);
    CHECK(call.check_group_sizes(gpu().stream.get()).error().message.find("past the capacity") != std::string::npos);
  }
}

TEST_CASE("no rows: nothing is launched") {
  const auto module = compile_module(source, copy_recipe());
  CopyProblem problem(0);
  auto call = must(runtime::bind_call(module, problem.arguments));
  CountingDriver::reset();
  must(call.launch(gpu().stream.get()));
  CHECK(CountingDriver::counts().empty());
  must(call.synchronize(gpu().stream.get()));
}

TEST_CASE("a captured graph follows the sizes in its buffers") {
  const auto module = compile_module(source, copy_recipe());
  CopyProblem problem(100000);
  auto call = must(runtime::bind_call(module, problem.arguments));
  const auto stream = gpu().stream.get();
  const runtime::CurrentContext scope(*gpu().device);  // as in a framework's thread
  const auto graph = must(runtime::CapturedGraph::capture(gpu().device, stream, [&] { return call.launch(stream); }));
  for (const int32_t rows : {0, 1, 99999, 100000, 37}) {
    must(problem.out.fill(0xff, stream));
    CountingDriver::reset();
    problem.set_rows(rows);
    must(graph.replay(stream));
    must(call.synchronize(stream));
    auto counts = CountingDriver::counts();
    counts.erase("ctx_get_current");  // a look at this thread, no work
    CHECK(counts ==
          std::map<std::string, int>{{"memcpy_htod_async", 1}, {"graph_launch", 1}, {"stream_synchronize", 2}});
    problem.expect(rows, 1);
  }
}

TEST_CASE("threads without a context launch, on streams of their own, at once") {
  const auto module = compile_module(source, copy_recipe());
  std::vector<std::unique_ptr<CopyProblem>> problems;
  std::vector<runtime::BoundCall> calls;
  std::vector<runtime::OwnedStream> streams;
  for (int i = 0; i < 4; ++i) {
    problems.push_back(std::make_unique<CopyProblem>(65536));
    problems.back()->arguments.params = {{"add", 10.0 + i}};
    calls.push_back(must(runtime::bind_call(module, problems.back()->arguments)));
    streams.push_back(must(runtime::make_stream(gpu().device)));
  }
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200 && errors[i].empty(); ++round) {
        const Status s = calls[i].launch(streams[i].get(), round % 3);
        if (!s) errors[i] = s.error().message;
      }
      const Status s = calls[i].synchronize(streams[i].get());
      if (!s && errors[i].empty()) errors[i] = s.error().message;
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(errors[i].empty());
    problems[i]->expect(65536, 10 + static_cast<int>(i));
  }
}

TEST_CASE("a binary for another GPU is refused in words") {
  const auto image = compile_image(source, copy_recipe(), "sm_100a");
  const auto module = runtime::Module::load(gpu().device, image);
  REQUIRE_FALSE(module);
  INFO(module.error().message);
  CHECK(module.error().message.find("another GPU architecture (209") != std::string::npos);
  CHECK(module.error().message.find("built for sm_100a") != std::string::npos);
}

TEST_CASE("an image whose struct is not the recipe's is refused") {
  auto recipe = copy_recipe();
  recipe.steps[0].parameter_bytes = 64;
  const auto module = runtime::Module::load(gpu().device, compile_image(source, recipe));
  REQUIRE_FALSE(module);
  CHECK(module.error().message.find("does not take one struct of 64 bytes as its recipe says (found 48)") !=
        std::string::npos);
}

TEST_CASE("damaged cubins are refused, not crashed upon") {
  auto image = compile_image(source, copy_recipe());
  image.cubin = std::string(image.cubin.view().substr(0, 100)) + std::string(4096, '\0');
  CHECK_FALSE(runtime::Module::load(gpu().device, image));
  image.cubin = std::string(4096, 'x');
  CHECK_FALSE(runtime::Module::load(gpu().device, image));
}

TEST_CASE("host memory and unknown addresses are refused as tensors") {
  const auto module = compile_module(source, copy_recipe());
  CopyProblem problem(4096);
  alignas(16) static unsigned char host[4096];
  problem.arguments.tensors[1].pointer = reinterpret_cast<uint64_t>(host);
  CHECK(runtime::bind_call(module, problem.arguments).error().message.find("not in memory that CUDA knows") !=
        std::string::npos);
}

TEST_CASE("creating and destroying leaves the memory as it was") {
  const auto image = compile_image(source, copy_recipe());
  const auto free_bytes = [] {
    const runtime::CurrentContext scope(*gpu().device);
    size_t free = 0, total = 0;
    REQUIRE(gpu().device->driver().mem_get_info(&free, &total) == cuda::Code::success);
    return free;
  };
  const auto round = [&] {
    const auto module = must(runtime::Module::load(gpu().device, image));
    CopyProblem problem(4096);
    auto call = must(runtime::bind_call(module, problem.arguments));
    must(call.launch(gpu().stream.get()));
    must(call.synchronize(gpu().stream.get()));
  };
  for (int i = 0; i < 20; ++i) round();
  // What is free is the device's, and other processes may take of it meanwhile; what we lost would be lost every time.
  bool flat = false;
  for (int attempt = 0; attempt < 5 && !flat; ++attempt) {
    const size_t before = free_bytes();
    for (int i = 0; i < 200; ++i) round();
    flat = free_bytes() + (1 << 20) >= before;
  }
  CHECK(flat);
}

// Run by the test below in a process of its own.
TEST_CASE("child: one byte past the end is read", "[.child]") {
  const auto module = compile_module(source, copy_recipe(/*extra=*/1));
  CopyProblem problem(4096);
  auto call = must(runtime::bind_call(module, problem.arguments));
  must(call.launch(gpu().stream.get()));
  must(call.synchronize(gpu().stream.get()));
}

TEST_CASE("reading one byte past a guarded buffer faults, and the message names the kernel") {
  bool failed = false;
  const std::string output = run_in_child("child: one byte past the end is read", failed);
  INFO(output);
  CHECK(failed);
  CHECK(output.find("kernel 'copy' on GPU 0") != std::string::npos);
  CHECK(output.find("700") != std::string::npos);
}

// Prints what a bound launch costs the host over the bare driver call. Hidden: a time proves nothing on a busy machine.
TEST_CASE("cost of a bound launch", "[.cost]") {
  const auto module = compile_module(source, copy_recipe());
  CopyProblem problem(16);
  problem.set_rows(0);
  const auto stream = gpu().stream.get();
  auto call = must(runtime::bind_call(module, problem.arguments));
  const auto& driver = gpu().device->driver();
  const runtime::CurrentContext scope(*gpu().device);
  alignas(64) std::byte parameters[48] = {};
  const cuda::DevicePointer ends = problem.ends.pointer();
  std::memcpy(parameters + 16, &ends, sizeof ends);
  void* arguments[] = {parameters};
  const cuda::LaunchConfig config = {1, 1, 1, 128, 1, 1, 0, stream, nullptr, 0};
  using Clock = std::chrono::steady_clock;
  const auto per_launch = [&](const auto& launch) {
    must(call.synchronize(stream));
    const auto start = Clock::now();
    for (int i = 0; i < 500; ++i) launch();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 500;
    must(call.synchronize(stream));
    return ns;
  };
  std::vector<double> bare, bound, binding;
  for (int batch = 0; batch < 41; ++batch) {
    bare.push_back(
        per_launch([&] { (void)driver.launch_kernel_ex(&config, module->entry(0).function, arguments, nullptr); }));
    bound.push_back(per_launch([&] { (void)call.launch(stream); }));
    binding.push_back(per_launch([&] { (void)runtime::bind_call(module, problem.arguments); }));
  }
  for (auto* times : {&bare, &bound, &binding}) std::sort(times->begin(), times->end());
  WARN("host time, median: bare launch " << bare[20] << " ns, bound launch " << bound[20] << " ns, binding "
                                         << binding[20] << " ns");
}
