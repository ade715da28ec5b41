// How the blocks of scaled outputs lie over a tile, where their scales are counted and kept, and what is refused.
#include "compiler/lowering/plan_quantised.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/ir/buffers.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using ir::ScaleLayout;
using lowering::KernelPlan;
using lowering::Quantised;
using lowering::Sink;
using lowering::SinkKind;

namespace {

constexpr const char* aligned = "group M by E\n group P = M align 512";
constexpr int64_t groups = 3, columns = 328, capacity = 1000;

const Sink& sink_of(const LoweredText& result, size_t index = 0) {
  const std::vector<Sink>& sinks = result.plan().epilogue.sinks;
  REQUIRE(index < sinks.size());
  return sinks[index];
}

// The alignment of the place in which scales count rows.
int64_t scale_alignment(const LoweredText& result, size_t index = 0) {
  return result.plan().places.at(static_cast<size_t>(sink_of(result, index).quantised.scale_place)).alignment;
}

int64_t number(const IntExpr& expression) {
  const auto value = expression.evaluate([](std::string_view name) -> std::optional<int64_t> {
    if (name == "E" || name == "B") return groups;
    if (name == "N") return columns;
    if (name == "M" || name == "S") return capacity;
    return std::nullopt;
  });
  REQUIRE(value);
  return *value;
}

std::string refusal(const std::string& spec) {
  const LoweredText result = lower_text(spec);
  INFO(spec);
  CHECK(result.lowered.plans.empty());
  REQUIRE(!result.diagnostics.all().empty());
  const Diagnostic& said = result.diagnostics.all().front();
  return std::string(said.where.text()) + ": " + said.message;
}

std::vector<std::string> schedules(const std::string& spec) {
  const LoweredText result = lower_text(spec);
  INFO(spec << result.diagnostics.print());
  std::vector<std::string> names;
  for (const KernelPlan& plan : result.lowered.plans) {
    CHECK(lowering::verify(plan).empty());
    names.push_back(lowering::schedule_name(plan.schedule));
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Every type that an option of layout or direction makes of a format.
struct Type {
  const ir::FormatInfo* info;
  ScaleLayout layout;
  bool transposed, along_rows;  // of the output, whose dimensions are rows and N

  int rows() const { return along_rows ? info->block_columns : info->block_rows; }
  int columns() const { return along_rows ? info->block_rows : info->block_columns; }
  std::string output(const std::string& row_dim, const std::string& leading = "") const {
    const bool along_last = along_rows == transposed;
    const std::string along = along_last ? "" : fmt::format(", along = {}", along_rows ? row_dim : "N");
    return fmt::format("out y : {}(layout = {}{})[{}{}] = gemm(x, w)", info->name, ir::layout_name(layout), along,
                       leading, transposed ? "N, " + row_dim : row_dim + ", N");
  }
  // The rows that a unit of the layout has, where rows in groups are not padded to a pitch.
  int64_t unit(bool pads_rows) const {
    if (layout == ScaleLayout::blocked_128x4) return (along_rows ? 4 : 128) * rows();
    return layout == ScaleLayout::columns_tma && !transposed && pads_rows ? 4 * rows() : 1;
  }
};

std::vector<Type> all_types() {
  std::vector<Type> types;
  for (const ir::FormatInfo& info : ir::all_formats())
    for (const ScaleLayout layout : {ScaleLayout::rows, ScaleLayout::columns_tma, ScaleLayout::blocked_128x4}) {
      if (!info.scaled || (layout == ScaleLayout::blocked_128x4 && info.scale == Storage::f32)) continue;
      for (const bool transposed : {false, true})
        for (const bool along_rows : {false, true}) types.push_back({&info, layout, transposed, along_rows});
    }
  return types;
}

// What the templates are told must be what the buffer of scales has room for.
void check_scales(const Type& type, const LoweredText& result, int64_t rows) {
  const Sink& sink = sink_of(result);
  const int64_t R = up(rows, type.rows()) / type.rows(), C = up(columns, type.columns()) / type.columns();
  const int64_t pitch = number(lowering::scale_pitch(result.lowered.graph, sink));
  switch (type.layout) {
    case ScaleLayout::rows: CHECK(pitch == (type.transposed ? R : C)); break;
    case ScaleLayout::columns_tma: CHECK(pitch == up(type.transposed ? C : R, 4)); break;
    case ScaleLayout::blocked_128x4: CHECK(pitch == (type.along_rows ? up(C, 128) / 128 : up(C, 4) / 4)); break;
  }
  CHECK(sink.quantised.block_rows == type.rows());
  CHECK(sink.quantised.block_columns == type.columns());
  CHECK(sink.quantised.transposed == type.transposed);
  CHECK(sink.quantised.along_rows == type.along_rows);
  CHECK(!sink.quantised.joined);
}

}  // namespace

TEST_CASE("rows in groups: every format, order, direction and layout") {
  for (const Type& type : all_types()) {
    const LoweredText result =
        lower_text(ragged_spec(type.output("P"), fmt::format("E = {}, K = 64, N = {}", groups, columns), aligned));
    INFO(type.output("P") << result.diagnostics.print());
    // Blocks of 32 with scales in rows have a fast form.
    if (type.info->format == ir::Format::mxfp8 && type.layout == ScaleLayout::rows &&
        type.along_rows == type.transposed) {
      CHECK(sink_of(result).kind == (type.transposed ? SinkKind::mx_transposed : SinkKind::mx_rows));
      continue;
    }
    REQUIRE(sink_of(result).kind == SinkKind::quantised);
    check_scales(type, result, (capacity + groups * 511) / 512 * 512);
    CHECK(scale_alignment(result) == std::max<int64_t>(512, type.unit(false)));
  }
}

TEST_CASE("one matrix, and batches of them: every format, order, direction and layout") {
  for (const Type& type : all_types()) {
    const LoweredText dense = lower_text(
        fmt::format("kernel test {{\n dim K = 64, N = {}\n dyn S\n in x : f16[S, K]\n in w : f16[N, K]\n {}\n}}",
                    columns, type.output("S")));
    INFO(type.output("S") << dense.diagnostics.print());
    if (sink_of(dense).kind == SinkKind::quantised) {
      check_scales(type, dense, capacity);
      CHECK(scale_alignment(dense) == type.unit(true));
    }
    const LoweredText batched = lower_text(fmt::format(
        "kernel test {{\n dim K = 64, N = {}\n dyn B, S\n in x : f16[B, S, K]\n in w : f16[B, N, K]\n {}\n}}", columns,
        type.output("S", "B, ")));
    INFO(batched.diagnostics.print());
    if (sink_of(batched).kind != SinkKind::quantised) continue;
    check_scales(type, batched, capacity);
    CHECK(scale_alignment(batched) == type.unit(true));
    CHECK(batched.plan().places.at(static_cast<size_t>(sink_of(batched).quantised.scale_place)).local);
    int64_t elements = 1;
    for (const ir::Buffer& buffer : ir::buffers(batched.lowered.graph))
      if (buffer.is_scale)
        for (const IntExpr& extent : buffer.extents) elements *= number(extent);
    CHECK(number(lowering::scale_group_stride(batched.lowered.graph, sink_of(batched))) * groups == elements);
  }
}

TEST_CASE("scales count rows from whole tiles of them, if groups begin with such, or tiles with groups") {
  const auto lower_at = [](int alignment, const char* type, const char* shape) {
    return lower_text(ragged_spec(fmt::format("out y : {}[{}] = gemm(x, w)", type, shape), "E = 3, K = 64, N = 128",
                                  fmt::format("group M by E\n group P = M align {}", alignment)));
  };
  constexpr const char* blocked = "mxfp8(layout = blocked_128x4)";
  CHECK(scale_alignment(lower_at(32, blocked, "P, N")) == 128);
  CHECK(scale_alignment(lower_at(128, blocked, "P, N")) == 128);
  CHECK(scale_alignment(lower_at(384, blocked, "P, N")) == 384);
  CHECK(scale_alignment(lower_at(32, blocked, "N, P")) == 128);
  CHECK(scale_alignment(lower_at(64, "nvfp4(layout = blocked_128x4)", "N, P")) == 64);
  CHECK(scale_alignment(lower_at(128, "mxfp8_32x32(layout = blocked_128x4)", "P, N")) == 4096);
  // The codes' own place where scales lie in rows, and where the layout has no unit.
  const LoweredText rows = lower_at(96, "mxfp8(rule = floor)", "N, P");
  CHECK(sink_of(rows).quantised.scale_place == sink_of(rows).place);
  const std::string fixed = "E = 3, K = 64, N = 128";
  CHECK(refusal(ragged_spec("out y : mxfp8(layout = blocked_128x4)[P, N] = gemm(x, w)", fixed,
                            "group M by E\n group P = M align 96")) ==
        "y: an output of type mxfp8(layout = blocked_128x4) whose groups begin at multiples of 96 is not lowered yet");
  CHECK(refusal(ragged_spec("out y : nvfp4_16x16(layout = blocked_128x4)[N, P] = gemm(x, w)", fixed,
                            "group M by E\n group P = M align 48")) ==
        "y: an output of type nvfp4_16x16(layout = blocked_128x4) whose groups begin at multiples of 48 is not lowered "
        "yet");
}

TEST_CASE("results of groups have no tiles for gaps of more rows than a tile") {
  const auto wgrad = [](const char* type) {
    return fmt::format(
        "kernel test {{\n dim E = 2, K = 256, N = 256\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
        " out w : {}[E, N, K] = gemm(g, x)\n}}",
        type);
  };
  const LoweredText square = lower_text(wgrad("nvfp4_16x16"));
  CHECK(sink_of(square).kind == SinkKind::quantised);
  CHECK(square.plan().natural_rows());
  // Also what has a fast form where rows are in order.
  CHECK(sink_of(lower_text(wgrad("mxfp8"))).kind == SinkKind::quantised);
  CHECK(scale_alignment(lower_text(wgrad("mxfp8(layout = blocked_128x4)"))) == 128);
  CHECK(refusal(wgrad("nvfp4_16x16(layout = blocked_128x4)")) ==
        "w: an output of type nvfp4_16x16(layout = blocked_128x4) for each group is not lowered yet");
  CHECK(refusal("kernel test {\n dim E = 2, K = 256, N = 256\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
                " out w : mxfp8[E][N, K] = gemm(g, x)\n}") ==
        "w: an output of type mxfp8 with one buffer for each group is not lowered yet");
}

TEST_CASE("halves of columns: stored apart, put together, or by turns") {
  // Of an output over 2*I behind a split in pieces: "" is refused.
  const auto how = [](const char* type, const char* shape, const std::string& piece, int I) -> std::string {
    const LoweredText result = lower_text(
        halved_spec(fmt::format("h = gemm(x, w)\nf, s = split(h{})\nout y : {}[{}] = h\nout z : bf16[M, I] = f * s",
                                piece, type, shape),
                    fmt::format("E = 2, K = 64, I = {}", I), "group M by E\n group P = M align 128"));
    if (result.lowered.plans.empty()) {
      const std::string& said = result.diagnostics.all().front().message;
      return said.substr(0, said.find(" is not lowered yet"));
    }
    const Quantised& blocks = sink_of(result).quantised;
    return fmt::format("{}{}",
                       blocks.joined             ? "joined"
                       : blocks.shared_by_halves ? "by turns"
                                                 : "apart",
                       blocks.scale_tiles(2) == 1 ? ", one tile of scales" : "");
  };
  for (const char* type : {"nvfp4", "mxfp4", "mxfp8_32x32"})
    for (const char* shape : {"P, 2*I", "2*I, P"}) {
      INFO(type << " " << shape);
      const bool along_columns = shape[0] == 'P' || std::string(type) == "mxfp8_32x32";
      CHECK(how(type, shape, "", 128) == "apart");
      CHECK(how(type, shape, ", 32", 128) == "apart");
      CHECK(how(type, shape, ", 1", 128) == (along_columns ? "joined, one tile of scales" : "apart"));
      CHECK(how(type, shape, ", 8", 128) == (along_columns ? "joined, one tile of scales" : "apart"));
    }
  CHECK(how("mxfp4", "P, 2*I", ", 16", 96) == "blocks of 32 over columns dealt out in pieces of 16");
  CHECK(how("mxfp4", "P, 2*I", "", 72) == "blocks of 32 that lie across both halves");
  CHECK(how("nvfp4_16x16", "2*I, P", "", 72) == "blocks of 16 that lie across both halves");
  CHECK(how("mxfp8_32x32", "2*I, P", ", 48", 96) == "blocks of 32 over columns dealt out in pieces of 48");
  for (const char* piece : {", 32", ", 64"})
    CHECK(how("fp8_1x128", "P, 2*I", piece, 128) == "by turns, one tile of scales");
  CHECK(how("fp8_1x128", "P, 2*I", ", 1", 128) == "joined, one tile of scales");
  CHECK(how("fp8_1x128", "P, 2*I", ", 128", 128) == "apart");
  CHECK(how("fp8_1x128", "P, 2*I", ", 24", 96) == "blocks of 128 over columns dealt out in pieces of 24");
  CHECK(how("fp8_128x128", "P, 2*I", "", 192) == "blocks of 128 that lie across both halves");
  // Neighbours in memory would be of both halves, each of a block of its own.
  CHECK(how("nvfp4(along = P)", "P, 2*I", ", 1", 128) == "blocks over rows of columns dealt out one by one");
  CHECK(how("nvfp4(along = P)", "P, 2*I", ", 8", 128) == "apart");
}

TEST_CASE("groups of codes of 4 bits begin with whole bytes") {
  const std::string fixed = "E = 3, K = 64, N = 128";
  CHECK(sink_of(lower_text(ragged_spec("out y : nvfp4(along = N)[N, P] = gemm(x, w)", fixed,
                                       "group M by E\n group P = M align 2")))
            .kind == SinkKind::quantised);
  // As many rows as the launch says are whole bytes too.
  const LoweredText dense = lower_text(
      "kernel test {\n dim K = 64, N = 64\n dyn S\n in x : f16[S, K]\n in w : f16[N, K]\n"
      " out y : mxfp4[N, S] = gemm(x, w)\n}");
  for (const RecipeSymbol& symbol : dense.plan().recipe.symbols)
    if (symbol.name == "S") CHECK(symbol.multiple == 2);
}

TEST_CASE("a tile is one block of 128 columns, or two cooperative warpgroups' are") {
  const std::string one = "out y : fp8_1x128[M, N] = gemm(x, w)";
  CHECK(schedules(ragged_spec(one)) == Names{"cooperative 128x128", "cooperative 128x256", "pingpong 128x128"});
  for (const KernelPlan& plan : lower_text(ragged_spec(one)).lowered.plans)
    CHECK(plan.epilogue.sinks[0].quantised.exchanged == (plan.part_tile() == 64));
  // Of a gated activation, half of the columns of each warpgroup.
  const LoweredText gated = lower_text(halved_spec("f, s = split(gemm(x, w))\nout y : fp8_1x128[M, I] = f * s"));
  REQUIRE(gated.lowered.plans.size() == 1);
  CHECK(lowering::schedule_name(gated.plan().schedule) == "cooperative 128x256");
  CHECK(sink_of(gated).quantised.exchanged);
  CHECK(lowering::has_wide_blocks(gated.plan().epilogue));
  // 64 columns of each half; beside them the activation has a block of both warpgroups.
  const std::string dealt = "h = gemm(x, w)\nf, s = split(h, 32)\nout y : fp8_1x128[M, 2*I] = h\n";
  CHECK(schedules(halved_spec(dealt + "out z : bf16[M, I] = f * s")) ==
        Names{"cooperative 128x128", "cooperative 128x256", "pingpong 128x128"});
  CHECK(schedules(halved_spec(dealt + "out z : fp8_1x128[M, I] = f * s")) == Names{"cooperative 128x256"});
  // The gradient of both halves, put together from 64 columns.
  const std::string gradient =
      "in p : bf16[M, 2*N]\nf, s = split(p, 8)\nd = grad(f * s, gemm(x, w), p)\nout a : fp8_1x128[M, 2*N] = d\n";
  CHECK(schedules(ragged_spec(gradient)) ==
        Names{"cooperative 128x128", "pingpong 128x64", "pingpong 128x64 separate"});
  CHECK(schedules(ragged_spec(gradient + "out b : fp8_1x128[M, N] = exp(gemm(x, w))")) ==
        Names{"cooperative 128x128", "cooperative 128x128 separate"});
  // No tile is a block of both: 64 columns for each half of one, which pieces of 32 cannot have.
  CHECK(refusal(halved_spec("h = gemm(x, w)\nf, s = split(h, 96)\nout z : fp8_1x128[M, I] = f * s",
                            "E = 3, K = 64, I = 192"))
            .find("is not one block of 128") != std::string::npos);
  // Along rows any tile will do.
  CHECK(schedules(ragged_spec("out y : fp8_1x128[N, P] = gemm(x, w)", "E = 3, K = 64, N = 128", aligned)).size() == 5);
}

TEST_CASE("scales and maxima of a tile lie behind one another, and no longer than the scratch") {
  const std::vector<std::string> specs = {
      ragged_spec("in r : f32[M]\nh = gemm(x, w)\nout a : fp8_1x128[M, N] = h\nout b : fp8_1x128[N, P] = h\n"
                  "out c : nvfp4[P, N] = h\nout d : nvfp4_16x16[N, P] = h\nout e : fp8_128x128[P, N] = h\n"
                  "out f : mxfp8[N, P] = h\nout g : f32[E, N] = sum(h)",
                  "E = 3, K = 64, N = 256", aligned),
      halved_spec("h = gemm(x, w)\nf, s = split(h, 8)\nout a : nvfp4[M, 2*I] = h\nout b : mxfp4[2*I, P] = h\n"
                  "out c : fp8_1x128[2*I, P] = h\nout d : f32[E, 2*I] = sum(h)\nout e : mxfp8[I, P] = f * s",
                  "E = 3, K = 64, I = 256", aligned),
      "kernel test {\n dim E = 2, K = 256, N = 256\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
      " v = gemm(g, x)\n out a : mxfp8[E, N, K] = v\n out b : mxfp8[E, K, N] = v\n out c : mxfp8_32x32[E, N, K] = v\n"
      " out d : fp8_1x128[E, K, N] = v\n out e : fp8_128x128[E, N, K] = v\n}"};
  for (const std::string& spec : specs) {
    const LoweredText result = lower_text(spec);
    INFO(spec << result.diagnostics.print());
    REQUIRE(!result.lowered.plans.empty());
    for (const KernelPlan& plan : result.lowered.plans) {
      if (plan.schedule.family != lowering::Family::gemm) continue;
      INFO(lowering::schedule_name(plan.schedule));
      std::vector<std::pair<int, int>> regions;
      for (const Sink& sink : plan.epilogue.sinks) {
        const int values = static_cast<int>(sink.values.size());
        if (sink.kind == SinkKind::mx_transposed && sink.gathered_scales > 1)
          regions.emplace_back(sink.scratch, values * plan.part_tile() * 4);
        if (sink.kind == SinkKind::reduce_columns)
          regions.emplace_back(sink.scratch, values * plan.part_tile() * 4 * static_cast<int>(sizeof(float)));
        if (sink.kind != SinkKind::quantised) continue;
        const Quantised& blocks = sink.quantised;
        const int tiles = blocks.scale_tiles(sink.values.size());
        // A code for each block of the tile, of all columns that one tile of scales is about.
        const int tile_columns = blocks.wide() ? 128 : plan.part_tile() * (blocks.joined ? 2 : 1);
        const Storage code =
            ir::format_info(result.lowered.graph.outputs[static_cast<size_t>(sink.output)].tensor.type.format).scale;
        const int codes = 128 / blocks.block_rows * (tile_columns / blocks.block_columns) * storage_bits(code) / 8;
        CHECK(lowering::scale_tile_bytes(result.lowered.graph, plan, sink) >= codes);
        regions.emplace_back(sink.scratch, tiles * codes);
        // A word for each row or warp of a wide block; for each warp and column of the others, and in natural order for
        // each half of the tile.
        if (!blocks.meets(plan.natural_rows())) continue;
        const int words = blocks.wide() ? 128 : 4 * tile_columns * (plan.natural_rows() ? 2 : 1);
        regions.emplace_back(blocks.meeting, tiles * words * 4);
      }
      std::sort(regions.begin(), regions.end());
      int end = 0;
      for (const auto& [first, bytes] : regions) {
        CHECK(first >= end);
        CHECK(first % 4 == 0);
        end = first + bytes;
      }
      CHECK(end <= plan.scratch_bytes);
    }
  }
}
