// "1 entry", "2 entries".
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace epifuse::tools {

inline std::string count_text(uint64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}
inline std::string kernels_text(uint64_t number) { return count_text(number, "kernel", "kernels"); }
inline std::string entries_text(uint64_t number) { return count_text(number, "entry", "entries"); }
inline std::string bytes_text(uint64_t number) { return count_text(number, "byte", "bytes"); }

}  // namespace epifuse::tools
