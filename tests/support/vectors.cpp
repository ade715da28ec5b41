#include "tests/support/vectors.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace epifuse::test {

nlohmann::json read_vectors(const std::string& name, const std::string& key) {
  std::ifstream file(std::string(EPIFUSE_SOURCE_DIR) + "/tests/vectors/" + name);
  nlohmann::json all = nlohmann::json::parse(file);
  return key.empty() ? all : all.at(key);
}

}  // namespace epifuse::test
