// What NVRTC makes of generated kernels: twenty epilogues that are in no spec, every form of gemm, rotations and scaled
// formats, with the registers and spill bytes of each; every template with every parameter; and a kernel whose widest
// plan spills while a narrower one does not.
#include <atomic>
#include <cstdio>
#include <fmt/format.h>
#include <thread>

#include "compiler/codegen/emit_kernel.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "compiler/toolchain/templates.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

// Null where this machine has no NVRTC.
toolchain::NvrtcToolchain* nvrtc() {
  static toolchain::NvrtcToolchain toolchain(real_file_system(), *read_settings());
  static const bool found = [] {
    const auto location = toolchain.location();
    if (!location) std::printf("skipped: %s\n", location.error().message.c_str());
    return static_cast<bool>(location);
  }();
  return found ? &toolchain : nullptr;
}

toolchain::CompileRequest request_of(const std::string& source) {
  return {"test", source, toolchain::headers_included_by(source), "sm_90a", {}};
}

struct Epilogue {
  const char* name;
  std::string spec;
  const char* schedule;
};

std::string halves(const std::string& piece, const std::string& rest) {
  return halved_spec("gate, up = split(gemm(x, w)" + piece + ")\n" + rest);
}

const std::string aligned = "group M by E\n group P = M align 128";
constexpr const char* dims = "E = 3, K = 64, N = 128";

// Mixes of operations, inputs, deals and outputs. Most are narrow, which compiles fastest.
const std::vector<Epilogue>& epilogues() {
  static const std::vector<Epilogue> list = {
      {"bare", ragged_spec("out y : bf16[M, N] = gemm(x, w)"), "pingpong 128x128"},
      {"packed and transposed", ragged_spec("out y : bf16[N, M] = gemm(x, w)"), "pingpong 128x64"},
      {"arithmetic",
       ragged_spec("in r : f32[M]\nh = gemm(x, w)\nout y : bf16[M, N] = (h + r) * (h - 0.5) / (abs(h) + 1)"),
       "pingpong 128x64"},
      {"comparisons",
       ragged_spec("in b : bf16[E, N]\nh = gemm(x, w)\nv = select(h < b, h, select(h >= 2, 2 * h, -h))\n"
                   "out y : f16[M, N] = v + select(h == b, 1, 0) + select(h != 0, 0.25, 0)"),
       "pingpong 128x64"},
      {"limits",
       ragged_spec("param low = -1\nin g : f32[E]\nh = gemm(x, w)\n"
                   "out y : e4m3[M, N] = min(max(h, low), g) + clamp(h, low, 3)"),
       "pingpong 128x64"},
      {"exp log", ragged_spec("h = gemm(x, w)\nout y : bf16[M, N] = log(exp(min(h, 3)) + 1)"), "pingpong 128x64"},
      {"tanh sigmoid", ragged_spec("h = gemm(x, w)\nout y : e5m2[M, N] = tanh(h) * sigmoid(1.5 * h)"),
       "pingpong 128x64"},
      {"erf erfc", ragged_spec("h = gemm(x, w)\nout y : bf16[M, N] = erf(h) - h * erfc(-h)"), "pingpong 128x64"},
      {"roots", ragged_spec("h = gemm(x, w)\nout y : bf16[M, N] = sqrt(abs(h)) * rsqrt(abs(h) + 0.1)"),
       "pingpong 128x64"},
      {"casts",
       ragged_spec("h = gemm(x, w)\nout y : f32[M, N] = cast(h, bf16) + cast(h, f16) + cast(h, e4m3) + cast(h, e5m2)"),
       "pingpong 128x64"},
      {"transposed",
       ragged_spec("h = gemm(x, w)\nout a : bf16[N, M] = h\nout b : f32[N, P] = h\nout c : e4m3[N, P] = h", dims,
                   aligned),
       "pingpong 128x64"},
      {"mx both ways",
       ragged_spec("h = gemm(x, w)\nout a : mxfp8[M, N] = h\nout b : mxfp8(elem = e5m2)[N, P] = h", dims, aligned),
       "pingpong 128x128"},
      {"mx short blocks", ragged_spec("out a : mxfp8[M, N] = gemm(x, w)", "E = 3, K = 64, N = 40"), "pingpong 128x64"},
      {"halves", halves("", "out y : bf16[M, I] = gate * sigmoid(gate) * up"), "pingpong 128x128"},
      {"alternating",
       halved_spec("in b : f32[E, 2*I]\nh = gemm(x, w) + b\nf, s = split(h, 1)\nout pre : bf16[M, 2*I] = h\n"
                   "out y : bf16[M, I] = max(0, f) * s"),
       "pingpong 128x64"},
      {"eights",
       halved_spec("h = gemm(x, w)\nf, s = split(h, 8)\nout pre : e4m3[M, 2*I] = h\nout y : bf16[I, M] = f * s"),
       "pingpong 128x64"},
      {"blocks",
       halved_spec("h = gemm(x, w)\nf, s = split(h, 32)\nout pre : mxfp8[M, 2*I] = h\nout y : mxfp8[M, I] = f * s"),
       "pingpong 128x64"},
      {"pieces and full tiles",
       halved_spec("in r : bf16[M, 2*I]\nin q : e4m3[M, I]\nh = gemm(x, w) + r\nf, s = split(h, 64)\n"
                   "out y : bf16[M, I] = f * s + q"),
       "pingpong 128x128"},
      {"cooperative with a residual",
       ragged_spec("in r : f32[M, N]\nh = gemm(x, w) + r\nout y : f32[M, N] = h\n"
                   "out q : mxfp8[M, N] = h"),
       "cooperative 128x256"},
      {"names of the templates and of C++",
       "kernel double {\n dim E = 2, K = 64, N = 64\n group M by E counts i64\n param int = 2\n in tile : f16[M, K]\n"
       " in sums : f16[E, N, K]\n in lane : f32[M]\n in p : f32[E]\n in block : bf16[E, N]\n in this : f32\n in x_0 : "
       "f32[N]\n"
       " in x : f32[N]\n slot = gemm(tile, sums) * lane * p + block * int + this + x * x_0\n out columns : bf16[M, N] "
       "= slot\n"
       " out value0 : mxfp8[M, N] = slot\n out value0_scale : bf16[M, N] = slot\n}\n",
       "pingpong 128x64"},
  };
  return list;
}

