#include "compiler/codegen/pointwise/launch_text.h"

#include "base/ensure.h"

namespace epifuse::codegen {

using lowering::PointwiseKind;
using lowering::PointwiseLaunch;
using lowering::PointwiseTable;

namespace {

bool has_value(const PointwiseLaunch& launch) {
  return launch.kind != PointwiseKind::finish && launch.kind != PointwiseKind::ends &&
         launch.kind != PointwiseKind::clear;
}

}  // namespace

std::string place_name(const ir::Graph& graph, const PointwiseTable& table, const PointwiseTable::Place& place) {
  const auto name = [&](ir::DimId dim) { return graph.dims[static_cast<size_t>(dim)].name; };
  if (place.unit != 0) return "tiles_" + name(place.dim);
  return place.dim < 0 ? "partials_" + name(table.grouped) : "starts_" + name(place.dim);
}

void LaunchText::begin() {
  parameters();
  if (!launch.tables.empty()) groups_struct();
  if (has_value(launch))
    text_ += fmt::format("struct Value{} {{\n{}}};\n\n", suffix_, spell_pointwise_value(graph, launch, suffix_));
  // Eight sums need registers: two blocks at least leave room for them, and without a bound the compiler spills.
  const bool eight_sums =
      launch.kind == PointwiseKind::reduce && launch.lane_axis >= 0 && launch.lane_axis < launch.kept;
  line("extern \"C\" __global__ void __launch_bounds__({}{}) {}(const __grid_constant__ Parameters{} p) {{",
       lowering::pointwise_threads, eight_sums ? ", 2" : "", launch.entry, suffix_);
  line("  ptx::wait_for_launches_before();");
  if (!launch.tables.empty()) lay_out();
  line("  for (i64 item = pointwise::first_item<{0}>(); item < p.items; item += pointwise::item_stride<{0}>()) {{",
       launch.warps ? "true" : "false");
  walk();
}

int64_t LaunchText::groups_of(ir::DimId grouped) const {
  for (const PointwiseTable& table : launch.tables)
    if (table.grouped == grouped) return table.groups;
  EPIFUSE_ENSURE(false, "groups that no table has");
}

void LaunchText::parameters() {
  line("struct Parameters{} {{", suffix_);
  for (const ParameterField& field : step_.fields) {
    switch (field.kind) {
      case FieldKind::address: {
        const bool written =
            field.name == "out" || field.name == "scales" || (field.name == "partials" && launch.is_partial());
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

void LaunchText::groups_struct() {
  line("struct Groups{} {{", suffix_);
  for (const PointwiseTable& table : launch.tables) {
    line("  int* counts_{};", dim(table.grouped));
    for (const PointwiseTable::Place& place : table.places) line("  int* {};", place_name(graph, table, place));
  }
  line("}};\n");
}

void LaunchText::lay_out() {
  std::string members;
  for (const PointwiseTable& table : launch.tables) {
    members += fmt::format("{}shared_words + {}", members.empty() ? "" : ", ", table.counts);
    for (const PointwiseTable::Place& place : table.places) members += fmt::format(", shared_words + {}", place.starts);
  }
  line("  extern __shared__ int shared_words[];");
  line("  const Groups{} groups{{{}}};", suffix_, members);
  for (const PointwiseTable& table : launch.tables) {
    const ir::Dimension& grouped = graph.dims[static_cast<size_t>(table.grouped)];
    line(
        "  pointwise::lay_out_{0}<{1}, {2}>(p.sizes_{3}, {4}, p.capacity_{3}, {5}, groups.counts_{3}, "
        "groups.starts_{3});",
        grouped.slot ? "slots" : "groups", grouped.sizes_storage == Storage::i64 ? "i64" : "int",
        grouped.sizes == ir::GroupSizes::counts ? "true" : "false", grouped.name, table.groups,
        grouped.slot ? "p.slot_" + grouped.name : std::to_string(grouped.align));
    for (size_t i = 1; i < table.places.size(); ++i) {
      const PointwiseTable::Place& place = table.places[i];
      const std::string name = place_name(graph, table, place);
      if (place.unit == 0)
        line("  pointwise::lay_out_place(groups.counts_{}, {}, {}, groups.{});", grouped.name, table.groups,
             place.alignment, name);
      else
        line("  pointwise::lay_out_tiles(groups.counts_{}, groups.starts_{}, {}, {}, p.size_{}, {}, groups.{});",
             grouped.name, dim(place.dim), table.groups, place.alignment, launch.tiled_axis, place.unit, name);
    }
  }
  line("  __syncthreads();");
}

// From the number of an item to the places s0, s1, … along the kept axes, the rows that lie there, and the places a0,
// a1, … (and groups) that the value is over.
void LaunchText::walk() {
  const bool more = launch.is_partial() || launch.kind == PointwiseKind::clear;
  if (launch.kept > 0 || more) line("    i64 rest = item;");
  for (size_t i = 0; i < launch.order.size(); ++i) {
    const int a = launch.order[i];
    const bool last = i + 1 == launch.order.size() && !more;
    const int step = axis(a).step;
    const std::string size =
        step > 1 ? fmt::format("(p.size_{} + {}) / {}", a, step - 1, step) : fmt::format("p.size_{}", a);
    const std::string place = last ? "static_cast<int>(rest)" : fmt::format("pointwise::take(rest, {})", size);
    line("    const int s{} = {}{};", a, step > 1 ? fmt::format("{} * ", step) : "", place);
  }
  for (int i = 0; i < launch.kept; ++i) {
    if (axis(i).place < 0) {
      if (has_value(launch)) line("    const int a{0} = s{0};", i);
      continue;
    }
    line("    const pointwise::Row row{0} = pointwise::row_at(groups.starts_{1}, groups.counts_{2}, {3}, {4}, s{0});",
         i, dim(axis(i).place), dim(axis(i).grouped), groups_of(axis(i).grouped), axis(i).alignment);
    line("    if (row{}.outside()) continue;", i);
    if (!has_value(launch)) continue;
    line("    const int g{0} = row{0}.group, a{0} = groups.starts_{1}[g{0}] + row{0}.row;", i, dim(axis(i).grouped));
  }
  if (!launch.contracted.empty() && output().accumulate) line("    if (!({})) continue;", has_terms());
}

std::string LaunchText::exists(int end) const {
  std::string text;
  for (int i = 0; i < end; ++i)
    if (axis(i).place >= 0) text += fmt::format("{0}row{1}.row < row{1}.count", text.empty() ? "" : " && ", i);
  return text;
}

std::string LaunchText::exists() const {
  std::string text = exists(launch.kept);
  // What adds to an element has passed by the others.
  if (launch.contracted.empty() || output().accumulate) return text;
  return text + (text.empty() ? "" : " && ") + has_terms();
}

std::string LaunchText::has_terms(const Moved& moved, int without) const {
  std::string text;
  for (const lowering::PointwiseContracted& contracted : launch.contracted) {
    if (contracted.axis == without) continue;
    const auto place = moved.find(contracted.axis);
    text += fmt::format("{}groups.counts_{}[{}] != 0", text.empty() ? "" : " && ", dim(contracted.grouped),
                        place != moved.end() ? place->second : fmt::format("s{}", contracted.axis));
  }
  return text;
}

std::string LaunchText::call(const std::string& lanes, const Moved& moved) const {
  std::string text = fmt::format("Value{}::value(p", suffix_);
  if (!launch.tables.empty()) text += ", groups";
  for (int i = 0; i < static_cast<int>(launch.axes.size()); ++i) {
    const auto place = moved.find(i);
    text += place != moved.end() ? ", " + place->second : fmt::format(", a{}", i);
    if (axis(i).grouped >= 0) text += fmt::format(", g{}", i);
  }
  if (counts_lanes(launch)) text += ", " + lanes;
  return text + ", v)";
}

SpelledPlace LaunchText::out_place(const Moved& moved) const {
  std::vector<std::string> places;
  for (int i = 0; i < launch.kept; ++i) {
    const auto place = moved.find(i);
    places.push_back(place != moved.end() ? place->second : fmt::format("s{}", i));
  }
  return spell_place(output().tensor, "out", places);
}

void LaunchText::rows_of_partial() {
  const int k = launch.split_axis;
  line("    const int partial = static_cast<int>(rest);");
  if (axis(k).grouped < 0) {
    line("    const int begin = partial * {0}, terms = min({0}, p.split_size - begin);", launch.chunk);
    return;
  }
  const std::string& grouped = dim(axis(k).grouped);
  line(
      "    const pointwise::Row rows = pointwise::row_at(groups.partials_{0}, groups.counts_{0}, {1}, {2}, partial * "
      "{2});",
      grouped, groups_of(axis(k).grouped), launch.chunk);
  line("    if (rows.row >= rows.count) continue;");
  line("    const int g{} = rows.group, begin = groups.starts_{}[rows.group] + rows.row;", k, grouped);
  line("    const int terms = min({}, rows.count - rows.row);", launch.chunk);
}

void LaunchText::accumulate(const SpelledPlace& at, const std::string& condition) {
  const int width = launch.width;
  line("    float held[{}];", width);
  if (width == 8)
    line("    pointwise::load_8<{}, false>({}, {}, held);", tag(), at.base, at.index);
  else
    line("    held[0] = pointwise::load_output<{}>({}, {});", tag(), at.base, at.index);
  line("#pragma unroll");
  line("    for (int i = 0; i < {}; ++i)", width);
  line("      {}v[i] += held[i];", condition.empty() ? "" : fmt::format("if ({}) ", condition));
}

}  // namespace epifuse::codegen
