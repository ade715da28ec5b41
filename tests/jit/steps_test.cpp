// Calls of several steps with a workspace, and tensors of one buffer per group, as run and verify make them: on a
// pretended GPU whose recipe is a spec's own with more in it.
#include "compiler/interpreter/interpreter.h"
#include "compiler/semantics/resolve.h"
#include "jit/device_call.h"
#include "jit/run.h"
#include "jit/verify.h"
#include "tests/jit/pretend_gpu.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;

namespace {

constexpr auto spec = R"(
kernel pretend {
  dim   E = 3, K = 64, N = 64
  group M by E
  in  x  : bf16[M, K]
  in  w  : bf16[E, N, K]
  out y  : bf16[M, N] = gemm(x, w)
}
)";

template <class T>
T must(Result<T> result) {
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  return *std::move(result);
}

void add_address(RecipeStep& step, const std::string& name, const std::string& tensor, const IntExpr& value = 0) {
  const uint32_t at = (step.parameter_bytes + 7) / 8 * 8;
  step.fields.push_back({name, FieldKind::address, at, 8, tensor, value, 0});
  step.parameter_bytes = at + 8;
}

// Bytes of the workspace: a part that is cleared, and behind it room for y.
constexpr int64_t cleared = 512;

// One call: the spec's kernel with `change` applied to its recipe.
struct Case {
  explicit Case(const std::function<void(LaunchRecipe&)>& change) : engine(disk) {
    auto made = std::make_shared<jit::CompiledKernel>(*engine.compile(spec));
    change(made->image.recipe);
    const Status valid = made->image.recipe.validate();
    INFO((valid ? std::string() : valid.error().message));
    REQUIRE(valid);
    compiled = made;
    gpu.expect(compiled->image.recipe);
    options.inputs.counts = {{40, 0, 33}};
    options.inputs.mode = jit::DataMode::integers;
    options.inputs.threads = 1;
    inputs = must(jit::make_inputs(compiled->planned.graph, options.inputs));
    result = must(interpreter::run(compiled->planned.graph, inputs)).at("y").bytes;
  }

  jit::VerifyReport verify() { return must(jit::verify(*engine, compiled, options, gpu.device)); }

  MemoryFileSystem disk;
  PretendGpu gpu;  // outlives what the engine loads onto it
  TestEngine engine;
  jit::CompiledKernelPtr compiled;
  jit::VerifyOptions options;
  Buffers inputs;
  std::vector<uint8_t> result;  // y of a right kernel
};

// The kernel puts its result into the workspace, and a second launch takes it from there to y.
void through_the_workspace(LaunchRecipe& r) {
  const IntExpr bytes = IntExpr::symbol("M") * IntExpr::symbol("N") * 2;
  RecipeStep clear;
  clear.kind = RecipeStep::Kind::memset;
  clear.bytes = cleared;
  add_address(r.steps[0], "counters", "workspace");
  add_address(r.steps[0], "parts", "workspace", cleared);
  RecipeStep finish;
  finish.entry = "finish";
  finish.block = 32;
  finish.grid = min(IntExpr::symbol("M"), 1);
  add_address(finish, "parts", "workspace", cleared);
  add_address(finish, "y", "y");
  r.steps.insert(r.steps.begin(), clear);
  r.steps.push_back(finish);
  r.workspace_bytes = cleared + bytes;
}

struct WorkspaceCase : Case {
  WorkspaceCase() : Case(through_the_workspace) {
    gpu.kernel = [this](int, const PretendGpu::Outputs& memory) {
      if (gpu.entry == "finish") {
        std::memcpy(memory.at("y"), memory.at("parts"), result.size());
        return;
      }
      for (int64_t i = 0; i < cleared; ++i) all_clear = all_clear && memory.at("counters")[i] == 0;
      found.push_back(memory.at("parts")[0]);
      if (spoil) spoil(memory.at("counters"));
      std::memset(memory.at("counters"), 0x33, cleared);
      std::memcpy(memory.at("parts"), result.data(), result.size());
    };
  }
  bool all_clear = true;
  std::vector<int> found;  // the first byte of what is not cleared, at each launch
  std::function<void(uint8_t* workspace)> spoil;
};

}  // namespace