// Kernels of every form of gemm. An empty schedule is the plan's own first choice.
const std::vector<Epilogue>& forms() {
  auto grouped = [](const std::string& body, const std::string& sizes = "E = 8, K = 2048, N = 2048") {
    return "kernel test {\n dim " + sizes + "\n group M by E\n" + body + "\n}\n";
  };
  const std::string gradients = "in g : bf16[M, N]\nin x : bf16[M, K]\n";
  static const std::vector<Epilogue> list = {
      {"backward, halves", backward_spec("", "E = 8, K = 2048, I = 2048"), ""},
      {"backward, eights", backward_spec(", 8", "E = 8, K = 2048, I = 2048"), ""},
      {"backward, blocks", backward_spec(", 32", "E = 8, K = 7168, I = 2048"), ""},
      {"wgrad", grouped(gradients + "out w : f32[E, N, K] += gemm(g, x)"), ""},
      {"wgrad of one buffer each, bf16", grouped(gradients + "out w : bf16[E][K, N] = gemm(g, x)"), ""},
      {"wgrads of two halves",
       grouped("in h : bf16[M, 2*N]\nin x : bf16[M, K]\nf, s = split(h)\n"
               "out a : f32[E, N, K] += gemm(f, x)\nout b : f32[E, N, K] += gemm(s, x)"),
       ""},
      {"sum of two wgrads",
       grouped(gradients + "in z : bf16[M, K]\nin f : bf16[M, N]\nout w : f32[E, N, K] += gemm(g, x) + gemm(f, z)"),
       ""},
      {"batched",
       "kernel test {\n dim K = 2048, N = 2048\n dyn B, S\n in a : bf16[B, S, K]\n in b : bf16[B, K, N]\n"
       " v = gemm(a, b)\n out c : bf16[B, S, N] = v\n out d : bf16[B, N, S] = v\n}\n",
       ""},
      {"dense, rows contiguous",
       "kernel test {\n dim K = 2048, N = 2048\n dyn S\n in x : f16[K, S]\n in w : f16[N, K]\n"
       " out y : f16[S, N] = tanh(gemm(x, w))\n}\n",
       ""},
      {"two weights",
       grouped("in x : bf16[M, K]\nin v : bf16[E, N, K]\nin w : bf16[E, N, K]\na = gemm(x, v)\nb = gemm(x, w)\n"
               "out a : bf16[M, N] = a\nout y : bf16[M, N] = a * sigmoid(a) * b"),
       ""},
      {"sum of two gemms, own buffers",
       grouped("in x : bf16[M, K]\nin z : bf16[M, K]\nin v : bf16[E][K, N]\nin w : bf16[E][K, N]\n"
               "out y : bf16[M, N] = gemm(x, v) + gemm(z, w)"),
       ""},
      {"weights and bias of own buffers",
       grouped("in x : bf16[M, K]\nin w : bf16[E][2*N, K]\nin b : bf16[E][2*N]\nf, s = split(gemm(x, w) + b)\n"
               "out y : bf16[M, N] = f * sigmoid(f) * s"),
       ""},
  };
  return list;
}

