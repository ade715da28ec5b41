#include "tests/gpu/support/side_by_side.h"

#include <exception>
#include <vector>

#include "compiler/interpreter/parallel.h"
#include "tests/support/catch.h"

namespace epifuse::test {

void check_side_by_side(int64_t runs, const std::function<std::string(int64_t)>& run) {
  std::vector<std::string> wrong(static_cast<size_t>(runs));
  interpreter::parallel_for(runs, 0, [&](int64_t i) {
    try {
      wrong[static_cast<size_t>(i)] = run(i);
    } catch (const std::exception& error) {
      wrong[static_cast<size_t>(i)] = error.what();
    }
  });
  for (const std::string& said : wrong) {
    INFO(said);
    CHECK(said.empty());
  }
}

}  // namespace epifuse::test
