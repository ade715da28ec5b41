#include "compiler/codegen/pointwise/blocks.h"

#include "base/ensure.h"
#include "compiler/codegen/expression.h"
#include "compiler/codegen/format_policy.h"

namespace epifuse::codegen {
namespace {

using lowering::PointwiseLaunch;

// Where scales lie: their buffer, and which matrix of it the last two axes are.
class ScaleText {
 public:
  explicit ScaleText(const LaunchText& out) : out_(out), type_(out.output().tensor.type) {}

  std::string base() const { return pointers() > 0 ? "pointwise::buffer_at(p.scales, s0)" : std::string("p.scales"); }

  // The flattened place along the axes in front of the last two, from axis `first` on.
  std::string matrix(int first) const {
    std::string text;
    for (int i = first; i + 2 < rank(); ++i)
      text = text.empty() ? fmt::format("static_cast<i64>(s{})", i) : fmt::format("({}) * p.size_{} + s{}", text, i, i);
    return text.empty() ? "0" : text;
  }

  // The number of the tile `first_tile` (of a group) of its matrix.
  std::string tile(const std::string& first_tile) const {
    const std::string before = matrix(pointers());
    return before == "0" ? first_tile : fmt::format("({}) * p.tiles_outer * p.tiles_inner + {}", before, first_tile);
  }

  // The index of the scale of the block whose first element lies at `row` and `column` of the last two axes, from the
  // group's start in tiles.
  std::string index(const std::string& row, const std::string& column) const {
    const std::string r = divided(row, out_.launch.block_rows), c = divided(column, out_.launch.block_columns);
    if (type_.layout == ir::ScaleLayout::blocked_128x4) {
      const bool along_last = ir::along_axis(type_, rank()) == rank() - 1;
      return fmt::format("scale_tile * 512 + pointwise::tiled_scale({}, {}, scale_tiles)", along_last ? r : c,
                         along_last ? c : r);
    }
    std::string text;
    for (int i = pointers(); i + 2 < rank(); ++i) text += fmt::format("s{0} * p.stride{0}_scales + ", i);
    if (rank() == 1) return c;
    const bool swapped = type_.layout == ir::ScaleLayout::columns_tma;
    return text + fmt::format("{} * p.stride{}_scales + {}", swapped ? c : r, rank() - 2, swapped ? r : c);
  }

  int rank() const { return static_cast<int>(out_.launch.axes.size()); }
  int pointers() const { return out_.output().tensor.pointer_axes; }

  static std::string divided(const std::string& place, int block) {
    return block == 1 ? place : fmt::format("({}) / {}", place, block);
  }

 private:
  const LaunchText& out_;
  const ir::TensorType& type_;
};

// Places along the tiled axis that a tile of scales covers.
int64_t unit_of_tiles(const LaunchText& out) {
  const ir::DimId place = out.axis(out.launch.tiled_axis).place;
  for (const lowering::PointwiseTable& table : out.launch.tables)
    for (const lowering::PointwiseTable::Place& at : table.places)
      if (at.unit != 0 && at.dim == place) return at.unit;
  EPIFUSE_ENSURE(false, "tiles that no table has");
}

// How many tiles a group has along the tiled axis.
std::string tiles_of_group(const LaunchText& out, const std::string& group) {
  const lowering::PointwiseAxis& axis = out.axis(out.launch.tiled_axis);
  return fmt::format("pointwise::scale_tiles(groups.counts_{}[{}], groups.starts_{}[{}], {}, p.size_{}, {})",
                     out.dim(axis.grouped), group, out.dim(axis.place), group, axis.alignment, out.launch.tiled_axis,
                     unit_of_tiles(out));
}

class Speller {
 public:
  explicit Speller(LaunchText& out)
      : out_(out),
        launch_(out.launch),
        type_(out.output().tensor.type),
        scales_(out),
        row_axis_(launch_.kept - 2),
        column_axis_(launch_.kept - 1),
        rows_(row_axis_ < 0 ? 1 : out.axis(row_axis_).step),
        columns_(out.axis(column_axis_).step),
        own_scales_(launch_.block_columns == 1 ? launch_.width : 1) {}