// Blocks that are rotated in registers, of every form of tile.
const std::vector<Epilogue>& rotations() {
  const std::string dims = "E = 8, K = 2048, I = 2048";
  static const std::vector<Epilogue> list = {
      {"tokens, of a gated activation",
       halved_spec("gate, up = split(gemm(x, w), 32)\nact = cast(gate * sigmoid(gate) * up, bf16)\n"
                   "rot = cast(hadamard(act, M, 0xD7E8), bf16)\nout yt : bf16[I, P] = rot\nout a : f32 = amax(rot)",
                   dims, aligned),
       ""},
      {"columns, of a gated activation",
       halved_spec("in prob : f32[M]\nh = gemm(x, w)\ngate, up = split(h, 32)\n"
                   "act = cast(gate * sigmoid(gate) * up * prob, bf16)\nrot = 4 * hadamard(act, I)\n"
                   "out c : bf16[M, 2*I] = h\nout d : bf16[M, I] = rot\nout damax : f32[E] = amax(rot)",
                   dims),
       ""},
      {"both, beside each other",
       halved_spec("gate, up = split(gemm(x, w), 32)\nact = cast(gate * sigmoid(gate) * up, bf16)\n"
                   "rot = cast(hadamard(act, M, 0xD7E8), bf16)\nout y : bf16[M, I] = act\nout yt : bf16[I, P] = rot\n"
                   "out z : bf16[M, I] = 4 * hadamard(act, I)\nout a : f32 = amax(act)\nout b : f32 = amax(rot)",
                   dims, aligned),
       "pingpong 128x128"},
      {"one behind the other, short blocks",
       ragged_spec("h = gemm(x, w)\na = hadamard(h * h, N, 0x1234)\nb = hadamard(a + h, M)\n"
                   "out y : mxfp8[M, N] = a * b\nout t : bf16[N, P] = b\nout s : f32[E, N] = sum(hadamard(b, N))",
                   "E = 3, K = 64, N = 40", aligned),
       ""},
      {"doubled columns",
       halved_spec("h = gemm(x, w)\nf, s = split(h, 32)\nout pre : bf16[M, 2*I] = hadamard(h, 2*I)\n"
                   "out t : bf16[2*I, P] = hadamard(h, M, 0xD7E8)\nout y : bf16[M, I] = f * s",
                   dims, aligned),
       ""},
      {"rows contiguous",
       "kernel test {\n dim K = 2048, N = 2048\n dyn S\n in x : f16[K, S]\n in w : f16[N, K]\n"
       " v = tanh(gemm(x, w))\n out y : f16[S, N] = v + hadamard(v, S, 0xD7E8)\n out z : f16[S, N] = hadamard(v, "
       "N)\n}\n",
       ""},
      {"a pass",
       "kernel test {\n dim E = 2, N = 512\n group M by E\n group P = M align 128\n in x : bf16[M, N]\n"
       " r = hadamard(x, M, 0xD7E8)\n out q : mxfp8[M, N] = x\n out t : mxfp8[N, P] = r\n out a : f32 = amax(r)\n}\n",
       ""},
  };
  return list;
}

