// KernelImage: to bytes and back, and every damaged form of the bytes.
#include "base/kernel_image.h"

#include "tests/support/catch.h"
#include "tests/support/fake_cubin.h"
#include "tests/support/sample_recipe.h"

using namespace epifuse;

namespace {

KernelImage sample() {
  KernelImage image;
  image.cubin = test::fake_cubin({"gemm_entry", "finish_entry"}, std::string_view("\0binary\xff", 8));
  image.recipe = test::sample_recipe();
  image.registers = 168;
  image.spill_bytes = 24;
  image.wgmma_serialized = true;
  image.warnings = {"spills 24 bytes", "\xc3\xa9"};
  return image;
}

}  // namespace

TEST_CASE("an image survives its bytes") {
  const KernelImage image = sample();
  const std::string bytes = image.to_bytes();
  const auto back = KernelImage::from_bytes(bytes);
  REQUIRE(back);
  CHECK(back->cubin == image.cubin);
  CHECK(back->recipe.to_json() == image.recipe.to_json());
  CHECK(back->registers == 168);
  CHECK(back->spill_bytes == 24);
  CHECK(back->wgmma_serialized);
  CHECK(back->warnings == image.warnings);
  CHECK(back->to_bytes() == bytes);
}

TEST_CASE("the cubin starts where a mapped file may hand it to the driver") {
  const KernelImage image = sample();
  const std::string bytes = image.to_bytes();
  CHECK((bytes.size() - image.cubin.size()) % 16 == 0);
  CHECK(bytes.substr(bytes.size() - image.cubin.size()) == image.cubin);
}

TEST_CASE("damaged bytes are refused") {
  const std::string bytes = sample().to_bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE_FALSE(KernelImage::from_bytes(std::string_view(bytes).substr(0, length)));
  }
  CHECK_FALSE(KernelImage::from_bytes(bytes + "x"));
  // Each byte of the header and the metadata in turn: refused, or (inside a text or a number) read as something valid.
  const size_t metadata_end = bytes.size() - sample().cubin.size();
  for (size_t at = 0; at < metadata_end; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const auto image = KernelImage::from_bytes(damaged);
    if (at < 32) REQUIRE_FALSE(image);
    if (image) REQUIRE(image->recipe.validate());
  }
  std::string other_version = bytes;
  other_version[8] = 9;
  const auto image = KernelImage::from_bytes(other_version);
  REQUIRE_FALSE(image);
  CHECK(image.error().message == "kernel image: version 9, this build reads 2");
}

TEST_CASE("a recipe that the caller knows is taken only for the very same text") {
  const KernelImage image = sample();
  const std::string bytes = image.to_bytes(), json = image.recipe.to_json();
  LaunchRecipe other = image.recipe;
  other.kernel = "other";  // a mark of the caller's own recipe, which its text does not have
  const auto taken = KernelImage::from_bytes(bytes, KernelImage::KnownRecipe{other, json});
  REQUIRE(taken);
  CHECK(taken->recipe.kernel == "other");
  const auto refused = KernelImage::from_bytes(bytes, KernelImage::KnownRecipe{other, other.to_json()});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "kernel image: its launch recipe is not the one that was asked for");
}

TEST_CASE("a cubin that is not of the recipe is refused") {
  KernelImage image = sample();
  const std::string whole(image.cubin.view());
  const auto refusal = [&](std::string cubin) {
    image.cubin = std::move(cubin);
    const auto read = KernelImage::from_bytes(image.to_bytes());
    return read ? "" : read.error().message;
  };
  CHECK(refusal(whole).empty());
  CHECK(refusal(test::fake_cubin({"finish_entry", "gemm_entry", "helper"})).empty());
  CHECK(refusal(test::fake_cubin({"gemm_entry"})) == "its cubin has no function 'finish_entry'");
  CHECK(refusal(test::fake_cubin({"gemm_entry", "finish_entry"}, "", 80)) == "its cubin is for sm_80");
  CHECK(refusal(test::fake_cubin({"gemm_entry", "finish_entry"}, "", 9)) == "its cubin is for sm_9");
  for (size_t length = 0; length < whole.size(); ++length)
    REQUIRE(refusal(whole.substr(0, length)) == "what it has for a cubin is none");
  CHECK(refusal(std::string(whole.size(), '\0')) == "what it has for a cubin is none");
  // Numbers of the header and the sections that point anywhere.
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int byte : {0x00, 0x7f, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(byte);
      (void)refusal(std::move(damaged));
    }
}