TEST_CASE("verify launches every step, over a workspace that holds poison where no memset clears it") {
  WorkspaceCase c;
  CHECK(c.compiled->workspace_bytes().text() == "M * 128 + 512");
  const auto report = c.verify();
  INFO(report.print());
  CHECK(report.ok);
  CHECK(c.gpu.launches == 4);
  CHECK(c.all_clear);
  CHECK(c.found == std::vector<int>{0xFF, 0xAA});
}

TEST_CASE("what verify says of bytes around the workspace") {
  WorkspaceCase c;
  const int64_t bytes = cleared + static_cast<int64_t>(c.result.size());
  SECTION("in front of it") {
    c.spoil = [](uint8_t* workspace) { workspace[-1] = 0; };
  }
  SECTION("behind it") {
    c.spoil = [bytes](uint8_t* workspace) { workspace[bytes] = 0; };
    REQUIRE(bytes % workspace_alignment != 0);  // else the page behind it faults
  }
  const auto report = c.verify();
  CHECK_FALSE(report.ok);
  CHECK(contains(report.print(), "1 bytes around the workspace were written"));
}

TEST_CASE("run_on_gpu has a workspace too, and never a cleared one") {
  WorkspaceCase c;
  const Buffers got = must(jit::run_on_gpu(*c.engine, c.compiled, c.inputs, {}, c.gpu.device));
  CHECK(got.at("y").bytes == c.result);
  CHECK(c.found == std::vector<int>{0xFF});
}

TEST_CASE("a kernel that counts on a workspace it has not cleared is found") {
  Case c([](LaunchRecipe& r) {
    through_the_workspace(r);
    r.steps.erase(r.steps.begin());
  });
  c.gpu.kernel = [&c](int, const PretendGpu::Outputs& memory) {
    if (c.gpu.entry == "finish") {
      std::memcpy(memory.at("y"), memory.at("parts"), c.result.size());
      return;
    }
    std::memcpy(memory.at("parts"), c.result.data(), c.result.size());
    memory.at("parts")[0] ^= memory.at("counters")[0];  // as a sum that begins with what is there
  };
  const auto report = c.verify();
  CHECK_FALSE(report.ok);
}

TEST_CASE("buffers behind pointers are allocations of their own, and hold their part of the host's array") {
  Case c([](LaunchRecipe& r) {
    for (RecipeTensor& tensor : r.tensors) {
      if (tensor.name != "x" && tensor.name != "M.ends") tensor.pointer_axes = 1;
      if (tensor.name == "w") tensor.strided = false;
    }
    // w's maps were of all groups; here the kernel is the test's.
    add_address(r.steps[0], "w", "w");
    const auto is_stride = [](const ParameterField& f) { return f.value.text().find("stride") != std::string::npos; };
    for (ParameterField& f : r.steps[0].fields)
      if (is_stride(f)) f.value = 64;
  });
  std::function<void(uint8_t * *w, uint8_t * *y)> spoil;
  size_t wrong = 0, apart = 0;
  c.gpu.kernel = [&](int, const PretendGpu::Outputs& memory) {
    auto** w = reinterpret_cast<uint8_t**>(memory.at("w"));
    auto** y = reinterpret_cast<uint8_t**>(memory.at("y"));
    constexpr size_t group = 64 * 64 * 2, row = 64 * 2;
    for (size_t e = 0; e < 3; ++e) {
      wrong += std::memcmp(w[e], c.inputs.at("w").bytes.data() + e * group, group) != 0;
      apart += e > 0 && w[e] != w[e - 1] + group;
    }
    for (size_t m = 0; m < 73; ++m) std::memcpy(y[m], c.result.data() + m * row, row);
    if (spoil) spoil(w, y);
  };
  auto report = c.verify();
  INFO(report.print());
  CHECK(report.ok);
  CHECK(wrong == 0);
  CHECK(apart == 4);  // two runs

  // Every buffer is watched, not the first one alone, and the array itself.
  const auto said = [&](const std::string& words) {
    report = c.verify();
    INFO(report.print());
    CHECK_FALSE(report.ok);
    CHECK(contains(report.print(), words));
  };
  spoil = [](uint8_t** w, uint8_t**) { w[2][5] = 0xEE; };
  said("the input 'w' was written");
  spoil = [](uint8_t**, uint8_t** y) { y[5][-1] = 0; };
  said("1 bytes around the buffer 'y' were written");
  spoil = [](uint8_t**, uint8_t** y) { y[0] = y[1]; };
  said("the array of pointers of 'y' was written");
  spoil = [](uint8_t**, uint8_t** y) { y[72][3] = 0x7F; };
  said("y: WRONG");
}

