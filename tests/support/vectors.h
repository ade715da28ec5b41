// The exact test vectors of tests/vectors. Including this costs seconds of compile time: only where vectors are read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace epifuse::test {

// A file of tests/vectors, or one member of it, as a value: a loop over a member of a temporary would dangle.
nlohmann::json read_vectors(const std::string& name, const std::string& key = "");

}  // namespace epifuse::test
