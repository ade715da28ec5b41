// Loading an image: what is forced, set and compared, and what is said when it cannot be loaded.
#include "runtime/module.h"

#include "tests/runtime/sample_call.h"

using namespace epifuse;
using namespace epifuse::runtime;

namespace {

std::string load_error(test::FakeDriver& driver) {
  const auto module = Module::load(*Device::open(driver.table(), 0), test::sample_image());
  return module ? "" : module.error().message;
}

struct Machine : test::FakeDriver {
  Machine() { entries = {{"gemm_entry", 320}, {"finish_entry", 16}}; }
};

constexpr auto prefix = "loading kernel 'grouped' (built for sm_90a) on GPU 0 (Fake GPU, compute capability 9.0)";

}  // namespace

TEST_CASE("loading forces every entry and sets its shared memory once") {
  Machine driver;
  REQUIRE(load_error(driver).empty());
  CHECK(driver.count("library_load_data") == 1);
  CHECK(driver.count("kernel_get_function") == 2);
  CHECK(driver.count("kernel_set_attribute") == 2);
  CHECK(driver.shared_bytes_set["gemm_entry"] == 200000);
  CHECK(driver.current == nullptr);
  CHECK(driver.open_handles == 0);  // the library and the context went with the module
}

TEST_CASE("a binary for another GPU is said in words") {
  Machine driver;
  driver.fail["library_load_data"] = cuda::Code::no_binary_for_gpu;
  CHECK(load_error(driver).find(std::string(prefix) + ": the kernel binary is for another GPU architecture (209,") ==
        0);
  CHECK(driver.open_handles == 0);
}

TEST_CASE("an entry that is missing, or takes other parameters, is named") {
  Machine driver;
  driver.entries.erase("finish_entry");
  CHECK(load_error(driver).find("entry 'finish_entry': the name was not found") != std::string::npos);
  driver.entries = {{"gemm_entry", 384}, {"finish_entry", 16}};
  CHECK(load_error(driver) == std::string(prefix) +
                                  ": entry 'gemm_entry' does not take one struct of 320 bytes as its recipe says "
                                  "(found 384)");
  CHECK(driver.open_handles == 0);
}

TEST_CASE("limits of the device are compared with the recipe") {
  Machine driver;
  driver.shared_bytes_per_block = 101376;
  CHECK(load_error(driver).find("needs 200000 bytes of shared memory per block; this GPU has 101376") !=
        std::string::npos);
  driver.shared_bytes_per_block = 232448;
  driver.max_threads_per_block = 256;
  CHECK(load_error(driver).find("needs blocks of 384 threads; its registers allow 256") != std::string::npos);
}

TEST_CASE("a recipe that is not valid is never loaded") {
  Machine driver;
  auto image = test::sample_image();
  image.recipe.steps[1].fields[0].index = 9;
  CHECK_FALSE(Module::load(*Device::open(driver.table(), 0), image));
  CHECK(driver.count("library_load_data") == 0);
}
