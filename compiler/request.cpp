#include "compiler/request.h"

#include <fmt/format.h>

#include "base/version.h"

namespace epifuse {

std::string canonical_request(const ir::Graph& graph, const Target& target, const std::set<std::string>& left_out,
                              std::string_view schedule) {
  std::string text = fmt::format("request {}\n{}target {}\n", request_version, ir::print(graph), target.name);
  for (const std::string& name : left_out) text += fmt::format("without {}\n", name);
  if (!schedule.empty()) text += fmt::format("schedule {}\n", schedule);
  return text;
}

}  // namespace epifuse
