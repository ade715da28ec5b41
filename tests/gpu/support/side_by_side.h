// Many independent runs of one test on all cores at once. Catch's assertions belong to one thread: a run says in words
// what is wrong, and what was said is checked afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace epifuse::test {

// Calls run(i) for each i of [0, runs), several at a time, then checks in order that each returned "", which means that
// all was right. What a run throws is what is wrong with it. A run is one of many: it wants one thread for itself
// (jit::InputOptions::threads), and asserts nothing.
void check_side_by_side(int64_t runs, const std::function<std::string(int64_t)>& run);

}  // namespace epifuse::test
