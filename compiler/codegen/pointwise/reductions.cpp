#include "compiler/codegen/pointwise/reductions.h"

namespace epifuse::codegen {
namespace {

using lowering::PointwiseLaunch;

class Speller {
 public:
  explicit Speller(LaunchText& out) : out_(out), launch_(out.launch) {}

  void reduce() {
    const std::string there = out_.exists();
    if (launch_.is_partial()) {
      if (!there.empty()) out_.line("    if (!({})) continue;", there);
      out_.rows_of_partial();
    }
    out_.line("    pointwise::{} total{};", reducer(), keeps_lanes() ? "[8]" : "");
    const bool guarded = !launch_.is_partial() && !there.empty();
    if (guarded) out_.line("    if ({}) {{", there);
    if (launch_.warps)
      reduce_by_warp();
    else
      reduce_by_thread();
    if (guarded) out_.line("    }}");
    if (keeps_lanes()) return store_lanes(there);
    out_.line("    const float sum = total.{}result();", launch_.warps ? "warp_" : "");
    if (launch_.warps) out_.line("    if (pointwise::lane_index() != 0) continue;");
    if (launch_.is_partial())
      out_.line("    static_cast<float*>(p.partials)[item] = sum;");
    else
      store_reduced(there);
  }

  void finish() {
    const std::string there = out_.exists();
    const int g = launch_.group_axis;
    const int64_t chunk = launch_.chunk;
    if (launch_.split.grouped < 0) {
      out_.line("    const int first = 0, partials = p.partials_of;");
    } else {
      const std::string& grouped = out_.dim(launch_.split.grouped);
      const std::string last =
          g < 0 ? std::to_string(out_.groups_of(launch_.split.grouped) - 1) : fmt::format("s{}", g);
      if (g >= 0)
        out_.line("    const int first = groups.partials_{}[s{}] / {}, partials = (groups.counts_{}[s{}] + {}) / {};",
                  grouped, g, chunk, grouped, g, chunk - 1, chunk);
      else
        out_.line(
            "    const int first = 0, partials = (groups.partials_{0}[{1}] + groups.counts_{0}[{1}] + {2}) / {3};",
            grouped, last, chunk - 1, chunk);
      // An empty group leaves the buffer alone.
      if (out_.output().accumulate && g >= 0) out_.line("    if (partials == 0) continue;");
    }
    std::string kept = "0", elements = "1";
    for (int i = 0; i < launch_.kept; ++i) {
      if (i == g) continue;
      kept = kept == "0" ? fmt::format("static_cast<i64>(s{})", i) : fmt::format("({}) * p.size_{} + s{}", kept, i, i);
      elements =
          elements == "1" ? fmt::format("static_cast<i64>(p.size_{})", i) : fmt::format("{} * p.size_{}", elements, i);
    }
    out_.line("    const i64 kept = {}, elements = {};", kept, elements);
    out_.line("    pointwise::{} total;", reducer());
    out_.line("    {}for (int i = {}; i < partials; i += {})", there.empty() ? "" : fmt::format("if ({}) ", there),
              launch_.warps ? "pointwise::lane_index()" : "0", launch_.warps ? "pointwise::warp_size" : "1");
    out_.line("      total.add(pointwise::load<f32>(p.partials, (first + i) * elements + kept));");
    out_.line("    const float sum = total.{}result();", launch_.warps ? "warp_" : "");
    if (launch_.warps) out_.line("    if (pointwise::lane_index() != 0) continue;");
    store_reduced(there);
  }

 private:
  std::string_view reducer() const {
    if (launch_.reduction == ir::Reduction::amax) return "Amax";
    return keeps_lanes() ? "ShortSum" : "Sum";
  }

  // Whether an item is eight neighbours with a total each.
  bool keeps_lanes() const { return launch_.lane_axis >= 0 && launch_.lane_axis < launch_.kept; }

  void store_lanes(const std::string& there) {
    out_.line("    float v[8];");
    out_.line("#pragma unroll");
    out_.line("    for (int i = 0; i < 8; ++i) v[i] = total[i].result();");
    if (launch_.is_partial()) {
      out_.line("    pointwise::store_8<f32>(p.partials, item * 8, v);");
    } else {
      const SpelledPlace at = out_.out_place();
      if (out_.output().accumulate) out_.accumulate(at, there);
      out_.line("    pointwise::store_8<{}>({}, {}, v);", out_.tag(), at.base, at.index);
    }
  }

  bool is_split(int i) const { return launch_.is_partial() && i == launch_.split_axis; }
  std::string size_of(int i) const { return is_split(i) ? "terms" : fmt::format("p.size_{}", i); }

  void add_terms(const std::string& indent) {
    out_.line("{}float v[{}];", indent, launch_.width);
    out_.line("{}{};", indent, out_.call(""));
    if (launch_.width == 1) {
      out_.line("{}total.add(v[0]);", indent);
      return;
    }
    out_.line("#pragma unroll");
    out_.line("{}for (int i = 0; i < {}; ++i) total{}.add(v[i]);", indent, launch_.width, keeps_lanes() ? "[i]" : "");
  }

  void reduce_by_thread() {
    std::string indent = "    ";
    for (int i = launch_.kept; i < static_cast<int>(launch_.axes.size()); ++i) {
      out_.line("{0}for (int i{1} = 0; i{1} < {2}; ++i{1}) {{", indent, i, size_of(i));
      indent += "  ";
      out_.line("{0}const int a{1} = {2}i{1};", indent, i, is_split(i) ? "begin + " : "");
    }
    add_terms(indent);
    while (indent.size() > 4) {
      indent.resize(indent.size() - 2);
      out_.line("{}}}", indent);
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
    out_.line("    const i64 all = {};", all);
    out_.line("    for (i64 term = pointwise::lane_index(); term < all; term += pointwise::warp_size) {{");
    out_.line("      i64 left = term;");
    for (int i = end; i-- > launch_.kept;) {
      const bool lanes = i == launch_.lane_axis;
      const std::string size = lanes ? fmt::format("{} / {}", size_of(i), launch_.width) : size_of(i);
      const std::string place =
          i == launch_.kept ? "static_cast<int>(left)" : fmt::format("pointwise::take(left, {})", size);
      out_.line("      const int a{} = {}{}{};", i, is_split(i) ? "begin + " : "",
                lanes ? fmt::format("{} * ", launch_.width) : "", place);
    }
    add_terms("      ");
    out_.line("    }}");
  }

  void store_reduced(const std::string& there) {
    const SpelledPlace at = out_.out_place();
    if (!out_.output().accumulate) {
      out_.line("    pointwise::store<{}>({}, {}, sum);", out_.tag(), at.base, at.index);
      return;
    }
    if (there.empty()) {
      out_.line("    pointwise::accumulate<{}>({}, {}, sum);", out_.tag(), at.base, at.index);
      return;
    }
    out_.line("    if ({})", there);
    out_.line("      pointwise::accumulate<{}>({}, {}, sum);", out_.tag(), at.base, at.index);
    out_.line("    else");
    out_.line("      pointwise::store<{}>({}, {}, 0.f);", out_.tag(), at.base, at.index);
  }

  LaunchText& out_;
  const PointwiseLaunch& launch_;
};

}  // namespace

void spell_reduce(LaunchText& out) { Speller(out).reduce(); }
void spell_finish(LaunchText& out) { Speller(out).finish(); }

}  // namespace epifuse::codegen
