#include "compiler/codegen/emit_pointwise.h"

#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/codegen/pointwise/value.h"
#include "compiler/lowering/pointwise/formats.h"

namespace epifuse::codegen {
namespace {

using lowering::PointwiseAxis;
using lowering::PointwiseKind;
using lowering::PointwiseLaunch;
using lowering::PointwiseTable;

class LaunchEmitter {
 public:
  LaunchEmitter(const ir::Graph& graph, const PointwiseLaunch& launch, const RecipeStep& step, std::string suffix)
      : graph_(graph),
        launch_(launch),
        step_(step),
        output_(graph.outputs[static_cast<size_t>(launch.output)]),
        suffix_(std::move(suffix)) {}

  std::string run() {
    parameters();
    if (!launch_.tables.empty()) groups_struct();
    const bool has_value = launch_.kind != PointwiseKind::finish && launch_.kind != PointwiseKind::ends;
    if (has_value)
      text_ += fmt::format("struct Value{} {{\n{}}};\n\n", suffix_, spell_pointwise_value(graph_, launch_, suffix_));
    // Eight sums need registers: two blocks at least leave room for them, and without a bound the compiler spills.
    line("extern \"C\" __global__ void __launch_bounds__({}{}) {}(const __grid_constant__ Parameters{} p) {{",
         lowering::pointwise_threads, launch_.kind == PointwiseKind::reduce && keeps_lanes() ? ", 2" : "",
         launch_.entry, suffix_);
    if (!launch_.tables.empty()) lay_out();
    const std::string_view warps = launch_.warps ? "true" : "false";
    line("  for (i64 item = pointwise::first_item<{0}>(); item < p.items; item += pointwise::item_stride<{0}>()) {{",
         warps);
    walk();
    switch (launch_.kind) {
      case PointwiseKind::elements: elements(); break;
      case PointwiseKind::blocks: blocks(); break;
      case PointwiseKind::reduce: reduce(); break;
      case PointwiseKind::finish: finish(); break;
      case PointwiseKind::ends: ends(); break;
    }
    line("  }}\n}}");
    return text_;
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    text_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  const std::string& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)].name; }
  const PointwiseAxis& axis(int i) const { return launch_.axes[static_cast<size_t>(i)]; }
  std::string tag() const { return std::string(storage_name(output_.tensor.type.storage())); }
  bool partial() const { return launch_.kind == PointwiseKind::reduce && launch_.chunk > 0; }
  int64_t groups_of(ir::DimId grouped) const {
    for (const PointwiseTable& table : launch_.tables)
      if (table.grouped == grouped) return table.groups;
    EPIFUSE_ENSURE(false, "groups that no table has");
  }

  void parameters() {
    line("struct Parameters{} {{", suffix_);
    for (const ParameterField& field : step_.fields) {
      switch (field.kind) {
        case FieldKind::address: {
          const bool written = field.name == "out" || field.name == "scales" || (field.name == "partials" && partial());
          line("  {}void* {};", written ? "" : "const ", field.name);
          break;
        }
        case FieldKind::integer64: line("  i64 {};", field.name); break;
        case FieldKind::integer32: line("  int {};", field.name); break;
        case FieldKind::param: line("  float {};", field.name); break;
        case FieldKind::tensor_map: EPIFUSE_ENSURE(false, "a pointwise launch has no tensor maps");
      }
    }
    line("}};\n");
  }

  // "starts_P", or "partials_M".
  std::string starts(const PointwiseTable& table, const PointwiseTable::Place& place) const {
    return place.dim < 0 ? "partials_" + dim(table.grouped) : "starts_" + dim(place.dim);
  }

  void groups_struct() {
    line("struct Groups{} {{", suffix_);
    for (const PointwiseTable& table : launch_.tables) {
      line("  int* counts_{};", dim(table.grouped));
      for (const PointwiseTable::Place& place : table.places) line("  int* {};", starts(table, place));
    }
    line("}};\n");
  }

