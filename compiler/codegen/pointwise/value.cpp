#include "compiler/codegen/pointwise/value.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/ensure.h"
#include "compiler/codegen/expression.h"

namespace epifuse::codegen {
namespace {

using lowering::PointwiseCoordinate;
using lowering::PointwiseLaunch;
using lowering::PointwiseNode;
using lowering::PointwiseTable;

class ValueSpeller {
 public:
  ValueSpeller(const ir::Graph& graph, const PointwiseLaunch& launch, std::string suffix)
      : graph_(graph), launch_(launch), suffix_(std::move(suffix)) {}

  std::string run() {
    head();
    uniform_part();
    const std::string result = node_name(static_cast<int>(launch_.value.nodes.size()) - 1);
    if (launch_.width == 1) {
      line("    v[0] = {};", result);
    } else {
      line("#pragma unroll");
      line("    for (int i = 0; i < {}; ++i) {{", launch_.width);
      line("      const int lane = {};", counts_lanes(launch_) ? "min(i, lanes - 1)" : "i");
      varying_part();
      line("      v[i] = {};", result);
      line("    }}");
    }
    line("  }}");
    return text_;
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    text_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  const PointwiseCoordinate& coordinate(int id) const { return launch_.value.coordinates[static_cast<size_t>(id)]; }
  const PointwiseNode& node(int id) const { return launch_.value.nodes[static_cast<size_t>(id)]; }
  const ir::Tensor& input(ir::InputId id) const { return graph_.inputs[static_cast<size_t>(id)].tensor; }
  const std::string& dim(ir::DimId id) const { return graph_.dims[static_cast<size_t>(id)].name; }

  const PointwiseTable& table(ir::DimId grouped) const {
    for (const PointwiseTable& t : launch_.tables)
      if (t.grouped == grouped) return t;
    EPIFUSE_ENSURE(false, "groups that no table has");
  }

  void head() {
    std::string parameters = fmt::format("const Parameters{}& p", suffix_);
    if (!launch_.tables.empty()) parameters += fmt::format(", const Groups{}& groups", suffix_);
    for (size_t i = 0; i < launch_.axes.size(); ++i) {
      parameters += fmt::format(", int a{}", i);
      if (launch_.axes[i].grouped >= 0) parameters += fmt::format(", int g{}", i);
    }
    if (counts_lanes(launch_)) parameters += ", int lanes";
    line("  static EPIFUSE_DEVICE void value({}, float (&v)[{}]) {{", parameters, launch_.width);
  }

  // What is the same in all lanes, and eight neighbours that are read at once.
  void uniform_part() {
    const std::vector<PointwiseNode>& nodes = launch_.value.nodes;
    const bool reads_wide = std::any_of(nodes.begin(), nodes.end(), [](const PointwiseNode& n) { return n.wide; });
    for (size_t i = 0; i < launch_.value.coordinates.size(); ++i) {
      const PointwiseCoordinate& c = launch_.value.coordinates[i];
      if (!c.varies) line("    const int c{} = {};", i, spell(c, i, true));
      if (c.runs && reads_wide) line("    const int first{} = {};", i, spell(c, i, true));
    }
    for (size_t i = 0; i < launch_.value.nodes.size(); ++i) {
      const PointwiseNode& n = launch_.value.nodes[i];
      if (n.kind == PointwiseNode::Kind::number) continue;
      if (n.uniform) line("    const float u{} = {};", i, spell(n));
      if (n.wide) {
        const std::string tag = tag_of(n), guard = guard_of(n.address);
        const SpelledPlace place = place_of(n, true);
        line("    float w{}[8]{};", i, guard.empty() ? "" : " = {}");
        line("    {}pointwise::load_8<{}>({}, {}, w{});", guard.empty() ? "" : fmt::format("if ({}) ", guard), tag,
             place.base, place.index, i);
      }
    }
  }

  void varying_part() {
    for (size_t i = 0; i < launch_.value.coordinates.size(); ++i) {
      const PointwiseCoordinate& c = launch_.value.coordinates[i];
      if (c.varies) line("      const int c{} = {};", i, spell(c, i, false));
    }
    for (size_t i = 0; i < launch_.value.nodes.size(); ++i) {
      const PointwiseNode& n = launch_.value.nodes[i];
      if (!n.uniform && !n.wide) line("      const float u{} = {};", i, spell(n));
    }
  }

  // The coordinate's name, or that of its first lane.
  std::string name(int id, bool first) const {
    return first && coordinate(id).varies ? fmt::format("first{}", id) : fmt::format("c{}", id);
  }
  std::string node_name(int id) const {
    const PointwiseNode& n = node(id);
    if (n.kind == PointwiseNode::Kind::number) return spell_number(n.number);
    return n.wide ? fmt::format("w{}[i]", id) : fmt::format("u{}", id);
  }

  std::string spell(const PointwiseCoordinate& c, size_t id, bool first) const {
    using Kind = PointwiseCoordinate::Kind;
    const std::string from = c.from < 0 ? "" : name(c.from, first);
    switch (c.kind) {
      case Kind::axis: return fmt::format("a{}{}", c.axis, c.varies && !first ? " + lane" : "");
      case Kind::group: return fmt::format("g{}", c.axis);
      case Kind::group_of:
        return fmt::format("pointwise::group_at(groups.starts_{}, {}, {})", dim(c.dim), table(c.dim).groups, from);
      case Kind::aligned: {
        const std::string group = name(c.group, first);
        const ir::DimId base = graph_.dims[static_cast<size_t>(c.dim)].base;
        return fmt::format("groups.starts_{}[{}] + ({} - groups.starts_{}[{}])", dim(c.dim), group, from, dim(base),
                           group);
      }
      case Kind::split:
        if (c.piece == 0) return c.part == 0 ? from : fmt::format("p.half_{} + {}", id, from);
        return fmt::format("{0} / {1} * {2} + {3} + {0} % {1}", from, c.piece, 2 * c.piece, c.part * c.piece);
      case Kind::join:
        if (c.piece == 0) return fmt::format("{0} < p.half_{1} ? {0} : {0} - p.half_{1}", from, id);
        return fmt::format("{0} / {1} * {2} + {0} % {2}", from, 2 * c.piece, c.piece);
      case Kind::part:
        if (c.piece == 0) return fmt::format("{} < p.half_{} ? 0 : 1", from, id);
        return fmt::format("{} / {} % 2", from, c.piece);
      case Kind::gathered: {
        const SpelledPlace place = place_of(c.input, c.address, first);
        const bool narrow = input(c.input).type.storage() == Storage::i32;
        const std::string read = fmt::format("pointwise::load_index<{}>({}, {}, p.limit_{})", narrow ? "int" : "i64",
                                             place.base, place.index, id);
        const std::string guard = guard_of(c.address);
        return guard.empty() ? read : fmt::format("{} ? {} : -1", guard, read);
      }
      case Kind::clamped: return fmt::format("max({}, 0)", from);
    }
    EPIFUSE_ENSURE(false, "a coordinate of no kind");
  }

  SpelledPlace place_of(ir::InputId id, const std::vector<int>& address, bool first) const {
    std::vector<std::string> coordinates;
    for (const int at : address) coordinates.push_back(name(at, first));
    return spell_place(input(id), "in_" + input(id).name, coordinates);
  }

  // What a node reads: an input, or a rotation's result.
  SpelledPlace place_of(const PointwiseNode& n, bool first) const {
    if (n.kind == PointwiseNode::Kind::input) return place_of(n.index, n.address, first);
    std::vector<std::string> coordinates;
    for (const int at : n.address) coordinates.push_back(name(at, first));
    return spell_place(ir::Tensor{}, fmt::format("rotated_{}", n.index), coordinates);
  }
  std::string tag_of(const PointwiseNode& n) const {
    return std::string(
        storage_name(n.kind == PointwiseNode::Kind::input ? input(n.index).type.storage() : Storage::f32));
  }

  // Under a negative index nothing is read: the tensor may have no rows.
  std::string guard_of(const std::vector<int>& address) const {
    std::vector<int> guards;
    for (const int at : address)
      for (const int guard : coordinate(at).guards)
        if (std::find(guards.begin(), guards.end(), guard) == guards.end()) guards.push_back(guard);
    std::string text;
    for (const int guard : guards) text += fmt::format("{}c{} >= 0", text.empty() ? "" : " && ", guard);
    return text;
  }

  std::string spell(const PointwiseNode& n) const {
    using Kind = PointwiseNode::Kind;
    std::vector<std::string> arguments;
    for (const int argument : n.args) arguments.push_back(node_name(argument));
    switch (n.kind) {
      case Kind::number: return spell_number(n.number);
      case Kind::param: return "p.param_" + graph_.params[static_cast<size_t>(n.index)].name;
      case Kind::input:
      case Kind::rotated: {
        const SpelledPlace place = place_of(n, false);
        const std::string read = fmt::format("pointwise::load<{}>({}, {})", tag_of(n), place.base, place.index);
        const std::string guard = guard_of(n.address);
        return guard.empty() ? read : fmt::format("{} ? {} : 0.f", guard, read);
      }
      case Kind::masked: return fmt::format("c{} < 0 ? 0.f : {}", n.condition, arguments[0]);
      case Kind::choose: return fmt::format("c{} == 0 ? {} : {}", n.condition, arguments[0], arguments[1]);
      case Kind::map: break;
    }
    lowering::EpilogueNode map;
    map.kind = lowering::EpilogueNode::Kind::map;
    map.op = n.op;
    map.to = n.to;
    return spell_map(map, arguments);
  }

  const ir::Graph& graph_;
  const PointwiseLaunch& launch_;
  std::string suffix_, text_;
};

}  // namespace

bool counts_lanes(const PointwiseLaunch& launch) {
  return launch.width > 1 && launch.lane_axis >= 0 && launch.axes[static_cast<size_t>(launch.lane_axis)].grouped >= 0;
}

SpelledPlace spell_place(const ir::Tensor& tensor, const std::string& name,
                         const std::vector<std::string>& coordinates) {
  SpelledPlace place{"p." + name, ""};
  const size_t pointers = static_cast<size_t>(tensor.pointer_axes), rank = coordinates.size();
  if (pointers > 0) {
    EPIFUSE_ENSURE(pointers == 1, "one dimension selects a buffer");
    place.base = fmt::format("pointwise::buffer_at(p.{}, {})", name, coordinates[0]);
  }
  for (size_t i = pointers; i + 1 < rank; ++i)
    place.index += fmt::format("{} * p.stride{}_{} + ", coordinates[i], i, name);
  place.index += rank == 0 ? "0" : coordinates[rank - 1];
  return place;
}

std::string spell_pointwise_value(const ir::Graph& graph, const PointwiseLaunch& launch, const std::string& suffix) {
  return ValueSpeller(graph, launch, suffix).run();
}

}  // namespace epifuse::codegen
