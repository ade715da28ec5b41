#include "tools/bundle_labels.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/bundle_set.h"
#include "cache/bundle_writer.h"
#include "tools/report.h"

namespace epifuse::tools {

using Json = nlohmann::ordered_json;

Json label_json(const cache::BundleLabel& label) {
  return {{"kernel", label.kernel},
          {"target", label.target},
          {"dims", label.dims},
          {"without", label.left_out},
          {"schedule", label.schedule.empty() ? Json() : Json(label.schedule)}};
}

Json labels_json(const std::vector<cache::BundleLabel>& labels) {
  Json list = Json::array();
  for (const cache::BundleLabel& label : labels) list.push_back(label_json(label));
  return list;
}

std::vector<cache::BundleLabel> note_ambiguous(const std::string& bundle,
                                               const std::vector<cache::BundleEntry>& entries) {
  std::vector<cache::BundleLabel> labels = cache::ambiguous_labels(entries);
  for (const cache::BundleLabel& label : labels)
    note(
        fmt::format("warning: {} has several kernels that differ only in their text: {}. Where there is no compiler, "
                    "only a request finds one of them",
                    bundle, cache::describe(label)));
  return labels;
}

std::vector<ChangedKernel> take_changed(UnmatchedKernels& before, UnmatchedKernels& after) {
  std::vector<ChangedKernel> changed;
  std::erase_if(before, [&](const auto& was) {
    const auto now = std::find_if(after.begin(), after.end(), [&](const auto& is) { return is.first == was.first; });
    if (now == after.end()) return false;
    changed.push_back({was.first, was.second, now->second, cache::differing_line(was.second, now->second)});
    after.erase(now);
    return true;
  });
  return changed;
}

}  // namespace epifuse::tools
