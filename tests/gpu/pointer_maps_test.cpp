// Tensors of one buffer per group on the hardware: maps made from an array of pointers, in a launch before the one that
// loads through them; and calls of several steps with a workspace, at every margin and in a captured graph.
#include "compiler/lowering/pointer_maps.h"

#include <numeric>

#include "compiler/codegen/emit_pointer_maps.h"
#include "runtime/guard_buffer.h"
#include "tests/gpu/support/gpu.h"

using namespace epifuse;
using namespace epifuse::test;
using runtime::GuardBuffer;

namespace {

const IntExpr e = IntExpr::symbol("E"), n = IntExpr::symbol("N");
constexpr int64_t columns = 8;

// Each block loads a box of 8 columns by 4 rows through the map of its buffer and writes it out. Two tables of maps:
// the second one begins a row later in each buffer.
constexpr auto loader = R"(
struct Parameters { void* maps[2]; float* out; int buffers; };
extern "C" __global__ void __launch_bounds__(32) load_entry(const __grid_constant__ Parameters p) {
  __shared__ __align__(128) float box[32];
  __shared__ __align__(8) u64 barrier;
  const int table = blockIdx.x / p.buffers;
  const TensorMap& map = ptx::tensor_map_at(p.maps[table], blockIdx.x % p.buffers);
  const u32 full = ptx::shared_address(&barrier);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::tensor_map_acquire(&map);
    ptx::prefetch_tensor_map(map);
    ptx::mbarrier_arrive_expect(full, sizeof box);
    ptx::tma_load_2d(ptx::shared_address(box), map, full, 0, 1);
  }
  __syncthreads();
  ptx::mbarrier_wait(full, 0);
  p.out[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x];
}
)";

LaunchRecipe loader_recipe() {
  LaunchRecipe r;
  r.kernel = "load_many";
  r.tensors = {{"w", Storage::f32, TensorRole::input, {e, n, columns}, true, 16, "", 1, 1},
               {"out", Storage::f32, TensorRole::output, {e * 64}, false, 16}};
  r.symbols = {{"E", SymbolKind::launch, 1}, {"N", SymbolKind::launch, 1}};
  RecipeStep& step = r.steps.emplace_back();
  step.entry = "load_entry";
  step.block = 32;
  step.grid = e * 2;
  step.parameter_bytes = 32;
  step.fields = {{"maps.0", FieldKind::address, 0, 8, "workspace", 0},
                 {"maps.1", FieldKind::address, 8, 8, "workspace", e * tensor_map_bytes},
                 {"out", FieldKind::address, 16, 8, "out"},
                 {"buffers", FieldKind::integer32, 24, 4, "", e}};
  const IntExpr pitch = IntExpr::symbol("w.stride1") * 4;
  TensorMapRecipe map{"w", TensorMapType::f32, 0, {columns, n}, {pitch}, {8, 4}, {1, 1}, Swizzle::none};
  std::vector<lowering::PointerMap> maps = {{map, e, 0}};
  map.byte_offset = pitch;
  map.extents[1] = n - 1;
  maps.push_back({map, e, e * tensor_map_bytes});
  lowering::add_pointer_maps(r, maps);
  r.workspace_bytes = e * (2 * tensor_map_bytes);
  return r;
}

std::string loader_source(const LaunchRecipe& recipe) {
  return "#include \"ptx/mbarrier.cuh\"\n#include \"ptx/tma.cuh\"\n#include \"" +
         std::string(codegen::pointer_maps_header) + "\"\nusing namespace epifuse;\n" +
         codegen::emit_pointer_maps(*lowering::find_pointer_maps(recipe)) + loader;
}

// A memset, a launch that adds up parts in the workspace and one that finishes: the workspace's contents before do not
// matter, nor does the number of blocks.
constexpr auto sums = R"(
struct PartParameters { const int* in; unsigned long long* total; int* blocks_seen; int count; int blocks; };
extern "C" __global__ void part_entry(const __grid_constant__ PartParameters p) {
  unsigned long long sum = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < p.count; i += 128 * p.blocks) sum += p.in[i];
  atomicAdd(p.total, sum);
  if (threadIdx.x == 0) atomicAdd(p.blocks_seen, 1);
}
struct FinishParameters { const unsigned long long* total; const int* blocks_seen; long long* out; };
extern "C" __global__ void finish_entry(const __grid_constant__ FinishParameters p) {
  p.out[0] = (long long)p.total[0];
  p.out[1] = p.blocks_seen[0];
}
extern "C" __global__ void never_entry(const __grid_constant__ FinishParameters p) { p.out[0] = -1; }
)";

LaunchRecipe sums_recipe() {
  LaunchRecipe r;
  r.kernel = "sums";
  r.tensors = {{"in", Storage::i32, TensorRole::input, {n}, false, 4},
               {"out", Storage::i64, TensorRole::output, {2}, false, 8}};
  r.symbols = {{"N", SymbolKind::launch, 1}};
  const IntExpr far = round_up(n, 256);  // an offset that depends on a size
  RecipeStep clear;
  clear.kind = RecipeStep::Kind::memset;
  clear.workspace_offset = far;
  clear.bytes = 16;
  RecipeStep part;
  part.entry = "part_entry";
  part.block = 128;
  part.grid = min(ceil_div(n, 128), IntExpr::symbol("sm_count"));
  part.parameter_bytes = 32;
  part.fields = {{"in", FieldKind::address, 0, 8, "in"},
                 {"total", FieldKind::address, 8, 8, "workspace", far},
                 {"blocks_seen", FieldKind::address, 16, 8, "workspace", far + 8},
                 {"count", FieldKind::integer32, 24, 4, "", n},
                 {"blocks", FieldKind::integer32, 28, 4, "", part.grid}};
  RecipeStep finish;
  finish.entry = "finish_entry";
  finish.block = 1;
  finish.grid = min(n, 1);
  finish.parameter_bytes = 24;
  finish.fields = {{"total", FieldKind::address, 0, 8, "workspace", far},
                   {"blocks_seen", FieldKind::address, 8, 8, "workspace", far + 8},
                   {"out", FieldKind::address, 16, 8, "out"}};
  RecipeStep never = finish;
  never.entry = "never_entry";
  never.grid = min(n, 1) - 1;
  r.steps = {clear, part, finish, never};
  r.workspace_bytes = far + 16;
  return r;
}

}  // namespace

