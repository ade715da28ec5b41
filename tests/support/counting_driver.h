// The real driver (or any table) with every call counted, so that a test can say "between these two points there was
// one graph launch and nothing else". One at a time per process: the entries are plain functions.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "runtime/driver_api.h"

namespace epifuse::test {

class CountingDriver {
 public:
  // Wraps `real`. The counts start at zero.
  static runtime::Driver wrap(const runtime::Driver& real) {
    state().real = real;
    auto table = std::make_shared<runtime::DriverApi>();
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters) \
  table->field = Counted<index_##field, runtime::driver_entries::field, &runtime::DriverApi::field>::call;
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
    reset();
    return table;
  }

  static void reset() {
    for (auto& count : state().counts) count = 0;
  }

  // Calls since the reset, by the field's name; entries that were not called are not listed.
  static std::map<std::string, int> counts() {
    std::map<std::string, int> out;
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters) \
  if (const int n = state().counts[index_##field]; n != 0) out[#field] = n;
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
    return out;
  }

 private:
  enum Index {
#define EPIFUSE_DRIVER_ENTRY(field, symbol, parameters) index_##field,
#include "runtime/driver_api.def"
#undef EPIFUSE_DRIVER_ENTRY
    entry_count
  };

  struct State {
    runtime::Driver real;
    std::atomic<int> counts[entry_count];
  };
  static State& state() {
    static State instance;
    return instance;
  }

  template <Index index, class Entry, Entry runtime::DriverApi::*member>
  struct Counted;
  template <Index index, class... A, cuda::Code (*runtime::DriverApi::*member)(A...)>
  struct Counted<index, cuda::Code (*)(A...), member> {
    static cuda::Code call(A... arguments) {
      ++state().counts[index];
      return ((*state().real).*member)(arguments...);
    }
  };
};

}  // namespace epifuse::test
