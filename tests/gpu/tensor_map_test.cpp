// Tensor maps on the hardware: what a box brings for pitched, permuted and element-strided views, beyond the edges, and
// that a map of nothing can be prefetched.
#include "runtime/guard_buffer.h"
#include "tests/gpu/support/gpu.h"

using namespace epifuse;
using namespace epifuse::test;
using runtime::GuardBuffer;

namespace {

// One thread loads one box of a map of `rank` axes at the origin plus (c0, c1) and writes `count` floats out.
std::string source(int rank) {
  std::string more_coordinates;
  for (int axis = 2; axis < rank; ++axis) more_coordinates += ", 0";
  return R"(
struct alignas(128) Map { unsigned long long opaque[16]; };
struct Parameters {
  Map map;
  float* out;
  int c0, c1, count, load;
};
extern "C" __global__ void load_entry(const __grid_constant__ Parameters p) {
  __shared__ alignas(1024) float box[4096];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned to = (unsigned)__cvta_generic_to_shared(box), bar = (unsigned)__cvta_generic_to_shared(&barrier);
  asm volatile("prefetch.tensormap [%0];" ::"l"(&p.map) : "memory");
  if (!p.load) return;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(p.count * 4) : "memory");
  asm volatile("cp.async.bulk.tensor.)" +
         std::to_string(rank) + R"(d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3)" +
         more_coordinates +
         R"(}], [%4];"
               ::"r"(to), "l"(&p.map), "r"(p.c0), "r"(p.c1), "r"(bar) : "memory");
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], 0; selp.u32 %0, 1, 0, q; }"
                 : "=r"(done) : "r"(bar) : "memory");
  }
  for (int i = 0; i < p.count; ++i) p.out[i] = box[i];
}
)";
}

LaunchRecipe recipe(TensorMapRecipe map, int64_t count, int c0, int c1, bool load = true) {
  const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K");
  LaunchRecipe r;
  r.kernel = "load";
  r.tensors = {{"x", Storage::f32, TensorRole::input, {m, k}, true, 16},
               {"out", Storage::f32, TensorRole::output, {count}, false, 16}};
  r.symbols = {{"M", SymbolKind::launch, 1}, {"K", SymbolKind::launch, 1}};
  r.maps = {std::move(map)};
  RecipeStep step;
  step.entry = "load_entry";
  step.block = 1;
  step.grid = 1;
  step.parameter_bytes = 256;
  step.fields = {
      {"map", FieldKind::tensor_map, 0, 128, "", 0, 0},   {"out", FieldKind::address, 128, 8, "out"},
      {"c0", FieldKind::integer32, 136, 4, "", c0},       {"c1", FieldKind::integer32, 140, 4, "", c1},
      {"count", FieldKind::integer32, 144, 4, "", count}, {"load", FieldKind::integer32, 148, 4, "", load ? 1 : 0}};
  r.steps = {step};
  return r;
}

// Loads one box from x[i][j] = 1000 * i + j, of `rows` x `columns` at a pitch.
std::vector<float> load_box(TensorMapRecipe map, int64_t rows, int64_t columns, int64_t pitch, int64_t count, int c0,
                            int c1) {
  const int rank = static_cast<int>(map.extents.size());
  const auto module = compile_module(source(rank), recipe(std::move(map), count, c0, c1));
  const int64_t elements = (rows - 1) * pitch + columns;
  std::vector<float> values(static_cast<size_t>(elements), -1.0F);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) values[static_cast<size_t>(i * pitch + j)] = static_cast<float>(1000 * i + j);
  }
  auto x = must(GuardBuffer::allocate(gpu().device, values.size() * sizeof(float)));
  must(x.upload(std::as_bytes(std::span(values)), gpu().stream.get()));
  auto out = must(runtime::DeviceBuffer::allocate(gpu().device, static_cast<size_t>(count) * sizeof(float)));
  runtime::Arguments a;
  a.tensors = {{"x", x.pointer(), {rows, columns}, {pitch, 1}}, {"out", out.pointer(), {count}}};
  auto call = must(runtime::bind_call(module, a));
  must(call.launch(gpu().stream.get()));
  must(call.synchronize(gpu().stream.get()));
  return download<float>(out);
}