TEST_CASE("maps are made for every buffer of an array of pointers, and loads through them end where a buffer ends") {
  const LaunchRecipe recipe = loader_recipe();
  const auto module = compile_module(loader_source(recipe), recipe);
  for (const int64_t buffers : {1, 3, 200}) {
    for (const int64_t pitch : {columns, columns + 4}) {
      INFO(buffers << " buffers with a pitch of " << pitch);
      constexpr int64_t rows = 4;  // rows 1 to 3 are in the box of the first map, 2 and 3 in that of the second
      std::vector<GuardBuffer> memory;
      std::vector<uint64_t> pointers;
      for (int64_t b = 0; b < buffers; ++b) {
        std::vector<float> values(static_cast<size_t>((rows - 1) * pitch + columns), -1.0F);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j)
            values[static_cast<size_t>(i * pitch + j)] = static_cast<float>(1000 * b + 10 * i + j);
        memory.push_back(must(GuardBuffer::allocate(gpu().device, values.size() * sizeof(float))));
        must(memory.back().upload(std::as_bytes(std::span(values)), gpu().stream.get()));
        pointers.push_back(memory.back().pointer());
      }
      const auto array = upload(pointers);
      const auto out = must(runtime::DeviceBuffer::allocate(gpu().device, static_cast<size_t>(buffers) * 64 * 4));
      auto workspace = must(GuardBuffer::allocate(gpu().device, static_cast<size_t>(buffers) * 256, 256));
      runtime::Arguments a;
      a.tensors = {{"w", array.pointer(), {buffers, rows, columns}, {0, pitch, 1}},
                   {"out", out.pointer(), {buffers * 64}}};
      a.workspace = {workspace.pointer(), buffers * 256};
      CHECK(must(runtime::workspace_bytes(*module, a)) == a.workspace.bytes);
      const auto call = must(runtime::bind_call(module, a));
      must(call.launch(gpu().stream.get()));
      must(call.synchronize(gpu().stream.get()));
      CHECK(must(workspace.bytes_touched_around(gpu().stream.get())) == 0);
      const auto got = download<float>(out);
      size_t wrong = 0;
      for (int64_t block = 0; block < 2 * buffers; ++block) {
        const int64_t first = block < buffers ? 1 : 2;
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            const float wanted =
                first + i < rows ? static_cast<float>(1000 * (block % buffers) + 10 * (first + i) + j) : 0.0F;
            wrong += got[static_cast<size_t>(block * 32 + i * 8 + j)] != wanted;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("several steps share a workspace: at every margin, whatever it held, and replayed") {
  const auto module = compile_module(sums, sums_recipe());
  std::vector<int32_t> values(100000);
  std::iota(values.begin(), values.end(), 1);
  auto in = upload(values);
  auto out = must(runtime::DeviceBuffer::allocate(gpu().device, 16));
  const auto count = static_cast<int64_t>(values.size());
  runtime::Arguments a;
  a.tensors = {{"in", in.pointer(), {count}}, {"out", out.pointer(), {2}}};
  const int64_t bytes = must(runtime::workspace_bytes(*module, a));
  auto workspace = must(GuardBuffer::allocate(gpu().device, static_cast<size_t>(bytes), workspace_alignment));
  a.workspace = {workspace.pointer(), bytes};
  const auto call = must(runtime::bind_call(module, a));
  const cuda::Stream stream = gpu().stream.get();
  const int sms = gpu().device->info().sm_count;
  for (const int margin : {0, 1, sms / 2, sms - 1}) {
    for (const unsigned char poison : {0xff, 0x55}) {
      must(workspace.fill(poison, stream));
      must(call.launch(stream, margin));
      must(call.synchronize(stream));
      const std::vector<int64_t> expected = {count * (count + 1) / 2,
                                             std::min<int64_t>((count + 127) / 128, sms - margin)};
      CHECK(download<int64_t>(out) == expected);
    }
  }

  const runtime::CurrentContext scope(*gpu().device);
  const auto graph = must(runtime::CapturedGraph::capture(gpu().device, stream, [&] { return call.launch(stream); }));
  for (int replay = 0; replay < 3; ++replay) {
    values[0] += 1;
    must(in.upload(std::as_bytes(std::span(values)), stream));
    must(workspace.fill(0xff, stream));
    must(graph.replay(stream));
    must(call.synchronize(stream));
    CHECK(download<int64_t>(out).front() == count * (count + 1) / 2 + replay + 1);
  }
  CHECK(must(workspace.bytes_touched_around(stream)) == 0);

  // Nothing to do: nothing is launched, and the workspace is not cleared either.
  a.tensors[0] = {"in", 0, {0}};
  must(out.fill(0x77, stream));
  must(must(runtime::bind_call(module, a)).launch(stream));
  CHECK(download<uint8_t>(out) == std::vector<uint8_t>(16, 0x77));
}