  void lay_out() {
    std::string members;
    for (const PointwiseTable& table : launch_.tables) {
      members += fmt::format("{}shared_words + {}", members.empty() ? "" : ", ", table.counts);
      for (const PointwiseTable::Place& place : table.places)
        members += fmt::format(", shared_words + {}", place.starts);
    }
    line("  extern __shared__ int shared_words[];");
    line("  const Groups{} groups{{{}}};", suffix_, members);
    for (const PointwiseTable& table : launch_.tables) {
      const ir::Dimension& grouped = graph_.dims[static_cast<size_t>(table.grouped)];
      line(
          "  pointwise::lay_out_groups<{0}, {1}>(p.sizes_{2}, {3}, p.capacity_{2}, {4}, groups.counts_{2}, "
          "groups.starts_{2});",
          grouped.sizes_storage == Storage::i64 ? "i64" : "int",
          grouped.sizes == ir::GroupSizes::counts ? "true" : "false", grouped.name, table.groups, grouped.align);
      for (size_t i = 1; i < table.places.size(); ++i)
        line("  pointwise::lay_out_place(groups.counts_{}, {}, {}, groups.{});", grouped.name, table.groups,
             table.places[i].alignment, starts(table, table.places[i]));
    }
    line("  __syncthreads();");
  }

  // From the number of an item to the places s0, s1, … along the kept axes, the rows that lie there, and the places a0,
  // a1, … (and groups) that the value is over.
  void walk() {
    if (launch_.kept > 0 || partial()) line("    i64 rest = item;");
    for (size_t i = 0; i < launch_.order.size(); ++i) {
      const int a = launch_.order[i];
      const bool last = i + 1 == launch_.order.size() && !partial();
      const bool items = a == launch_.item_axis && launch_.item_size > 1;
      const std::string size = items ? fmt::format("(p.size_{} + {}) / {}", a, launch_.item_size - 1, launch_.item_size)
                                     : fmt::format("p.size_{}", a);
      const std::string place = last ? "static_cast<int>(rest)" : fmt::format("pointwise::take(rest, {})", size);
      line("    const int s{} = {}{};", a, items ? fmt::format("{} * ", launch_.item_size) : "", place);
    }
    for (int i = 0; i < launch_.kept; ++i) {
      if (axis(i).place < 0) {
        if (launch_.kind != PointwiseKind::finish && launch_.kind != PointwiseKind::ends)
          line("    const int a{0} = s{0};", i);
        continue;
      }
      line("    const pointwise::Row row{0} = pointwise::row_at(groups.starts_{1}, groups.counts_{2}, {3}, {4}, s{0});",
           i, dim(axis(i).place), dim(axis(i).grouped), groups_of(axis(i).grouped), axis(i).alignment);
      line("    if (row{}.outside()) continue;", i);
      if (launch_.kind == PointwiseKind::finish) continue;
      line("    const int g{0} = row{0}.group, a{0} = groups.starts_{1}[g{0}] + row{0}.row;", i, dim(axis(i).grouped));
    }
  }

  // Whether the rows along the kept axes exist; empty where they always do. Not of the axis that blocks run along.
  std::string exists(int without = -1) const {
    std::string text;
    for (int i = 0; i < launch_.kept; ++i)
      if (axis(i).place >= 0 && i != without)
        text += fmt::format("{0}row{1}.row < row{1}.count", text.empty() ? "" : " && ", i);
    return text;
  }

  // A call of the value; `moved` is the axis whose place is `place`.
  std::string call(const std::string& lanes, int moved = -1, const std::string& place = "") const {
    std::string text = fmt::format("Value{}::value(p", suffix_);
    if (!launch_.tables.empty()) text += ", groups";
    for (int i = 0; i < static_cast<int>(launch_.axes.size()); ++i) {
      text += i == moved ? ", " + place : fmt::format(", a{}", i);
      if (axis(i).grouped >= 0) text += fmt::format(", g{}", i);
    }
    if (counts_lanes(launch_)) text += ", " + lanes;
    return text + ", v)";
  }

  SpelledPlace out_place(int moved = -1, const std::string& place = "") const {
    std::vector<std::string> places;
    for (int i = 0; i < launch_.kept; ++i) places.push_back(i == moved ? place : fmt::format("s{}", i));
    return spell_place(output_.tensor, "out", places);
  }

  void elements() {
    const std::string there = exists();
    const int width = launch_.width;
    line("    float v[{}] = {{}};", width);
    const std::string rows = fmt::format("row{0}.count - row{0}.row", launch_.lane_axis);
    line("    {}{};", there.empty() ? "" : fmt::format("if ({}) ", there),
         call(fmt::format("min({}, {})", width, rows)));
    const SpelledPlace at = out_place();
    if (counts_lanes(launch_)) {
      line("#pragma unroll");
      line("    for (int i = 0; i < {}; ++i)", width);
      line("      if (i >= {}) v[i] = 0;", rows);
    }
    if (output_.accumulate) {
      std::string condition = exists(counts_lanes(launch_) ? launch_.lane_axis : -1);
      if (counts_lanes(launch_)) condition += fmt::format("{}i < {}", condition.empty() ? "" : " && ", rows);
      accumulate(at, condition);
    }
    if (width == 8)
      line("    pointwise::store_8<{}>({}, {}, v);", tag(), at.base, at.index);
    else
      line("    pointwise::store<{}>({}, {}, v[0]);", tag(), at.base, at.index);
  }