const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K"), pitch_bytes = IntExpr::symbol("x.stride0") * 4;

}  // namespace

TEST_CASE("a box of a pitched matrix, with zeros beyond the edges and nothing read past the end") {
  const TensorMapRecipe map{"x", TensorMapType::f32, 0, {k, m}, {pitch_bytes}, {8, 4}, {1, 1}, Swizzle::none};
  const auto got = load_box(map, 6, 10, 12, 32, 8, 4);  // columns 8 to 15 of rows 4 to 7; 10 and 6 exist
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 8; ++j) {
      const float wanted = 4 + i < 6 && 8 + j < 10 ? static_cast<float>(1000 * (4 + i) + 8 + j) : 0.0F;
      CHECK(got[static_cast<size_t>(i * 8 + j)] == wanted);
    }
  }
}

TEST_CASE("rows are permuted by a map of more axes") {
  // Row 4a + b of 8 lands at place 2b + a.
  const TensorMapRecipe map{
      "x",       TensorMapType::f32, 0, {k, 2, exact_div(m, 2)}, {pitch_bytes * 4, pitch_bytes}, {4, 2, 4},
      {1, 1, 1}, Swizzle::none};
  const auto got = load_box(map, 8, 4, 4, 32, 0, 0);
  for (int b = 0; b < 4; ++b) {
    for (int a = 0; a < 2; ++a)
      CHECK(got[static_cast<size_t>((2 * b + a) * 4)] == static_cast<float>(1000 * (4 * a + b)));
  }
}

TEST_CASE("element strides skip rows inside a box") {
  // 7 rows in steps of 2: rows 1, 3, 5, 7.
  const TensorMapRecipe map{"x", TensorMapType::f32, 0, {k, m}, {pitch_bytes}, {4, 7}, {1, 2}, Swizzle::none};
  const auto got = load_box(map, 9, 4, 4, 16, 0, 1);
  for (int i = 0; i < 4; ++i) CHECK(got[static_cast<size_t>(i * 4 + 2)] == static_cast<float>(1000 * (1 + 2 * i) + 2));
}

TEST_CASE("swizzled boxes exchange 16-byte pieces as the hardware defines it") {
  const TensorMapRecipe map{"x", TensorMapType::f32, 0, {k, m}, {pitch_bytes}, {32, 8}, {1, 1}, Swizzle::b128};
  const auto got = load_box(map, 8, 32, 32, 256, 0, 0);
  for (int i = 0; i < 8; ++i) {
    for (int piece = 0; piece < 8; ++piece) {
      CHECK(got[static_cast<size_t>(i * 32 + (piece ^ i) * 4)] == static_cast<float>(1000 * i + piece * 4));
    }
  }
}

TEST_CASE("a map over no rows, or over no memory at all, binds, and prefetching it harms nothing") {
  const TensorMapRecipe map{"x", TensorMapType::f32, 0, {k, m}, {pitch_bytes}, {8, 4}, {1, 1}, Swizzle::none};
  const auto module = compile_module(source(2), recipe(map, 4, 0, 0, /*load=*/false));
  auto x = must(runtime::DeviceBuffer::allocate(gpu().device, 4096));
  auto out = must(runtime::DeviceBuffer::allocate(gpu().device, 16));
  for (const uint64_t pointer : {x.pointer(), cuda::DevicePointer{0}}) {
    runtime::Arguments a;
    a.tensors = {{"x", pointer, {0, 8}}, {"out", out.pointer(), {4}}};
    auto call = must(runtime::bind_call(module, a));
    must(call.launch(gpu().stream.get()));
    must(call.synchronize(gpu().stream.get()));
  }
}