  // One pass over the item for the largest magnitude of each block, one for the codes: the value is computed twice by
  // the same instructions, so that a block needs no registers for it.
  void run() {
    const int width = launch_.width, steps = (rows_ * columns_ / width + at_once() - 1) / at_once();
    out_.line("    using Format = {};", format_policy(type_));
    setup();
    sizes();
    out_.line("    u32 largest[{}] = {{}};", own_scales_);
    out_.line("    Format::Scale scale[{}] = {{}};", own_scales_);
    out_.line("    constexpr int steps = {};", steps);
    out_.line("#pragma unroll 1");
    out_.line("    for (int step = 0; step < 2 * steps; ++step) {{");
    place_of_step();
    out_.line("      float v[{}] = {{}};", width);
    value();
    out_.line("      if (step < steps) {{");
    out_.line("#pragma unroll");
    out_.line("        for (int i = 0; i < {}; ++i)", width);
    out_.line("          if (r < rows && c + i < columns) largest[{0}] = max(largest[{0}], Format::magnitude(v[i]));",
              own_scales_ > 1 ? "i" : "0");
    out_.line("        continue;");
    out_.line("      }}");
    out_.line("      if (step == steps) {{");
    scales();
    out_.line("      }}");
    out_.line("      if (r >= stored_rows || c >= stored_columns) continue;");
    codes();
    out_.line("    }}");
  }

 private:
  // Steps that are taken at once.
  int at_once() const { return launch_.warps ? 32 : 1; }
  bool in_groups(int axis) const { return axis >= 0 && out_.axis(axis).place >= 0; }

  // A place along one of the last two axes, from the group's start where it lies in groups.
  std::string in_group(int axis, const std::string& more) const {
    if (axis < 0) return "0";
    return fmt::format("{}{}{}", in_groups(axis) ? fmt::format("row{}.row", axis) : fmt::format("s{}", axis),
                       more.empty() ? "" : " + ", more);
  }

  void setup() {
    const ir::Input* amax = nullptr;
    for (const ir::Input& in : out_.graph.inputs)
      if (in.tensor.name == type_.amax_input) amax = &in;
    std::string of;
    if (amax && amax->left_out)
      of = spell_number(*amax->default_value);
    else if (amax)
      of = fmt::format(
          "pointwise::load<f32>(p.option_{}, {})", type_.amax_input,
          launch_.amax_axis < 0 ? "0" : fmt::format("{}{}", launch_.amax_by_group ? "g" : "s", launch_.amax_axis));
    out_.line("    const Format::Setup setup = Format::setup({});", of);
    if (type_.seed_input.empty()) return;
    out_.line("    const formats::RandomSource source = formats::RandomSource::load(p.option_{}, {});",
              type_.seed_input, out_.graph.ordinal(out_.output()));
    const int grouped = in_groups(column_axis_) ? column_axis_ : in_groups(row_axis_) ? row_axis_ : -1;
    out_.line("    const int matrix = {};",
              grouped >= 0 ? fmt::format("g{}", grouped) : fmt::format("static_cast<int>({})", scales_.matrix(0)));
  }

  // Of the item's rows and columns: those that are stored, and those that exist.
  void sizes() {
    const bool many_rows = rows_ > 1;
    const auto stored = [&](int axis, int step) { return fmt::format("min({}, p.size_{} - s{})", step, axis, axis); };
    const auto existing = [&](int axis, const char* all) {
      return in_groups(axis) ? fmt::format("min({0}, row{1}.count - row{1}.row)", all, axis) : std::string(all);
    };
    out_.line("    const int stored_rows = {};", many_rows ? stored(row_axis_, rows_) : "1");
    out_.line("    const int stored_columns = {};", stored(column_axis_, columns_));
    const std::string there = out_.exists(many_rows ? row_axis_ : column_axis_);
    const std::string rows = many_rows ? existing(row_axis_, "stored_rows") : "1";
    out_.line("    const int rows = {};", there.empty() ? rows : fmt::format("{} ? {} : 0", there, rows));
    out_.line("    const int columns = {};", existing(column_axis_, "stored_columns"));
  }

