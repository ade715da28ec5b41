#include "tools/cost_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

// Three digits, with the unit that needs no exponent.
std::string with_unit(double value, const char* const (&units)[5]) {
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

}  // namespace

std::string bytes_text(double bytes) { return with_unit(bytes, {"B", "kB", "MB", "GB", "TB"}); }
std::string flop_text(double flop) { return with_unit(flop, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"}); }

std::vector<std::pair<std::string, int64_t>> number_list(const ir::Graph& graph, const ir::LaunchSizes& sizes) {
  std::vector<std::pair<std::string, int64_t>> list;
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.kind == ir::DimKind::fixed && dim.value) list.emplace_back(dim.name, *dim.value);
    if (dim.kind == ir::DimKind::dynamic) list.emplace_back(dim.name, sizes.sizes.at(dim.name));
  }
  return list;
}

std::string numbers_text(const std::vector<std::pair<std::string, int64_t>>& dims, const ir::LaunchSizes& sizes) {
  std::string text;
  for (const auto& [name, value] : dims) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  for (const auto& [name, counts] : sizes.counts) {
    if (!text.empty()) text += "; ";
    if (counts.empty()) {
      text += fmt::format("{}: no groups", name);
      continue;
    }
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    text += *least == *most
                ? fmt::format("{}: {} groups of {} rows", name, counts.size(), *least)
                : fmt::format("{}: {} rows in {} groups of {} to {}", name, all, counts.size(), *least, *most);
  }
  return text;
}

std::string sizes_json(const std::vector<std::pair<std::string, int64_t>>& dims, const ir::LaunchSizes& sizes) {
  Json numbers = Json::object();
  for (const auto& [name, value] : dims) numbers[name] = value;
  // Every dimension that is cut into groups is cut alike.
  const Json counts = sizes.counts.empty() ? Json() : Json(sizes.counts.begin()->second);
  return Json{{"dims", std::move(numbers)}, {"counts", counts}}.dump();
}

std::string work_json(const ir::Work& work) {
  return Json{{"flop", work.flop()},
              {"read_bytes", work.read},
              {"written_bytes", work.written},
              {"product_bytes", work.product_bytes},
              {"pass_bytes", work.pass_bytes}}
      .dump();
}

std::string floor_json(const ir::Floor& floor, double clock_mhz) {
  return Json{{"clock_mhz", clock_mhz},
              {"tensor_ms", floor.tensor_ms},
              {"memory_ms", floor.memory_ms},
              {"ms", floor.ms()},
              {"product_and_pass_ms", floor.two_launches_ms}}
      .dump();
}

}  // namespace epifuse::tools
