#include "tests/gpu/support/cases.h"

#include "compiler/interpreter/interpreter.h"
#include "jit/inputs.h"

namespace epifuse::test {

using interpreter::Buffers;
using interpreter::HostTensor;

const char* const every_store_spec = R"(
kernel every_store {
  dim   E = 4, K = 192, N = 320
  group M by E
  group P = M align 128
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  in  p : f32[M]
  in  r : bf16[M, N]
  v     = gemm(x, w) * p + r
  out y : bf16[M, N]  = v
  out q : mxfp8[M, N] = v
  out t : mxfp8[N, P] = v
  out u : bf16[N, P]  = v
}
)";

Buffers made_inputs(const jit::CompiledKernelPtr& kernel, const std::vector<int64_t>& counts, int64_t slack_rows,
                    uint64_t seed) {
  jit::InputOptions options;
  options.counts = counts;
  options.slack_rows = slack_rows;
  options.seed = seed;
  return must(jit::make_inputs(kernel->planned.graph, options));
}

HostTensor ends_of(const std::vector<int64_t>& counts) {
  HostTensor ends = interpreter::make_tensor(Storage::i32, {static_cast<int64_t>(counts.size())});
  int64_t end = 0;
  for (size_t e = 0; e < counts.size(); ++e)
    interpreter::store_one(ends, static_cast<int64_t>(e), static_cast<double>(end += counts[e]));
  return ends;
}

Buffers output_shapes(const jit::CompiledKernelPtr& kernel, const Buffers& inputs) {
  return must(interpreter::make_outputs(must(interpreter::Problem::bind(kernel->planned.graph, inputs, {}))));
}

ProblemRun::ProblemRun(const jit::CompiledKernelPtr& kernel, const Buffers& inputs)
    : outputs_(output_shapes(kernel, inputs)),
      call_(must(jit::DeviceCall::make(must(engine().load(kernel, gpu().device)), inputs, outputs_, {}))) {}

Buffers ProblemRun::run(uint8_t poison_byte, int sm_margin) {
  poison(poison_byte);
  must(call_.launch(sm_margin));
  return download();
}

WrittenBytes ProblemRun::written() {
  return WrittenBytes([this](uint8_t byte) { return run(byte); });
}

void ProblemRun::upload(const std::string& name, const HostTensor& tensor) {
  must(call_.memory(name).upload(std::as_bytes(std::span(tensor.bytes)), call_.stream()));
}

Buffers ProblemRun::download() {
  must(call_.download(outputs_));
  return outputs_;
}

Memory::Memory(size_t bytes) : buffer_(must(runtime::DeviceBuffer::allocate(gpu().device, bytes))) {
  must(buffer_.fill(0xFF, gpu().stream.get()));
}

runtime::TensorArgument Memory::place(const std::string& name, const HostTensor& tensor, size_t beyond) {
  at_ = (at_ + 255) / 256 * 256 + beyond;
  REQUIRE(at_ + tensor.bytes.size() <= buffer_.bytes());
  const runtime::TensorArgument argument{name, buffer_.pointer() + at_, tensor.extents, {}, tensor.storage};
  at_ += tensor.bytes.size();
  return argument;
}

void Memory::put(const runtime::TensorArgument& to, std::span<const uint8_t> bytes) {
  must(buffer_.upload(std::as_bytes(bytes), gpu().stream.get(), offset_of(to)));
}

void Memory::get(const runtime::TensorArgument& from, HostTensor& tensor) const {
  must(buffer_.download(std::as_writable_bytes(std::span(tensor.bytes)), gpu().stream.get(), offset_of(from)));
}

namespace {

constexpr auto comparison_source = R"(
struct Parameters {
  const uint4* a;
  const uint4* b;
  unsigned* found;
  long long pieces;
};
extern "C" __global__ void compare_entry(const __grid_constant__ Parameters p) {
  unsigned different = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.pieces; i += 256ll * gridDim.x) {
    const uint4 a = p.a[i], b = p.b[i];
    different += (a.x != b.x) + (a.y != b.y) + (a.z != b.z) + (a.w != b.w);
  }
  if (different != 0) atomicAdd(p.found, different);
}
)";

LaunchRecipe comparison_recipe() {
  const IntExpr bytes = IntExpr::symbol("B");
  LaunchRecipe r;
  r.kernel = "compare";
  r.tensors = {{"a", Storage::e8m0, TensorRole::input, {bytes}, false, 16},
               {"b", Storage::e8m0, TensorRole::input, {bytes}, false, 16},
               {"found", Storage::i32, TensorRole::output, {1}, false, 4}};
  r.symbols = {{"B", SymbolKind::launch, 16}};
  RecipeStep step;
  step.entry = "compare_entry";
  step.block = 256;
  step.grid = IntExpr::symbol("sm_count");
  step.parameter_bytes = 32;
  step.fields = {{"a", FieldKind::address, 0, 8, "a"},
                 {"b", FieldKind::address, 8, 8, "b"},
                 {"found", FieldKind::address, 16, 8, "found"},
                 {"pieces", FieldKind::integer64, 24, 8, "", exact_div(bytes, 16)}};
  r.steps = {step};
  return r;
}

}  // namespace

BitComparison::BitComparison()
    : module_(compile_module(comparison_source, comparison_recipe())), found_(upload(std::vector<int32_t>{0})) {}

runtime::BoundCall BitComparison::bind(cuda::DevicePointer a, cuda::DevicePointer b, size_t bytes) const {
  const auto extent = static_cast<int64_t>(bytes);
  runtime::Arguments arguments;
  arguments.tensors = {{"a", a, {extent}}, {"b", b, {extent}}, {"found", found_.pointer(), {1}}};
  return must(runtime::bind_call(module_, arguments));
}

int BitComparison::different_words() const { return download<int32_t>(found_)[0]; }

}  // namespace epifuse::test
