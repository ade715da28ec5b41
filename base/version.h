// The one place for version numbers. Each stored format carries its own, so that one can change without the others.
#pragma once

#include <string_view>

namespace epifuse {

inline constexpr std::string_view version = "0.1.0";
inline constexpr int language_version = 1;
inline constexpr int recipe_version = 4;
inline constexpr int artifact_version = 2;  // of the record that an artifact is found by
inline constexpr int kernel_image_version = 2;
inline constexpr int cache_entry_version = 1;
inline constexpr int plan_text_version = 2;
inline constexpr int tuning_version = 1;
inline constexpr int request_version = 1;  // of the text of a request: bundles are searched by it
inline constexpr int bundle_version = 1;
inline constexpr int manifest_version = 1;  // of what `prebuild` reads
inline constexpr int record_version = 1;    // of a recorded request

// The commit the binary was built from, or "unknown" outside a checkout.
std::string_view commit();

}  // namespace epifuse
