// Bundles on a GPU: without the engine, where what is stored is what the engine's kernels store, bit by bit; and in an
// engine that was prepared and sealed.
#include <fmt/format.h>

#include "cache/bundle_writer.h"
#include "deploy/kernel_library.h"
#include "jit/bundled_kernels.h"
#include "jit/device_call.h"
#include "tests/gpu/support/kernels.h"
#include "tests/support/fake_toolchain.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Deployed {
  std::string file;
  std::map<std::string, int64_t> dims;
  jit::CompiledKernelPtr kernel;
};

interpreter::Buffers outputs_of(const jit::LoadedKernel& kernel, const interpreter::Buffers& inputs,
                                const interpreter::Buffers& empty) {
  auto call = must(jit::DeviceCall::make(kernel, inputs, empty, {}));
  must(call.fill_outputs(0xAA, {}));
  must(call.launch(0));
  interpreter::Buffers outputs = empty;
  must(call.download(outputs));
  CHECK(must(call.misplaced_writes(inputs)).empty());
  return outputs;
}

}  // namespace

TEST_CASE("kernels of a bundle store what the engine's kernels store") {
  std::vector<Deployed> list = {{"specs/grouped_gemm.epi", {{"E", 4}, {"K", 512}, {"N", 384}}, nullptr},
                                {"specs/moe_fc1_swiglu.epi", {{"E", 4}, {"K", 256}, {"I", 256}}, nullptr},
                                {"specs/moe_fc1_swiglu.epi", {{"E", 8}, {"K", 512}, {"I", 384}}, nullptr}};
  std::vector<cache::BundleEntry> entries;
  for (Deployed& one : list) {
    one.kernel = compile_spec(file_text(one.file), one.dims);
    entries.push_back(jit::bundle_entry(*one.kernel, "of this test"));
  }
  const std::string bytes = must(cache::encode_bundle(entries));
  deploy::KernelLibrary library([] { return runtime::load_driver(); });
  must(library.add_bundle(SharedBytes(nullptr, bytes), "in memory"));
  CHECK(must(library.prepare(0)) == list.size());
  must(library.seal());
  for (const Deployed& one : list) {
    const ir::Graph& graph = one.kernel->planned.graph;
    INFO(one.file << " " << cache::dims_text(one.dims));
    const interpreter::Buffers inputs = must(jit::make_inputs(graph, {}));
    const interpreter::Buffers empty =
        must(interpreter::make_outputs(must(interpreter::Problem::bind(graph, inputs, {}))));
    const auto deployed = must(library.find({"", {graph.name, "", one.dims, {}, ""}}, 0));
    CHECK(deployed == must(library.find({one.kernel->planned.request, {}}, deploy::current_device)));
    const auto wanted = outputs_of(must(engine().load(one.kernel, gpu().device)), inputs, empty);
    const auto stored = outputs_of({one.kernel, deployed->module}, inputs, empty);
    for (const auto& [name, tensor] : wanted) {
      INFO(name);
      CHECK((stored.at(name).bytes == tensor.bytes));
      CHECK_FALSE((tensor.bytes == empty.at(name).bytes));
    }
  }
}

TEST_CASE("a sealed engine finds what it prepared while a graph is captured, and refuses what it did not") {
  const auto kernel = compile_spec(file_text("specs/grouped_gemm.epi"), {{"E", 4}, {"K", 512}, {"N", 384}});
  const auto other = compile_spec(file_text("specs/moe_fc1_swiglu.epi"), {{"E", 4}, {"K", 256}, {"I", 256}});
  const std::string bytes = must(cache::encode_bundle({jit::bundle_entry(*kernel, "of this test")}));
  jit::EngineOptions options;
  options.settings.cache_wanted = false;
  jit::Engine sealed(std::move(options), std::make_shared<FakeToolchain>(), real_file_system());
  must(sealed.add_bundle(SharedBytes(nullptr, bytes), "in memory"));
  CHECK(must(sealed.prepare(gpu().device)) == 1);
  must(sealed.seal());

  const ir::Graph& graph = kernel->planned.graph;
  const interpreter::Buffers inputs = must(jit::make_inputs(graph, {}));
  const interpreter::Buffers empty =
      must(interpreter::make_outputs(must(interpreter::Problem::bind(graph, inputs, {}))));
  const auto wanted = outputs_of(must(engine().load(kernel, gpu().device)), inputs, empty);
  const auto loaded = must(sealed.load(must(sealed.compile(kernel->planned)), gpu().device));
  auto call = must(jit::DeviceCall::make(loaded, inputs, empty, {}));
  must(call.fill_outputs(0xAA, {}));
  std::string refused, refused_compile;
  bool same = false;
  const auto captured = must(runtime::CapturedGraph::capture(gpu().device, call.stream(), [&]() -> Status {
    const auto found = sealed.compile(kernel->planned);
    if (!found) return found.error();
    const auto again = sealed.load(*found, gpu().device);
    if (!again) return again.error();
    same = again->module == loaded.module;
    if (const auto late = sealed.load(other, gpu().device); !late) refused = late.error().message;
    if (const auto late = sealed.compile(other->planned); !late) refused_compile = late.error().message;
    return call.bound().launch(call.stream());
  }));
  CHECK(same);
  CHECK(refused.find("everything was sealed") != std::string::npos);
  CHECK(refused_compile.find("would have to be compiled: everything was sealed") != std::string::npos);
  must(captured.replay(call.stream()));
  must(call.bound().synchronize(call.stream()));
  interpreter::Buffers stored = empty;
  must(call.download(stored));
  for (const auto& [name, tensor] : wanted) CHECK((stored.at(name).bytes == tensor.bytes));
}
