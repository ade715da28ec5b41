// What several commands say of kernels of bundles by their labels: which are ambiguous, and which changed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cache/bundle_entry.h"

namespace epifuse::tools {

// {kernel, target, dims, without, schedule}.
nlohmann::ordered_json label_json(const cache::BundleLabel& label);
nlohmann::ordered_json labels_json(const std::vector<cache::BundleLabel>& labels);

// The labels of a bundle's entries that stand for several kernels, each with a warning on stderr.
std::vector<cache::BundleLabel> note_ambiguous(const std::string& bundle,
                                               const std::vector<cache::BundleEntry>& entries);

// Kernels that one side has and the other has not, with their requests.
using UnmatchedKernels = std::vector<std::pair<cache::BundleLabel, std::string>>;

struct ChangedKernel {
  cache::BundleLabel label;
  std::string before, after;  // requests
  std::string differs;        // "the kernel's text: '…' there, '…' here"
};
// Takes those out of both sides that have one label: the same kernel, whose text changed.
std::vector<ChangedKernel> take_changed(UnmatchedKernels& before, UnmatchedKernels& after);

}  // namespace epifuse::tools