  void place_of_step() {
    const int across = columns_ / launch_.width;
    const std::string step = launch_.warps ? "step % steps * 32 + pointwise::lane_index()" : "step % steps";
    out_.line("      const int at = {};", step);
    if (launch_.rows_first)
      out_.line("      const int r = at % {0}, c = at / {0} * {1};", rows_, launch_.width);
    else
      out_.line("      const int r = at / {0}, c = at % {0} * {1};", across, launch_.width);
  }

  LaunchText::Moved moved(const char* place) const {
    LaunchText::Moved moved{{column_axis_, fmt::format("{}{} + c", place, column_axis_)}};
    if (rows_ > 1) moved[row_axis_] = fmt::format("{}{} + r", place, row_axis_);
    return moved;
  }

  // What lies in an empty group is zero, and has a scale: that of zeros.
  void value() {
    const LaunchText::Moved stored = moved("s");
    const std::string terms = out_.has_terms(stored, column_axis_);
    out_.line("      if (r < rows && c < columns{}) {};", terms.empty() ? "" : " && " + terms,
              out_.call(fmt::format("min({}, columns - c)", launch_.width), moved("a")));
    for (const lowering::PointwiseContracted& contracted : launch_.contracted) {
      if (contracted.axis != column_axis_) continue;
      out_.line("#pragma unroll");
      out_.line("      for (int i = 0; i < {}; ++i)", launch_.width);
      out_.line("        if (c + i < columns && groups.counts_{}[{} + i] == 0) v[i] = 0;", out_.dim(contracted.grouped),
                stored.at(column_axis_));
    }
  }

  void scales() {
    if (launch_.warps) out_.line("        largest[0] = pointwise::largest_of_warp(largest[0]);");
    out_.line("#pragma unroll");
    out_.line("        for (int i = 0; i < {}; ++i) scale[i] = Format::scale(largest[i], setup);", own_scales_);
    const bool tiled = type_.layout == ir::ScaleLayout::blocked_128x4;
    std::string condition = launch_.warps ? "pointwise::lane_index() == 0" : "";
    if (tiled) condition += tiles() ? fmt::format("{}in_tiles", condition.empty() ? "" : " && ") : "";
    if (!condition.empty()) out_.line("        if ({}) {{", condition);
    out_.line("#pragma unroll");
    out_.line("        for (int i = 0; i < {}; ++i) {{", own_scales_);
    const std::string lane = own_scales_ > 1 ? "i" : "";
    const std::string first = lane.empty() ? fmt::format("s{}", column_axis_) : fmt::format("(s{} + i)", column_axis_);
    const std::string row = fmt::format("s{}", row_axis_);
    const std::string index =
        tiled ? scales_.index(in_group(row_axis_, ""), in_group(column_axis_, lane)) : scales_.index(row, first);
    // A gap has no scale.
    out_.line("          const u32 code = rows > 0 && columns > {} ? scale[i].code : 0;", own_scales_ > 1 ? "i" : "0");
    out_.line("          pointwise::store_scale<Format::ScaleCode>({}, {}, code);", scales_.base(), index);
    if (type_.layout == ir::ScaleLayout::columns_tma && !in_groups(row_axis_)) {
      const std::string last = fmt::format("(p.size_{} - 1) / {}", row_axis_, launch_.block_rows);
      const std::string own = ScaleText::divided(row, launch_.block_rows);
      out_.line("          if ({} == {})", own, last);
      out_.line("            for (int y = {} + 1; y < p.stride{}_scales; ++y)", own, row_axis_);
      out_.line("              pointwise::store_scale<Format::ScaleCode>({}, {} + (y - {}), 0);", scales_.base(), index,
                own);
    }
    out_.line("        }}");
    if (!condition.empty()) out_.line("        }}");
  }

