// Does verify see what it is for? A pretended GPU runs the interpreter's result, right or with one thing wrong.
#include "jit/verify.h"

#include "compiler/interpreter/interpreter.h"
#include "jit/run.h"
#include "tests/jit/pretend_gpu.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

constexpr auto spec = R"(
kernel pretend {
  dim   E = 3, K = 64, N = 64
  group M by E
  group P = M align 128
  in  x  : bf16[M, K]
  in  w  : bf16[E, N, K]
  in  p  : f32[M] = 1
  v      = gemm(x, w) * p
  out y  : bf16[M, N]  = v
  out q  : mxfp8[M, N] = v
  out qt : mxfp8[N, P] = v
}
)";

// One verification; `spoil` may change what the kernel left in memory.
struct Case {
  Case() : engine(disk), compiled(engine.compile(spec)) {
    gpu.expect(compiled->image.recipe);
    options.inputs.counts = {{40, 0, 33}};
    options.inputs.slack_rows = 5;
    options.inputs.mode = jit::DataMode::integers;
    options.inputs.threads = 1;
  }

  // What a right kernel does: outputs of the language, everything else as it was.
  void run_right(const PretendGpu::Outputs& memory) {
    Buffers buffers = must(jit::make_inputs(compiled->planned.graph, options.inputs));
    const auto problem = must(interpreter::Problem::bind(compiled->planned.graph, buffers, {}));
    Buffers outputs = must(interpreter::make_outputs(problem));
    for (auto& [name, tensor] : outputs) {
      std::memcpy(tensor.bytes.data(), memory.at(name), tensor.bytes.size());
      buffers[name] = tensor;
    }
    outputs = must(interpreter::run(compiled->planned.graph, buffers, {}, nullptr, 1));
    for (const auto& [name, tensor] : outputs) std::memcpy(memory.at(name), tensor.bytes.data(), tensor.bytes.size());
  }

  jit::VerifyReport verify(std::function<void(int launch, const PretendGpu::Outputs&)> spoil = nullptr) {
    gpu.kernel = [this, spoil](int launch, const PretendGpu::Outputs& memory) {
      run_right(memory);
      if (spoil) spoil(launch, memory);
    };
    return must(jit::verify(*engine, compiled, options, gpu.device));
  }

  template <class T>
  static T must(Result<T> result) {
    INFO((result ? std::string() : result.error().message));
    REQUIRE(result);
    return *std::move(result);
  }

  MemoryFileSystem disk;
  PretendGpu gpu;  // outlives what the engine loads onto it
  TestEngine engine;
  jit::CompiledKernelPtr compiled;
  jit::VerifyOptions options;
};

const interpreter::Verdict& verdict_of(const jit::VerifyReport& report, const std::string& output) {
  for (const interpreter::Verdict& verdict : report.outputs)
    if (verdict.output == output) return verdict;
  FAIL("no verdict of " << output);
  throw;
}

constexpr int64_t columns = 64, rows = 78;

}  // namespace

TEST_CASE("a right kernel is found right") {
  Case c;
  for (const jit::DataMode mode : {jit::DataMode::integers, jit::DataMode::normal, jit::DataMode::scaled}) {
    c.options.inputs.mode = mode;
    const auto report = c.verify();
    INFO(report.print());
    CHECK(report.ok);
    CHECK(report.problems.empty());
    REQUIRE(report.outputs.size() == 3);
    CHECK(report.group_counts.at(0).second == std::vector<int64_t>{40, 0, 33});
    CHECK(report.to_json().find("\"ok\": true") != std::string::npos);
  }
  CHECK(c.gpu.launches == 6);
}

TEST_CASE("a wrong element is found, and where") {
  Case c;
  const auto report = c.verify([](int, const PretendGpu::Outputs& memory) {
    reinterpret_cast<uint16_t*>(memory.at("y"))[50 * columns + 7] = 0x4480;  // 1024
  });
  CHECK_FALSE(report.ok);
  const auto& verdict = verdict_of(report, "y");
  CHECK(verdict.outside == 1);
  CHECK(verdict.worst.group == 2);
  CHECK(verdict.worst.stored == 1024);
  CHECK(verdict_of(report, "q").ok);
  CHECK(contains(report.print(), "M = 50"));
}

TEST_CASE("what is wrong in the second run alone is found") {
  Case c;
  const auto report = c.verify([](int launch, const PretendGpu::Outputs& memory) {
    if (launch % 2 == 1) memory.at("q.scale")[3] ^= 1;
  });
  CHECK_FALSE(report.ok);
  CHECK_FALSE(verdict_of(report, "q").ok);
  CHECK(contains(report.print(), "two runs on the same inputs differ in 1 bytes of 'q.scale'"));
}

