// What a random spec runs on: the sizes and inputs that it says, the rest made from its seed.
#pragma once

#include "jit/inputs.h"
#include "tests/support/random_spec.h"

namespace epifuse::test {

inline jit::InputOptions input_options(const RandomSpec& spec) {
  jit::InputOptions options;
  options.counts = spec.counts;
  options.sizes = spec.sizes;
  options.slack_rows = spec.slack_rows;
  options.seed = spec.seed;
  for (const auto& [name, values] : spec.given) {
    const bool scalar = spec.text.find("in " + name + " : f32[") == std::string::npos;
    interpreter::HostTensor& tensor = options.given[name] = interpreter::make_tensor(
        Storage::f32, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) interpreter::store_one(tensor, static_cast<int64_t>(i), values[i]);
  }
  return options;
}

}  // namespace epifuse::test