// Outputs of every family of scaled formats, where registers are scarcest.
const std::vector<Epilogue>& quantised() {
  static const std::vector<Epilogue> list = {
      {"fp8 both ways of a gated activation",
       halved_spec("gate, up = split(gemm(x, w), 32)\nact = gate * sigmoid(gate) * up\nout y : fp8_1x128[M, I] = act\n"
                   "out t : fp8_1x128[I, P] = act",
                   "E = 8, K = 2048, I = 2048", aligned),
       "cooperative 128x256"},
      {"fp8 both ways of its backward",
       "kernel test {\n dim E = 8, K = 2048, I = 1536\n group M by E\n group P = M align 128\n in dy : bf16[M, K]\n"
       " in w2 : bf16[E, K, I]\n in pre : bf16[M, 2*I]\n in prob : f32[M]\n gate, up = split(pre, 32)\n"
       " act = gate * sigmoid(gate) * up * prob\n dh, dprob = grad(act, gemm(dy, w2), pre, prob)\n"
       " out q : fp8_1x128[M, 2*I] = dh\n out t : fp8_1x128[2*I, P] = dh\n out dprob : f32[M] = sum(dprob)\n}\n",
       ""},
      {"nvfp4 both ways, seeded",
       ragged_spec("in rng : i64[2]\nin a : f32\nv = gemm(x, w)\n"
                   "out y : nvfp4(layout = blocked_128x4, amax = a, seed = rng)[M, N] = v\n"
                   "out t : nvfp4(layout = blocked_128x4, amax = a, seed = rng)[N, P] = hadamard(v, M, 0xD7E8)",
                   "E = 8, K = 2048, N = 2048", aligned),
       ""},
      {"a gradient of weights as nvfp4_16x16",
       "kernel test {\n dim E = 8, K = 2048, N = 2048\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
       " in largest : f32[E]\n out w : nvfp4_16x16(amax = largest)[E, N, K] = gemm(g, x)\n}\n",
       ""},
      {"weights in a pass",
       "kernel test {\n dim E = 8, K = 2048, N = 2048\n in w : bf16[E, N, K]\n out q : fp8_128x128[E, N, K] = w\n"
       " out t : fp8_128x128[E, K, N] = w\n}\n",
       ""},
  };
  return list;
}

using Outcomes = std::vector<std::optional<Result<toolchain::CompileOutcome>>>;

Outcomes compile_all(const std::vector<toolchain::CompileRequest>& requests) {
  Outcomes outcomes(requests.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) outcomes[i] = nvrtc()->compile(requests[i]);
  };
  std::thread other(work);
  work();
  other.join();
  return outcomes;
}

void check_spills(const std::vector<Epilogue>& list) {
  std::vector<toolchain::CompileRequest> requests;
  std::vector<std::string> schedules;
  for (const Epilogue& epilogue : list) {
    INFO(epilogue.name);
    const LoweredText result = lower_text(epilogue.spec, epilogue.schedule);
    const lowering::KernelPlan& plan = result.plan();
    schedules.push_back(lowering::schedule_name(plan.schedule));
    requests.push_back(request_of(codegen::emit_kernel(result.lowered.graph, plan)));
  }
  const Outcomes outcomes = compile_all(requests);
  for (size_t i = 0; i < list.size(); ++i) {
    INFO(list[i].name << "\n" << requests[i].source);
    if (!*outcomes[i]) {
      FAIL_CHECK(outcomes[i]->error().message);
      continue;
    }
    const toolchain::CompileOutcome& outcome = **outcomes[i];
    std::printf("%-36s %-20s %3d registers %4d spill bytes %6.0f ms\n", list[i].name, schedules[i].c_str(),
                outcome.registers, outcome.spill_bytes, outcome.milliseconds);
    INFO(outcome.log);
    CHECK(outcome.spill_bytes == 0);
    CHECK(!outcome.wgmma_serialized);
  }
}

}  // namespace

