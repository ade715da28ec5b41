// The kernel's text, its recipe, the walk over blocks in pieces that fit beside the operands, and the comparison with
// the CPU.
#include "jit/reference_gemm.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>

#include "base/ensure.h"
#include "runtime/device_buffer.h"
#include "runtime/stream.h"

namespace epifuse::jit {
namespace {

using interpreter::GemmBlock;
using interpreter::GemmOperand;
using interpreter::GemmTask;
using runtime::DeviceBuffer;

// Threads of a block make a square of results; k goes by the same step through shared memory, where each operand
// element is converted to double once for a row or column of the square.
constexpr int side = 16;

// A result is copied back in pieces of at most so many bytes.
constexpr int64_t piece_bytes = int64_t{1} << 28;

constexpr std::string_view text = R"(
typedef long long int64;
struct Parameters {
  const unsigned char* a;
  const unsigned char* b;
  const int64* a_rows;
  const int64* b_rows;
  double* c;
  int64 row_begin, rows, col_begin, cols, a_k, b_k, depth, a_step, b_step;
};

// Codes to numbers, from the definition of each format.
__device__ double small_float(unsigned code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const unsigned fraction = code & ((1u << mantissa_bits) - 1);
  const int exponent = code >> mantissa_bits & top;
  const double sign = code >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
  if (has_infinity && exponent == top) {
    return fraction ? __longlong_as_double(0x7ff8000000000000ll) : sign * __longlong_as_double(0x7ff0000000000000ll);
  }
  if (!has_infinity && exponent == top && fraction == (1u << mantissa_bits) - 1) {
    return __longlong_as_double(0x7ff8000000000000ll);
  }
  const int shift = (exponent ? exponent : 1) - bias - mantissa_bits;
  return sign * ldexp((double)(exponent ? fraction + (1u << mantissa_bits) : fraction), shift);
}
__device__ double load_f32(const unsigned char* at, int64 i) { return ((const float*)at)[i]; }
__device__ double load_bf16(const unsigned char* at, int64 i) {
  return __uint_as_float((unsigned)((const unsigned short*)at)[i] << 16);
}
__device__ double load_f16(const unsigned char* at, int64 i) {
  return small_float(((const unsigned short*)at)[i], 5, 10, true);
}
__device__ double load_e4m3(const unsigned char* at, int64 i) { return small_float(at[i], 4, 3, false); }
__device__ double load_e5m2(const unsigned char* at, int64 i) { return small_float(at[i], 5, 2, true); }

extern "C" __global__ void __launch_bounds__(SIDE * SIDE) reference_gemm(const __grid_constant__ Parameters p) {
  __shared__ double a_tile[SIDE][SIDE + 1], b_tile[SIDE][SIDE + 1];
  const int64 col_tiles = (p.cols + SIDE - 1) / SIDE;
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  const int64 row0 = blockIdx.x / col_tiles * SIDE, col0 = blockIdx.x % col_tiles * SIDE;
  // Where this thread's row of A and its row of B (a column of the result) begin; -1: a row of zeros.
  const int64 a_row = row0 + y < p.rows ? p.a_rows[p.row_begin + row0 + y] : -1;
  const int64 b_row = col0 + y < p.cols ? p.b_rows[p.col_begin + col0 + y] : -1;
  double sum = 0;
  for (int64 k0 = 0; k0 < p.depth; k0 += SIDE) {
    const bool inside = k0 + x < p.depth;
    a_tile[y][x] = inside && a_row >= 0 ? LOAD_A(p.a, a_row + (p.a_k + k0 + x) * p.a_step) : 0;
    b_tile[y][x] = inside && b_row >= 0 ? LOAD_B(p.b, b_row + (p.b_k + k0 + x) * p.b_step) : 0;
    __syncthreads();
    for (int k = 0; k < SIDE; ++k) sum += a_tile[y][k] * b_tile[x][k];
    __syncthreads();
  }
  if (row0 + y < p.rows && col0 + x < p.cols) p.c[(row0 + y) * p.cols + col0 + x] = sum;
}
)";

constexpr const char* numbers[] = {"row_begin", "rows", "col_begin", "cols", "a_k", "b_k", "depth", "a_step", "b_step"};

std::vector<int64_t> number_values(const GemmTask& task, const GemmBlock& block) {
  return {block.row_begin, block.rows,  block.col_begin, task.cols,    block.a_k,
          block.b_k,       block.depth, task.a.k_step,   task.b.k_step};
}

double multiply_adds(const GemmTask& task) {
  double sum = 0;
  for (const GemmBlock& block : task.blocks) sum += static_cast<double>(block.rows) * static_cast<double>(block.depth);
  return sum * static_cast<double>(task.cols);
}

// A part of a task that the CPU does in no time: a few rows and columns of a few blocks.
struct Sample {
  GemmTask task;
  struct Origin {
    int64_t row;  // of the result
    std::vector<int64_t> cols;
  };
  std::vector<Origin> rows;  // one for each row of the sample
};

Sample draw_sample(const GemmTask& task, uint64_t seed) {
  constexpr size_t most_blocks = 16, most_cols = 32;
  constexpr int64_t most_rows = 8;
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  std::vector<const GemmBlock*> blocks;
  for (const GemmBlock& block : task.blocks)
    if (block.rows > 0) blocks.push_back(&block);
  std::shuffle(blocks.begin(), blocks.end(), random);
  blocks.resize(std::min(blocks.size(), most_blocks));

  // Rows and columns at the edges, where a kernel goes wrong first, and random ones.
  const auto draw = [&](int64_t limit, int64_t most) {
    std::vector<int64_t> chosen = {0, limit - 1};
    while (static_cast<int64_t>(chosen.size()) < std::min(most, limit)) chosen.push_back(below(limit));
    return chosen;
  };
  Sample sample;
  sample.task.node = task.node;
  sample.task.a = {task.a.tensor, {}, task.a.k_step};
  sample.task.b = {task.b.tensor, {}, task.b.k_step};
  const auto cols = static_cast<int64_t>(std::max(size_t{2}, std::min(most_cols, static_cast<size_t>(task.cols))));
  sample.task.cols = cols;
  for (const GemmBlock* block : blocks) {
    const std::vector<int64_t> block_rows = draw(block->rows, most_rows), block_cols = draw(task.cols, cols);
    GemmBlock part = *block;
    part.rows = static_cast<int64_t>(block_rows.size());
    part.row_begin = part.c_row = sample.task.rows;
    part.col_begin = static_cast<int64_t>(sample.task.b.rows.size());
    for (const int64_t row : block_rows) {
      sample.task.a.rows.push_back(task.a.rows[static_cast<size_t>(block->row_begin + row)]);
      sample.rows.push_back({block->c_row + row, block_cols});
    }
    for (const int64_t col : block_cols) {
      sample.task.b.rows.push_back(task.b.rows[static_cast<size_t>(block->col_begin + col)]);
    }
    sample.task.blocks.push_back(part);
    sample.task.rows += part.rows;
  }
  return sample;
}

double norm(const GemmOperand& operand, size_t row, int64_t k, int64_t depth) {
  if (operand.rows[row] < 0) return 0;
  std::vector<double> values(static_cast<size_t>(depth));
  interpreter::load(*operand.tensor, operand.rows[row] + k * operand.k_step, operand.k_step, depth, values.data());
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

class GpuGemm final : public interpreter::GemmProvider {
 public:
  GpuGemm(Engine& engine, runtime::DevicePtr device, double from, int threads)
      : engine_(engine), device_(std::move(device)), from_(from), cpu_(interpreter::cpu_gemm(threads)) {}

  Status multiply(const GemmTask& task, double* c) override {
    if (multiply_adds(task) < from_ || task.cols == 0) return cpu_->multiply(task, c);
    const Result<Target> target = runtime::target_of(device_->info());
    if (!target) return target.error();
    const ReferenceGemmText built = reference_gemm_text(task.a.tensor->storage, task.b.tensor->storage, *target);
    const Result<KernelImage> image = engine_.compile_text(built.request, built.recipe);
    // Slower, and right too: kernels of a bundle are verified where nothing can be compiled.
    if (!image && !engine_.may_compile()) return cpu_->multiply(task, c);
    if (!image) return image.error();
    if (Status done = multiply_on_gpu(*image, task, c); !done) return done;
    return compare_with_cpu(task, c);
  }

 private:
  Result<DeviceBuffer> to_device(std::span<const std::byte> bytes, cuda::Stream stream) const {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device_, bytes.size());
    if (!buffer) return buffer;
    if (Status uploaded = buffer->upload(bytes, stream); !uploaded) return uploaded.error();
    return buffer;
  }

  Status multiply_on_gpu(const KernelImage& image, const GemmTask& task, double* c) {
    const Result<runtime::ModulePtr> module = runtime::Module::load(device_, image);
    if (!module) return module.error();
    const Result<runtime::OwnedStream> owned = runtime::make_stream(device_);
    if (!owned) return owned.error();
    const cuda::Stream stream = owned->get();

    const Result<DeviceBuffer> a = to_device(std::as_bytes(std::span(task.a.tensor->bytes)), stream);
    if (!a) return a.error();
    const Result<DeviceBuffer> b = to_device(std::as_bytes(std::span(task.b.tensor->bytes)), stream);
    if (!b) return b.error();
    const Result<DeviceBuffer> a_rows = to_device(std::as_bytes(std::span(task.a.rows)), stream);
    if (!a_rows) return a_rows.error();
    const Result<DeviceBuffer> b_rows = to_device(std::as_bytes(std::span(task.b.rows)), stream);
    if (!b_rows) return b_rows.error();
    const int64_t row_bytes = task.cols * static_cast<int64_t>(sizeof(double));
    const int64_t piece_rows = std::max<int64_t>(1, piece_bytes / row_bytes);
    int64_t most_rows = 0;
    for (const GemmBlock& block : task.blocks) most_rows = std::max(most_rows, std::min(block.rows, piece_rows));
    const Result<DeviceBuffer> piece = DeviceBuffer::allocate(device_, static_cast<size_t>(most_rows * row_bytes));
    if (!piece) return piece.error();

    runtime::Arguments arguments;
    const auto tensor = [&](const char* name, const DeviceBuffer& buffer, std::vector<int64_t> extents) {
      arguments.tensors.push_back({name, buffer.pointer(), std::move(extents), {}, {}});
    };
    tensor("a", *a, {task.a.tensor->elements()});
    tensor("b", *b, {task.b.tensor->elements()});
    tensor("a_rows", *a_rows, {static_cast<int64_t>(task.a.rows.size())});
    tensor("b_rows", *b_rows, {static_cast<int64_t>(task.b.rows.size())});
    tensor("c", *piece, {});
    for (const GemmBlock& block : task.blocks) {
      for (int64_t done = 0; done < block.rows; done += piece_rows) {
        GemmBlock part = block;
        part.rows = std::min(piece_rows, block.rows - done);
        part.row_begin += done;
        arguments.tensors.back().extents = {part.rows, task.cols};
        arguments.dims.clear();
        const std::vector<int64_t> values = number_values(task, part);
        for (size_t i = 0; i < values.size(); ++i) arguments.dims.push_back({numbers[i], values[i]});
        const Result<runtime::BoundCall> call = runtime::bind_call(*module, arguments);
        if (!call) return call.error();
        if (Status launched = call->launch(stream); !launched) return launched;
        double* to = c + (block.c_row + done) * task.cols;
        const auto count = static_cast<size_t>(part.rows * task.cols);
        if (Status copied = piece->download(std::as_writable_bytes(std::span(to, count)), stream); !copied) {
          return copied;
        }
      }
    }
    return {};
  }

  Status compare_with_cpu(const GemmTask& task, const double* c) {
    const Sample sample = draw_sample(task, ++runs_);
    std::vector<double> expected(static_cast<size_t>(sample.task.rows * sample.task.cols));
    if (Status done = cpu_->multiply(sample.task, expected.data()); !done) return done;
    for (const GemmBlock& block : sample.task.blocks) {
      std::vector<double> b_norms;
      for (int64_t col = 0; col < sample.task.cols; ++col) {
        b_norms.push_back(norm(sample.task.b, static_cast<size_t>(block.col_begin + col), block.b_k, block.depth));
      }
      for (int64_t r = 0; r < block.rows; ++r) {
        const Sample::Origin& origin = sample.rows[static_cast<size_t>(block.c_row + r)];
        const double a_norm = norm(sample.task.a, static_cast<size_t>(block.row_begin + r), block.a_k, block.depth);
        for (size_t i = 0; i < origin.cols.size() && static_cast<int64_t>(i) < sample.task.cols; ++i) {
          const double want = expected[static_cast<size_t>((block.c_row + r) * sample.task.cols) + i];
          const double have = c[origin.row * task.cols + origin.cols[i]];
          const bool equal = want == have || (std::isnan(want) && std::isnan(have)) ||
                             std::fabs(want - have) <= 1e-12 * a_norm * b_norms[i];
          EPIFUSE_ENSURE(equal, fmt::format("the reference's product on the GPU is wrong at [{}, {}]: {} instead of {}",
                                            origin.row, origin.cols[i], have, want));
        }
      }
    }
    return {};
  }

  Engine& engine_;
  const runtime::DevicePtr device_;
  const double from_;
  const std::unique_ptr<interpreter::GemmProvider> cpu_;
  uint64_t runs_ = 0;  // seeds the samples
};

}  // namespace

