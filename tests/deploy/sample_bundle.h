// Bundles of the sample kernel (tests/support/sample_recipe.h), and a library of them over the fake driver.
#pragma once

#include <fmt/format.h>

#include "cache/bundle_writer.h"
#include "deploy/kernel_library.h"
#include "tests/runtime/sample_call.h"

namespace epifuse::test {

// The sample kernel as a bundle has it; with `n` columns, its cubin the same for all.
inline cache::BundleEntry deployed_entry(int64_t n = 96, std::set<std::string> left_out = {}) {
  KernelImage::Parts parts = sample_image().to_parts();
  cache::BundleEntry entry;
  entry.label = {"grouped", "sm_90a", {{"E", 4}, {"K", 64}, {"N", n}}, std::move(left_out), ""};
  entry.request = fmt::format("request 1\nkernel grouped\n  dim E = 4\n  dim K = 64\n  dim N = {}\ntarget sm_90a\n{}",
                              n, entry.label.left_out.empty() ? "" : "without pre\n");
  entry.info = R"({"key":"k1","plan":"pingpong 128x192"})";
  entry.recipe = std::move(parts.recipe);
  entry.image = std::move(parts.metadata);
  entry.cubin = std::move(parts.cubin);
  return entry;
}

inline std::string bundle_of(std::vector<cache::BundleEntry> entries) {
  Result<std::string> bytes = cache::encode_bundle(std::move(entries));
  INFO((bytes ? std::string() : bytes.error().message));
  REQUIRE(bytes);
  return *std::move(bytes);
}

// The fake machine, which knows the sample kernel's entries.
struct DeployMachine {
  DeployMachine() {
    driver.entries = {{"gemm_entry", 320}, {"finish_entry", 16}};
    driver.current = FakeDriver::primary_context(0);
  }
  deploy::KernelLibrary::LoadDriver load_driver() {
    return [this]() -> Result<runtime::Driver> { return driver.table(); };
  }

  FakeDriver driver;
};

}  // namespace epifuse::test
