// The rules of group sizes, checked on numbers.
#include "runtime/group_sizes.h"

#include <fmt/format.h>
#include <limits>

#include "base/ensure.h"

namespace epifuse::runtime {

Status check_group_sizes(const RecipeTensor& sizes, std::span<const int64_t> values, int64_t capacity, int64_t slot) {
  EPIFUSE_ENSURE(sizes.role == TensorRole::group_sizes, "not a tensor of group sizes");
  const bool counts = sizes.name.ends_with(".counts");
  int64_t end = 0;
  for (size_t group = 0; group < values.size(); ++group) {
    int64_t start = (end + sizes.group_align - 1) / sizes.group_align * sizes.group_align;
    if (slot != 0 && __builtin_mul_overflow(static_cast<int64_t>(group), slot, &start))
      start = std::numeric_limits<int64_t>::max();
    const int64_t value = values[group];
    if (counts && value < 0) {
      return user_error(fmt::format("{}: group {} has {} rows from row {} on", sizes.name, group, value, start));
    }
    if (!counts && value == end) continue;
    if (!counts && value < start) {
      return user_error(
          fmt::format("{}: group {} ends at row {}, before its start at row {}", sizes.name, group, value, start));
    }
    const int64_t rows = counts ? value : value - start;
    if (slot != 0 && rows > slot) {
      return user_error(fmt::format("{}: group {} has {} rows, and its slot from row {} on has {}", sizes.name, group,
                                    rows, start, slot));
    }
    if (rows > 0 && rows > capacity - start) {
      return user_error(fmt::format("{}: group {} has {} rows from row {} on, past the capacity of {} rows", sizes.name,
                                    group, rows, start, capacity));
    }
    end = start + rows;
  }
  return {};
}

}  // namespace epifuse::runtime