ReferenceGemmText reference_gemm_text(Storage a, Storage b, const Target& target) {
  ReferenceGemmText made;
  made.request.program_name = "reference_gemm";
  made.request.arch = target.name;
  made.request.source = fmt::format("#define SIDE {}\n#define LOAD_A load_{}\n#define LOAD_B load_{}\n{}", side,
                                    storage_name(a), storage_name(b), text);

  const auto symbol = [](const char* name) { return IntExpr::symbol(name); };
  LaunchRecipe& recipe = made.recipe;
  recipe.kernel = "reference_gemm";
  recipe.target = target.name;
  const auto tensor = [&](const char* name, Storage storage, TensorRole role, std::vector<IntExpr> extents) {
    recipe.tensors.push_back({name, storage, role, std::move(extents), false, storage_bits(storage) / 8, "", 1});
  };
  tensor("a", a, TensorRole::input, {symbol("a_elements")});
  tensor("b", b, TensorRole::input, {symbol("b_elements")});
  tensor("a_rows", Storage::i64, TensorRole::input, {symbol("a_row_count")});
  tensor("b_rows", Storage::i64, TensorRole::input, {symbol("b_row_count")});
  tensor("c", Storage::i64, TensorRole::output, {symbol("rows"), symbol("cols")});
  for (const char* name : {"a_elements", "b_elements", "a_row_count", "b_row_count"}) {
    recipe.symbols.push_back({name, SymbolKind::launch, 1});
  }
  for (const char* name : numbers) recipe.symbols.push_back({name, SymbolKind::fixed, 1});

  RecipeStep step;
  step.entry = "reference_gemm";
  step.block = side * side;
  step.grid = ceil_div(symbol("rows"), side) * ceil_div(symbol("cols"), side);
  for (const char* name : {"a", "b", "a_rows", "b_rows", "c"}) {
    step.fields.push_back({name, FieldKind::address, step.parameter_bytes, 8, name, 0, 0});
    step.parameter_bytes += 8;
  }
  for (const char* name : numbers) {
    step.fields.push_back({name, FieldKind::integer64, step.parameter_bytes, 8, "", symbol(name), 0});
    step.parameter_bytes += 8;
  }
  recipe.steps.push_back(std::move(step));
  return made;
}

std::unique_ptr<interpreter::GemmProvider> gpu_gemm(Engine& engine, runtime::DevicePtr device, double from,
                                                    int threads) {
  return std::make_unique<GpuGemm>(engine, std::move(device), from, threads);
}

}  // namespace epifuse::jit