  // One pass over a block for its largest magnitude, one for its codes: the value is computed twice by the same
  // instructions, so that a block needs no registers for it.
  void blocks() {
    const int along = launch_.item_axis, width = launch_.width;
    const auto format = lowering::pointwise_format(output_.tensor.type);
    const std::string there = exists(along);
    const bool grouped = axis(along).place >= 0;
    line("    using Quantiser = pointwise::{};", format->quantiser);
    line("    const int size = min({}, p.size_{} - s{});", format->block, along, along);
    std::string rows = grouped ? fmt::format("min(size, row{0}.count - row{0}.row)", along) : "size";
    line("    const int rows = {};", there.empty() ? rows : fmt::format("{} ? {} : 0", there, rows));
    line("    u32 largest = 0, scale = 0;");
    line("    float inverse = 0;");
    line("    constexpr int steps = {};", format->block / width);
    line("#pragma unroll 1");
    line("    for (int step = 0; step < 2 * steps; ++step) {{");
    line("      const int first = (step < steps ? step : step - steps) * {};", width);
    line("      float v[{}] = {{}};", width);
    line("      if (first < rows) {};",
         call(fmt::format("min({}, rows - first)", width), along, fmt::format("a{} + first", along)));
    line("      if (step < steps) {{");
    line("#pragma unroll");
    line("        for (int i = 0; i < {}; ++i)", width);
    line("          if (first + i < rows) largest = max(largest, __float_as_uint(v[i]) & 0x7fffffffu);");
    line("        continue;");
    line("      }}");
    line("      if (step == steps) {{");
    line("        scale = Quantiser::scale(largest);");
    line("        inverse = Quantiser::inverse(scale);");
    line("        Quantiser::store_scale(p.scales, {}, scale);", scale_index(along, format->block));
    line("      }}");
    line("      if (first >= size) break;");
    const SpelledPlace at = out_place(along, fmt::format("(s{} + first{})", along, width == 8 ? "" : " + i"));
    const bool at_once = width == 8 && along + 1 == launch_.kept;
    line("      u32 codes[{}];", width);
    line("#pragma unroll");
    line("      for (int i = 0; i < {}; ++i) codes[i] = first + i < rows ? Quantiser::code(v[i], inverse) : 0;", width);
    if (at_once) {
      line("      pointwise::store_8_codes<Quantiser::Codes>({}, {}, codes);", at.base, at.index);
    } else {
      const SpelledPlace one = out_place(along, fmt::format("(s{} + first + i)", along));
      line("#pragma unroll");
      line("      for (int i = 0; i < {}; ++i)", width);
      line("        pointwise::store_code<Quantiser::Codes>({}, {}, codes[i]);", one.base, one.index);
    }
    line("    }}");
  }

  std::string scale_index(int along, int block) const {
    std::string text;
    for (int i = 0; i < launch_.kept; ++i) {
      const std::string place = i == along ? fmt::format("s{} / {}", i, block) : fmt::format("s{}", i);
      text += i + 1 == launch_.kept ? place : fmt::format("{} * p.stride{}_scales + ", place, i);
    }
    return text;
  }

  std::string_view reducer() const {
    if (launch_.reduction == ir::Reduction::amax) return "Amax";
    return keeps_lanes() ? "ShortSum" : "Sum";
  }

  void reduce() {
    const std::string there = exists();
    if (partial()) {
      if (!there.empty()) line("    if (!({})) continue;", there);
      rows_of_partial();
    }
    line("    pointwise::{} total{};", reducer(), keeps_lanes() ? "[8]" : "");
    const bool guarded = !partial() && !there.empty();
    if (guarded) line("    if ({}) {{", there);
    if (launch_.warps)
      reduce_by_warp();
    else
      reduce_by_thread();
    if (guarded) line("    }}");
    if (keeps_lanes()) return store_lanes(there);
    line("    const float sum = total.{}result();", launch_.warps ? "warp_" : "");
    if (launch_.warps) line("    if (pointwise::lane_index() != 0) continue;");
    if (partial())
      line("    static_cast<float*>(p.partials)[item] = sum;");
    else
      store_reduced(there);
  }

  // Whether an item is eight neighbours with a total each.
  bool keeps_lanes() const { return launch_.item_size > 1; }