TEST_CASE("twenty synthetic epilogues compile without spills") {
  if (!nvrtc()) return;
  REQUIRE(epilogues().size() == 20);
  check_spills(epilogues());
}

TEST_CASE("every form of gemm compiles without spills under its first plan") {
  if (!nvrtc()) return;
  check_spills(forms());
}

TEST_CASE("rotated blocks compile without spills") {
  if (!nvrtc()) return;
  check_spills(rotations());
}

TEST_CASE("scales and codes of blocks compile without spills") {
  if (!nvrtc()) return;
  check_spills(quantised());
}

TEST_CASE("a kernel that spills in wide tiles does not in narrow ones") {
  if (!nvrtc()) return;
  // Three products of one row of values are needed together, and the accumulators of 192 columns leave no room for
  // them.
  std::string spec = "in r : f32[M, N]\nh = gemm(x, w)\n";
  for (int i = 0; i < 3; ++i) spec += fmt::format("in c{} : f32[E, N]\n", i);
  for (int i = 0; i < 3; ++i) spec += fmt::format("in r{} : f32[M]\n", i);
  std::string sum = "h + r";
  for (int i = 0; i < 3; ++i) sum += fmt::format(" + sigmoid(h * c{}) * r{}", i, i);
  spec += "v = " + sum + "\nout y : f32[M, N] = v\nout z : mxfp8[M, N] = v * r\n";
  auto spill_of = [&](std::string_view schedule) {
    const LoweredText result = lower_text(ragged_spec(spec, "E = 3, K = 64, N = 384"), schedule);
    const auto outcome = nvrtc()->compile(request_of(codegen::emit_kernel(result.lowered.graph, result.plan())));
    if (!outcome) FAIL(outcome.error().message);
    std::printf("%s: %d spill bytes\n", std::string(schedule).c_str(), outcome->spill_bytes);
    return outcome->spill_bytes;
  };
  CHECK(spill_of("pingpong 128x192") > 0);
  CHECK(spill_of("pingpong 128x64") == 0);
}