TEST_CASE("a row that is not written is found, whatever it held before") {
  Case c;
  static std::vector<uint8_t> before;
  c.gpu.kernel = [&](int, const PretendGpu::Outputs& memory) {
    uint8_t* row = memory.at("q") + 12 * columns;
    before.assign(row, row + columns);
    c.run_right(memory);
    std::copy(before.begin(), before.end(), row);
  };
  const auto report = Case::must(jit::verify(*c.engine, c.compiled, c.options, c.gpu.device));
  CHECK_FALSE(report.ok);
  CHECK_FALSE(verdict_of(report, "q").ok);
}

TEST_CASE("rows past the last group, and gaps, are nobody's to write") {
  Case c;
  SECTION("past the last group") {
    const auto report = c.verify([](int, const PretendGpu::Outputs& memory) { memory.at("y")[73 * columns * 2] = 0; });
    CHECK_FALSE(report.ok);
    CHECK(verdict_of(report, "y").touched == 1);
  }
  SECTION("a gap that is not zero") {
    const auto report = c.verify([](int, const PretendGpu::Outputs& memory) { memory.at("qt")[60] = 1; });
    CHECK_FALSE(report.ok);
    CHECK(verdict_of(report, "qt").gap == 1);
  }
}

TEST_CASE("writes before a buffer and into an input are found") {
  Case c;
  SECTION("before the buffer") {
    const auto report = c.verify([](int, const PretendGpu::Outputs& memory) { memory.at("y")[-3] = 0; });
    CHECK_FALSE(report.ok);
    CHECK(contains(report.print(), "1 bytes around the buffer 'y' were written"));
  }
  SECTION("an input") {
    const auto report = c.verify([](int, const PretendGpu::Outputs& memory) { memory.at("p")[0] = 0xEE; });
    CHECK_FALSE(report.ok);
    CHECK(contains(report.print(), "the input 'p' was written"));
  }
}

TEST_CASE("runs that differ inside what is allowed are found") {
  Case c;
  int64_t zero = -1;
  const auto report = c.verify([&](int launch, const PretendGpu::Outputs& memory) {
    auto* y = reinterpret_cast<uint16_t*>(memory.at("y"));
    for (int64_t i = 0; zero < 0 && i < 73 * columns; ++i)
      if (y[i] == 0) zero = i;
    if (zero >= 0 && launch == 1) y[zero] = 0x8000;  // -0, which is as good as +0
  });
  REQUIRE(zero >= 0);
  CHECK(verdict_of(report, "y").ok);
  CHECK_FALSE(report.ok);
  CHECK(contains(report.print(), "two runs on the same inputs differ in 1 bytes of 'y'"));
}

TEST_CASE("all groups empty: nothing is launched, and nothing may be written") {
  Case c;
  c.options.inputs.counts = {{0, 0, 0}};
  for (const int64_t slack : {0, 9}) {
    c.options.inputs.slack_rows = slack;
    const auto report = c.verify();
    INFO(report.print());
    CHECK(report.ok);
  }
}

TEST_CASE("run_on_gpu returns what the interpreter returns, and zeros where nothing is written") {
  Case c;
  c.gpu.kernel = [&](int, const PretendGpu::Outputs& memory) { c.run_right(memory); };
  const Buffers inputs = Case::must(jit::make_inputs(c.compiled->planned.graph, c.options.inputs));
  const Buffers got = Case::must(jit::run_on_gpu(*c.engine, c.compiled, inputs, {}, c.gpu.device));
  const Buffers want = Case::must(interpreter::run(c.compiled->planned.graph, inputs));
  REQUIRE(got.size() == want.size());
  for (const auto& [name, tensor] : want) {
    INFO(name);
    CHECK(got.at(name).extents == tensor.extents);
    CHECK(got.at(name).bytes == tensor.bytes);
  }
  CHECK(got.at("y").extents == std::vector<int64_t>{rows, columns});
}

TEST_CASE("group sizes that do not fit are an error, and nothing is launched") {
  Case c;
  c.options.inputs.counts.reset();
  c.options.inputs.given["M.ends"] = interpreter::make_tensor(Storage::i32, {3});
  for (int64_t e = 0; e < 3; ++e) interpreter::store_one(c.options.inputs.given["M.ends"], e, e == 1 ? 90 : 50);
  c.gpu.kernel = [](int, const PretendGpu::Outputs&) { FAIL("launched"); };
  const auto report = jit::verify(*c.engine, c.compiled, c.options, c.gpu.device);
  REQUIRE_FALSE(report);
  CHECK(report.error().kind == ErrorKind::user);
  CHECK(contains(report.error().message, "M.ends"));
}