  void store_lanes(const std::string& there) {
    line("    float v[8];");
    line("#pragma unroll");
    line("    for (int i = 0; i < 8; ++i) v[i] = total[i].result();");
    if (partial()) {
      line("    pointwise::store_8<f32>(p.partials, item * 8, v);");
    } else {
      const SpelledPlace at = out_place();
      if (output_.accumulate) accumulate(at, there);
      line("    pointwise::store_8<{}>({}, {}, v);", tag(), at.base, at.index);
    }
  }

  // Adds what the buffer held to v, where the rows exist: a gap is zero.
  void accumulate(const SpelledPlace& at, const std::string& there) {
    const int width = launch_.width;
    line("    float held[{}];", width);
    if (width == 8)
      line("    pointwise::load_8<{}, false>({}, {}, held);", tag(), at.base, at.index);
    else
      line("    held[0] = pointwise::load_output<{}>({}, {});", tag(), at.base, at.index);
    line("#pragma unroll");
    line("    for (int i = 0; i < {}; ++i)", width);
    line("      {}v[i] += held[i];", there.empty() ? "" : fmt::format("if ({}) ", there));
  }

  // The rows, or places, of the split axis that a partial has: `terms` from `begin` on.
  void rows_of_partial() {
    const int k = launch_.split_axis;
    line("    const int partial = static_cast<int>(rest);");
    if (axis(k).grouped < 0) {
      line("    const int begin = partial * {0}, terms = min({0}, p.split_size - begin);", launch_.chunk);
      return;
    }
    const std::string& grouped = dim(axis(k).grouped);
    line(
        "    const pointwise::Row rows = pointwise::row_at(groups.partials_{0}, groups.counts_{0}, {1}, {2}, partial * "
        "{2});",
        grouped, groups_of(axis(k).grouped), launch_.chunk);
    line("    if (rows.row >= rows.count) continue;");
    line("    const int g{} = rows.group, begin = groups.starts_{}[rows.group] + rows.row;", k, grouped);
    line("    const int terms = min({}, rows.count - rows.row);", launch_.chunk);
  }

  bool is_split(int i) const { return partial() && i == launch_.split_axis; }
  std::string size_of(int i) const { return is_split(i) ? "terms" : fmt::format("p.size_{}", i); }

  void add_terms(const std::string& indent) {
    line("{}float v[{}];", indent, launch_.width);
    line("{}{};", indent, call(""));
    if (launch_.width == 1) {
      line("{}total.add(v[0]);", indent);
      return;
    }
    line("#pragma unroll");
    line("{}for (int i = 0; i < {}; ++i) total{}.add(v[i]);", indent, launch_.width, keeps_lanes() ? "[i]" : "");
  }

  void reduce_by_thread() {
    std::string indent = "    ";
    for (int i = launch_.kept; i < static_cast<int>(launch_.axes.size()); ++i) {
      line("{0}for (int i{1} = 0; i{1} < {2}; ++i{1}) {{", indent, i, size_of(i));
      indent += "  ";
      line("{0}const int a{1} = {2}i{1};", indent, i, is_split(i) ? "begin + " : "");
    }
    add_terms(indent);
    while (indent.size() > 4) {
      indent.resize(indent.size() - 2);
      line("{}}}", indent);
    }
  }

  void reduce_by_warp() {
    const int end = static_cast<int>(launch_.axes.size());
    std::string all = "1";
    for (int i = launch_.kept; i < end; ++i) {
      const std::string size =
          i == launch_.lane_axis ? fmt::format("({} / {})", size_of(i), launch_.width) : size_of(i);
      all = i == launch_.kept ? fmt::format("static_cast<i64>({})", size) : fmt::format("{} * {}", all, size);
    }
    line("    const i64 all = {};", all);
    line("    for (i64 term = pointwise::lane_index(); term < all; term += pointwise::warp_size) {{");
    line("      i64 left = term;");
    for (int i = end; i-- > launch_.kept;) {
      const bool lanes = i == launch_.lane_axis;
      const std::string size = lanes ? fmt::format("{} / {}", size_of(i), launch_.width) : size_of(i);
      const std::string place =
          i == launch_.kept ? "static_cast<int>(left)" : fmt::format("pointwise::take(left, {})", size);
      line("      const int a{} = {}{}{};", i, is_split(i) ? "begin + " : "",
           lanes ? fmt::format("{} * ", launch_.width) : "", place);
    }
    add_terms("      ");
    line("    }}");
  }

