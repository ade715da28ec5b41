// The reference's product on the GPU against the CPU's, element by element. The samples that every run compares are not
// enough to trust the first one.
#include "jit/reference_gemm.h"

#include <cmath>

#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/gpu/support/kernels.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::GemmTask;
using interpreter::HostTensor;

namespace {

// Rows one behind the other (`transposed`: columns), but every seventh is not there.
interpreter::GemmOperand operand(const HostTensor& tensor, int64_t rows, int64_t depth, bool transposed) {
  interpreter::GemmOperand made{&tensor, {}, transposed ? rows : 1};
  for (int64_t row = 0; row < rows; ++row) made.rows.push_back(row % 7 == 6 ? -1 : transposed ? row : row * depth);
  return made;
}

void compare(Storage a_storage, Storage b_storage, bool transposed) {
  INFO(storage_name(a_storage) << " " << storage_name(b_storage) << (transposed ? " transposed" : ""));
  constexpr int64_t rows = 150, cols = 45, groups = 2, depth = 83;
  const HostTensor a = normal_tensor(a_storage, {rows, depth}, 1),
                   b = normal_tensor(b_storage, {groups * cols, depth}, 2);
  GemmTask task;
  task.a = operand(a, rows, depth, transposed);
  task.b = operand(b, groups * cols, depth, transposed);
  task.blocks = {{0, 97, 0, 0, 0, depth, 0}, {97, 0, cols, 0, 0, depth, 97}, {97, 53, cols, 5, 5, depth - 5, 97}};
  task.rows = rows;
  task.cols = cols;
  std::vector<double> want(rows * cols, -1), have(rows * cols, -1);
  must(interpreter::cpu_gemm()->multiply(task, want.data()));
  must(jit::gpu_gemm(engine(), gpu().device)->multiply(task, have.data()));
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(want[i] - have[i]));
  CHECK(worst <= 1e-12 * depth);
  CHECK(have != std::vector<double>(rows * cols, -1));
}

}  // namespace

TEST_CASE("the reference's product is the CPU's, for every type of operand") {
  for (const Storage storage : {Storage::f32, Storage::bf16, Storage::f16, Storage::e4m3, Storage::e5m2}) {
    compare(storage, storage, false);
    compare(storage, Storage::bf16, true);
  }
}

TEST_CASE("a product without depth is zero, and NaN stays NaN") {
  const HostTensor nan = tensor_of(Storage::bf16, {2, 32}, std::vector<double>(64, std::nan("")));
  GemmTask task;
  task.a = {&nan, {0, 32}, 1};
  task.b = {&nan, {0, 32}, 1};
  task.blocks = {{0, 1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 32, 1}};
  task.rows = task.cols = 2;
  std::vector<double> c(4, -1);
  must(jit::gpu_gemm(engine(), gpu().device)->multiply(task, c.data()));
  CHECK(c[0] == 0);
  CHECK(c[1] == 0);
  CHECK(std::isnan(c[2]));
  CHECK(std::isnan(c[3]));
}

TEST_CASE("where nothing is compiled the reference's product is the CPU's own") {
  jit::EngineOptions options;
  options.read_cache = false;
  options.settings.jit = false;
  auto nvrtc = std::make_shared<toolchain::NvrtcToolchain>(real_file_system(), options.settings);
  jit::Engine without(options, nvrtc, real_file_system());
  CHECK(!without.may_compile());
  const HostTensor ones = tensor_of(Storage::bf16, {2, 32}, std::vector<double>(64, 1));
  GemmTask task;
  task.a = {&ones, {0, 32}, 1};
  task.b = {&ones, {0, 32}, 1};
  task.blocks = {{0, 2, 0, 0, 0, 32, 0}};
  task.rows = task.cols = 2;
  std::vector<double> c(4, -1);
  must(jit::gpu_gemm(without, gpu().device)->multiply(task, c.data()));
  CHECK(c == std::vector<double>(4, 32));
}
