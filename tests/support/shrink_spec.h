// Makes a spec that fails small: outputs go, expressions are replaced by their parts, dimensions and groups shrink, as
// long as what is left still fails.
#pragma once

#include <functional>

#include "tests/support/random_spec.h"

namespace epifuse::test {

// Whether a spec, which resolves without a mistake, shows the failure.
using ShowsFailure = std::function<bool(const RandomSpec&)>;

// `spec` shows the failure; so does what is returned. `most_tries` bounds the calls.
RandomSpec shrink(const RandomSpec& spec, const ShowsFailure& fails, int most_tries = 1000);

}  // namespace epifuse::test