  void finish() {
    const std::string there = exists();
    const int g = launch_.group_axis;
    const int64_t chunk = launch_.chunk;
    if (launch_.split.grouped < 0) {
      line("    const int first = 0, partials = p.partials_of;");
    } else {
      const std::string& grouped = dim(launch_.split.grouped);
      const std::string last = g < 0 ? std::to_string(groups_of(launch_.split.grouped) - 1) : fmt::format("s{}", g);
      if (g >= 0)
        line("    const int first = groups.partials_{}[s{}] / {}, partials = (groups.counts_{}[s{}] + {}) / {};",
             grouped, g, chunk, grouped, g, chunk - 1, chunk);
      else
        line("    const int first = 0, partials = (groups.partials_{0}[{1}] + groups.counts_{0}[{1}] + {2}) / {3};",
             grouped, last, chunk - 1, chunk);
      // An empty group leaves the buffer alone.
      if (output_.accumulate && g >= 0) line("    if (partials == 0) continue;");
    }
    std::string kept = "0", elements = "1";
    for (int i = 0; i < launch_.kept; ++i) {
      if (i == g) continue;
      kept = kept == "0" ? fmt::format("static_cast<i64>(s{})", i) : fmt::format("({}) * p.size_{} + s{}", kept, i, i);
      elements =
          elements == "1" ? fmt::format("static_cast<i64>(p.size_{})", i) : fmt::format("{} * p.size_{}", elements, i);
    }
    line("    const i64 kept = {}, elements = {};", kept, elements);
    line("    pointwise::{} total;", reducer());
    line("    {}for (int i = {}; i < partials; i += {})", there.empty() ? "" : fmt::format("if ({}) ", there),
         launch_.warps ? "pointwise::lane_index()" : "0", launch_.warps ? "pointwise::warp_size" : "1");
    line("      total.add(pointwise::load<f32>(p.partials, (first + i) * elements + kept));");
    line("    const float sum = total.{}result();", launch_.warps ? "warp_" : "");
    if (launch_.warps) line("    if (pointwise::lane_index() != 0) continue;");
    store_reduced(there);
  }

  void store_reduced(const std::string& there) {
    const SpelledPlace at = out_place();
    if (!output_.accumulate) {
      line("    pointwise::store<{}>({}, {}, sum);", tag(), at.base, at.index);
      return;
    }
    if (there.empty()) {
      line("    pointwise::accumulate<{}>({}, {}, sum);", tag(), at.base, at.index);
      return;
    }
    line("    if ({})", there);
    line("      pointwise::accumulate<{}>({}, {}, sum);", tag(), at.base, at.index);
    line("    else");
    line("      pointwise::store<{}>({}, {}, 0.f);", tag(), at.base, at.index);
  }

  void ends() {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(output_.value)];
    const ir::Dimension& d = graph_.dims[static_cast<size_t>(node.dim)];
    const bool aligned = d.kind == ir::DimKind::aligned;
    const std::string& grouped = aligned ? dim(d.base) : d.name;
    if (aligned)
      line("    const i64 end = groups.starts_{}[s0] + pointwise::round_up(groups.counts_{}[s0], {});", d.name, grouped,
           d.align);
    else
      line(
          "    const i64 end = min(pointwise::round_up(groups.starts_{0}[s0] + groups.counts_{0}[s0], {1}), "
          "static_cast<i64>(p.capacity_{0}));",
          grouped, d.align);
    const bool narrow = output_.tensor.type.storage() == Storage::i32;
    line("    static_cast<{0}*>(p.out)[s0] = static_cast<{0}>(end);", narrow ? "int" : "i64");
  }

  const ir::Graph& graph_;
  const PointwiseLaunch& launch_;
  const RecipeStep& step_;
  const ir::Output& output_;
  const std::string suffix_;
  std::string text_;
};

}  // namespace

std::string emit_pointwise(const ir::Graph& graph, const lowering::KernelPlan& plan) {
  EPIFUSE_ENSURE(plan.pointwise.size() == plan.recipe.steps.size(), "a step for each launch");
  std::string text = fmt::format("// Kernel {} for {}, generated by Epifuse.\n", plan.kernel, plan.target.name);
  text += "#include \"kernels/pointwise.cuh\"\n\nusing namespace epifuse;\n\n";
  for (size_t i = 0; i < plan.pointwise.size(); ++i) {
    const std::string suffix = plan.pointwise.size() == 1 ? "" : std::to_string(i);
    if (i > 0) text += "\n";
    text += LaunchEmitter(graph, plan.pointwise[i], plan.recipe.steps[i], suffix).run();
  }
  return text;
}

}  // namespace epifuse::codegen
