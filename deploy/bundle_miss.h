// What is said of a kernel that no bundle has: what the bundles have instead, what differs, and the command that builds
// what is missing.
#pragma once

#include <string>
#include <string_view>

#include "cache/bundle_set.h"

namespace epifuse::deploy {

// Lines, the first without indentation. `request` may be empty; it tells apart kernels whose labels are equal. The
// command is there where it would make the kernel that is wanted, and else what keeps it from that: dims that are
// missing, or that the kernel does not have, or a target that nothing is built for.
std::string explain_miss(cache::BundleSet& bundles, std::string_view request, const cache::BundleLabel& wanted);

// Its lines but for the command. There are bundles.
std::string explain_what_differs(cache::BundleSet& bundles, std::string_view request, const cache::BundleLabel& wanted);

// "epifuse prebuild moe.epi --kernel fc1 --dims E=8 --target sm_90a -o FILE", for a shell. A bundle does not know its
// specs: without one, SPEC stands in its place.
std::string prebuild_command(const cache::BundleLabel& label, const std::string& spec = "");

// Whether a text begins as canonical requests do, with a kernel and a target.
bool is_request(std::string_view text);

// The label of a canonical request, as far as its lines say it.
cache::BundleLabel label_of_request(std::string_view request);

}  // namespace epifuse::deploy