  // Declares the tile that the group's scales (or the matrix's) start with, and how many lie side by side. True where
  // sizes that no buffer can hold may lead out of it.
  bool tiles() {
    const int tiled = launch_.tiled_axis;
    if (tiled < 0) {
      out_.line("        const i64 scale_tile = {};", scales_.tile("0"));
      out_.line("        const int scale_tiles = p.tiles_inner;");
      return false;
    }
    const lowering::PointwiseAxis& axis = out_.axis(tiled);
    const std::string group = fmt::format("g{}", tiled), place = out_.dim(axis.place);
    out_.line("        const int first_tile = groups.tiles_{}[{}];", place, group);
    out_.line("        const i64 scale_tile = {};", scales_.tile("static_cast<i64>(first_tile) * p.tiles_inner"));
    const bool along = tiled == ir::along_axis(type_, launch_.kept);
    if (along) {
      out_.line("        const int scale_tiles = {};", tiles_of_group(out_, group));
      out_.line("        const bool in_tiles = first_tile + scale_tiles <= p.tiles_outer;");
    } else {
      out_.line("        const int scale_tiles = p.tiles_inner;");
      out_.line("        const bool in_tiles = first_tile + row{}.row / {} < p.tiles_outer;", tiled,
                unit_of_tiles(out_));
    }
    return true;
  }

  void codes() {
    const int width = launch_.width;
    const std::string scale = own_scales_ > 1 ? "scale[i]" : "scale[0]";
    const bool random = !type_.seed_input.empty();
    if (random) {
      out_.line("      u32 random[{}];", width);
      out_.line("      pointwise::random_bits(source, {}, {}, matrix, random);",
                rows_ > 1 ? in_group(row_axis_, "r") : in_group(row_axis_, ""), in_group(column_axis_, "c"));
    }
    out_.line("      u32 codes[{}];", width);
    out_.line("#pragma unroll");
    out_.line("      for (int i = 0; i < {}; ++i)", width);
    out_.line(
        "        codes[i] = r < rows && c + i < columns ? formats::narrow{}<Format::Element>(Format::scaled(v[i], "
        "{}){}) : 0;",
        random ? "_stochastic" : "", scale, random ? ", random[i]" : "");
    const SpelledPlace at = out_.out_place(parenthesised(moved("s")));
    out_.line("      pointwise::store_codes<Format::Element>({}, {}, codes);", at.base, at.index);
  }
  static LaunchText::Moved parenthesised(LaunchText::Moved moved) {
    for (auto& [axis, place] : moved) place = "(" + place + ")";
    return moved;
  }

  LaunchText& out_;
  const PointwiseLaunch& launch_;
  const ir::TensorType& type_;
  const ScaleText scales_;
  const int row_axis_, column_axis_;
  const int rows_, columns_;  // of an item
  const int own_scales_;      // blocks that lie side by side in an item
};

}  // namespace

void spell_blocks(LaunchText& out) { Speller(out).run(); }

void spell_clear(LaunchText& out) {
  const ScaleText scales(out);
  const int tiled = out.launch.tiled_axis;
  out.line("    const int tile = static_cast<int>(rest);");
  if (tiled >= 0) {
    // Tiles behind those of the last group are nobody's.
    const std::string last = std::to_string(out.groups_of(out.axis(tiled).grouped) - 1);
    out.line("    const int end = groups.tiles_{}[{}] + {};", out.dim(out.axis(tiled).place), last,
             tiles_of_group(out, last));
    out.line("    if (tile >= end * p.tiles_inner) continue;");
  }
  out.line("    pointwise::clear_scale_tile({}, {});", scales.base(), scales.tile("tile"));
}

}  // namespace epifuse::codegen