TEST_CASE("on the host, a tensor of one buffer per group is one array") {
  const auto run = [](const std::string& weight) {
    Diagnostics diagnostics;
    const Program program =
        program_of("kernel k {\n dim E = 3, K = 16, N = 8\n group M by E\n in x : bf16[M, K]\n in w : " + weight +
                       "\n out y : f32[M, N] = gemm(x, w)\n}\n",
                   diagnostics);
    ResolveOptions options;
    options.require_bound = true;
    const auto graph = resolve(program, "", options, diagnostics);
    INFO(diagnostics.print());
    REQUIRE(graph);
    jit::InputOptions data;
    data.counts = {{5, 0, 9}};
    const Buffers inputs = must(jit::make_inputs(*graph, data));
    CHECK(inputs.at("w").extents == std::vector<int64_t>{3, 8, 16});
    return must(interpreter::run(*graph, inputs)).at("y").bytes;
  };
  CHECK(run("bf16[E][N, K]") == run("bf16[E, N, K]"));
}

TEST_CASE("an odd row of 4-bit codes is refused by every plan and by the interpreter, in the same words") {
  const std::string gemm =
      "kernel k {\n dim N = 64, K = 64\n dyn S\n in x : bf16[S, K]\n in w : bf16[N, K]\n"
      " out q : mxfp4[N, S] = gemm(x, w)\n}\n";
  const std::string pass = "kernel k {\n dim N = 64\n dyn S\n in x : bf16[S, N]\n out q : nvfp4[N, S] = x\n}\n";
  const std::pair<std::string, std::string> cases[] = {{gemm, ""}, {pass, ""}, {pass, "pointwise"}};
  for (const auto& [text, schedule] : cases) {
    INFO(text << schedule);
    MemoryFileSystem disk;
    TestEngine engine(disk);
    CompilerOptions options;
    options.schedule = schedule;
    const jit::CompiledKernelPtr compiled = engine.compile(text, options);
    const LaunchRecipe& recipe = compiled->image.recipe;
    runtime::Arguments arguments;
    arguments.dims = {{"N", 64}, {"K", 64}};
    const auto size = [](std::string_view name) -> std::optional<int64_t> { return name == "S" ? 5 : 64; };
    for (const RecipeTensor& tensor : recipe.tensors) {
      std::vector<int64_t> extents;
      for (const IntExpr& extent : tensor.extents) extents.push_back(must(extent.evaluate(size)));
      arguments.tensors.push_back({tensor.name, 0x10000, std::move(extents), {}, tensor.storage});
    }
    const auto bound = runtime::resolve_arguments(runtime::CompiledRecipe(recipe), arguments, 132);
    REQUIRE(!bound);
    CHECK(bound.error().message == "'q' has two e2m1 codes in a byte, and its last dimension, S = 5, is odd");
    jit::InputOptions inputs;
    inputs.sizes["S"] = 5;
    const auto made = jit::make_inputs(compiled->planned.graph, inputs);
    REQUIRE(!made);
    CHECK(made.error().message == bound.error().message);
  }
}