TEST_CASE("every template compiles with every parameter") {
  if (!nvrtc()) return;
  std::string source =
      "#include \"epilogue/load.cuh\"\n#include \"epilogue/math.cuh\"\n#include \"epilogue/mx.cuh\"\n"
      "#include \"epilogue/store.cuh\"\n#include \"epilogue/hadamard.cuh\"\n#include \"kernels/gemm_sm90.cuh\"\n"
      "using namespace epifuse;\n"
      "struct Sizes { const void* group_sizes; int groups, capacity, column_tiles, band, batch_rows, rows, row_tiles; "
      "};\n"
      "template <Groups form, bool wide> struct WalkPlan {\n"
      "  static constexpr Groups groups = form; static constexpr bool wide_sizes = wide, pairs = false; "
      "static constexpr int places = 2;\n"
      "  static EPIFUSE_DEVICE constexpr int alignment(int place) { return place ? 128 : 1; }\n"
      "  static EPIFUSE_DEVICE constexpr bool local(int place) { return place == 1; }\n"
      "  static constexpr int depth_alignment = 8; static constexpr bool skips_empty = wide;\n};\n"
      "template <class Walk> EPIFUSE_DEVICE int walk(const Sizes& p) {\n"
      "  Walk w(p); Tile<2> t; int n = 0;\n"
      "  for (int i = 0; w.seek(i, t); ++i) n += t.rows[1].first;\n  return n + w.total();\n}\n"
      "extern \"C\" __global__ void everything(u8* out, const u8* in, Sizes sizes, u32 shared, i64 pitch) {\n"
      "  const Lane lane = Lane::now();\n  const auto natural = LaneOf<RowOrder::natural>::now();\n"
      "  const OwnRowsOf rows(lane, Rows{0, sizes.capacity});\n"
      "  const OwnRowsOf natural_rows(natural, Rows{0, sizes.capacity});\n"
      "  const OwnColumns columns(lane, 0, sizes.groups);\n"
      "  Block a, b;\n  float v[own_columns], r[own_rows];\n  float sum = 0;\n"
      "  hadamard_rows<0xd7e8>(a, lane);\n  hadamard_rows<0>(a, natural);\n  hadamard_columns<0>(b, lane);\n"
      "  hadamard_columns<0xffff>(b, natural);\n";
  for (const char* type : {"f32", "bf16", "f16", "e4m3", "e5m2"}) {
    source += fmt::format(
        "  {{\n    const TileInput<{0}> box(shared, lane), other(shared + 16384, natural);\n"
        "    for (int i = 0; i < 4; ++i)\n      for (int c = 0; c < 8; ++c) a.v[i][c] = box.at(i, c) + other.at(i, "
        "c);\n"
        "  }}\n"
        "  sum += load_1_value<{0}>(in, pitch) + tile_input_bytes<{0}>;\n"
        "  load_rows<{0}>(r, in, lane, Rows{{0, 4}}, sizes.capacity);\n"
        "  load_rows<{0}>(r, in, natural, Rows{{0, 4}}, sizes.capacity);\n"
        "  load_columns<{0}>(v, in, 1, pitch, columns.first, true);\n"
        "  for (int i = 0; i < 4; ++i)\n    for (int c = 0; c < 8; ++c) a.v[i][c] += r[i] * v[c];\n"
        "  load_columns_alternating<{0}>(v, in, 1, pitch, columns.first, 1, true);\n"
        "  for (int c = 0; c < 8; ++c) b.v[0][c] += v[c];\n"
        "  store_rows<{0}>(a, out, pitch, rows, columns, 0);\n  store_rows<{0}>(a, out, pitch, natural_rows, columns, "
        "0);\n"
        "  store_rows_alternating<{0}>(a, b, out, pitch, rows, columns);\n"
        "  store_transposed<{0}, true>(a, out, pitch, rows, columns, 0);\n"
        "  store_transposed<{0}, false, false, 2>(b, out, pitch, natural_rows, columns, dealt_column<8>(columns.first, "
        "1));\n",
        type);
  }
  for (const char* type : {"f32", "bf16", "f16"})
    source += fmt::format(
        "  store_rows<{0}, true>(a, out, pitch, rows, columns, 0);\n"
        "  store_rows_alternating<{0}, true>(a, b, out, pitch, natural_rows, columns);\n"
        "  store_transposed<{0}, true, true>(a, out, pitch, rows, columns, 0);\n"
        "  store_transposed<{0}, false, true>(a, out, pitch, natural_rows, columns, 0);\n",
        type);
  for (const char* type : {"bf16", "f16"})
    for (const int piece : {1, 8})
      source += fmt::format(
          "  {{\n    const TileInputHalves<{}, {}> box(shared, lane);\n"
          "    for (int c = 0; c < 8; ++c) b.v[0][c] += box.at(0, 1, c) * box.at(1, 2, c);\n  }}\n",
          type, piece);
  for (const char* type : {"e4m3", "e5m2"}) {
    source += fmt::format(
        "  {{\n    SingleRowScales s1; GatheredRowScales<2> s2; GatheredRowScales<4> s4; JoinedRowScales joined;\n"
        "    SingleColumnScales c1;\n"
        "    const GatheredColumnScales c4{{shared}};\n    clear_missing_rows(a, lane, 5);\n    "
        "clear_missing_rows(b, natural, 5);\n    clear_missing_columns(a, columns);\n"
        "    store_rows_mx<{0}>(a, out, pitch, out, pitch, s1, lane, rows, columns, 0, 0);\n"
        "    store_rows_mx<{0}>(a, out, pitch, out, pitch, s2, lane, rows, columns, 0, 1);\n"
        "    store_rows_mx<{0}>(a, out, pitch, out, pitch, s4, lane, rows, columns, 0, 3);\n"
        "    store_rows_mx<{0}>(a, out, pitch, out, pitch, joined, lane, rows, columns, 0, 1);\n"
        "    joined.finish(out, pitch, lane, rows, 0, 1, 1);\n"
        "    store_rows_mx_alternating<{0}, 1>(a, b, out, pitch, out, pitch, lane, rows, columns);\n"
        "    store_rows_mx_alternating<{0}, 8>(a, b, out, pitch, out, pitch, lane, rows, columns);\n"
        "    store_transposed_mx<{0}, false>(a, out, pitch, out, pitch, c1, lane, rows, columns, 0, 0);\n"
        "    store_transposed_mx<{0}, true, 2>(a, out, pitch, out, pitch, c1, lane, rows, columns, 0, 0);\n"
        "    warpgroup_sync();\n"
        "    store_transposed_mx<{0}, true>(a, out, pitch, out, pitch, c4, lane, rows, columns, 0, 0);\n"
        "    warpgroup_sync();\n    c4.flush(out, pitch, Rows{{0, 128}}, true, 3, 3);\n  }}\n",
        type);
  }
  std::string accumulators =
      "#include \"tile/accumulators.cuh\"\nusing namespace epifuse;\n"
      "extern \"C\" __global__ void accumulators(float* out, u32 shared) {\n  float sum = 0;\n";
  // Every width with one layout of operands, and every layout with one width.
  auto sums = [&](const char* type, int width, const char* a, const char* b) {
    accumulators += fmt::format(
        "  {{\n    Accumulators<{}, {}, Major::{}, Major::{}> sums;\n    sums.clear();\n"
        "    sums.multiply(shared, shared + 16384, false);\n    ptx::wgmma_commit();\n    ptx::wgmma_wait<0>();\n"
        "    sums.pin();\n    sums.straighten(1);\n    sums.straighten_halves<1>(0);\n    "
        "sums.straighten_halves<8>(0);\n    sums.shift();\n"
        "    sum += sums.at(0, 1, 2) + sums.at(0, 3, 7) + sums.half_at<1>(0, 1, 2, 3) + sums.half_at<8>(0, 0, 1, 6);\n "
        " }}\n",
        type, width, a, b);
  };
  for (const char* type : {"bf16", "f16"}) {
    for (const int width : {64, 128, 192, 256}) sums(type, width, "k", "k");
    for (const auto& [a, b] : {std::pair{"k", "mn"}, {"mn", "k"}, {"mn", "mn"}}) sums(type, 64, a, b);
  }
  for (const char* groups : {"one", "uniform", "ends", "counts"})
    for (const char* wide : {"false", "true"})
      source += fmt::format(
          "  sum += walk<TileWalk<WalkPlan<Groups::{0}, {1}>, Sizes>>(sizes) +\n"
          "         walk<DepthWalk<WalkPlan<Groups::{0}, {1}>, Sizes>>(sizes);\n",
          groups, wide);
  source +=
      "  using namespace math;\n"
      "  sum = minimum(sum, 1.f) + maximum(sum, 2.f) + clamp(sum, 0.f, 1.f) + select(truth(sum < 1.f), sum, 0.f) + "
      "sigmoid(sum) +\n"
      "        round_bf16(sum) + round_f16(sum) + round_e4m3(sum) + round_e5m2(sum);\n"
      "  *reinterpret_cast<float*>(out) = sum;\n}\n";
  // Accumulators are kernels of their own, which another thread compiles.
  const std::vector<std::string> sources = {source, accumulators + "  *out = sum;\n}\n"};
  const auto outcomes = compile_all({request_of(sources[0]), request_of(sources[1])});
  for (size_t i = 0; i < sources.size(); ++i) {
    INFO(sources[i]);
    if (!*outcomes[i]) FAIL((*outcomes[i]).error().message);
    CHECK((*outcomes[i])->entries.at(0).name == (i == 0 ? "everything" : "accumulators"));
  }
}
