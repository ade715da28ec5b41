// The dynamic loader's cache, /etc/ld.so.cache: where dlopen("libnvrtc.so.13") would find it, without opening it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace epifuse::toolchain {

// The paths of libraries whose name starts with `prefix`, in the cache's order. Bytes that are no such cache, or a
// damaged one, give what could be read.
std::vector<std::string> libraries_in_loader_cache(std::string_view bytes, std::string_view prefix);

}  // namespace epifuse::toolchain
