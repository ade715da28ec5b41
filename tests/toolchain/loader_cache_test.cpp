// The loader's cache: a small one made here, damaged in every way, and this machine's own.
#include "compiler/toolchain/loader_cache.h"

#include <cstdint>
#include <cstring>

#include "base/file_system.h"
#include "tests/support/catch.h"

using namespace epifuse;
using namespace epifuse::toolchain;

namespace {

void put_word(std::string& bytes, size_t value) {
  const uint32_t word = static_cast<uint32_t>(value);
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

std::string loader_cache(const std::vector<std::pair<std::string, std::string>>& libraries) {
  const size_t strings_at = 48 + 24 * libraries.size();
  std::string head = "glibc-ld.so.cache1.1", entries, strings;
  put_word(head, libraries.size());
  head.resize(48);
  for (const auto& [name, path] : libraries) {
    put_word(entries, 1);
    put_word(entries, strings_at + strings.size());
    put_word(entries, strings_at + strings.size() + name.size() + 1);
    entries.resize((entries.size() + 23) / 24 * 24);
    strings.append(name).push_back('\0');
    strings.append(path).push_back('\0');
  }
  return head + entries + strings;
}

}  // namespace

TEST_CASE("libraries are found by the start of their name") {
  const std::string cache = loader_cache({{"libnvrtc.so.13", "/cuda/lib/libnvrtc.so.13"},
                                          {"libm.so.6", "/lib/libm.so.6"},
                                          {"libnvrtc.so.12", "/old/libnvrtc.so.12"}});
  const std::vector<std::string> expected{"/cuda/lib/libnvrtc.so.13", "/old/libnvrtc.so.12"};
  CHECK(libraries_in_loader_cache(cache, "libnvrtc.so") == expected);
  CHECK(libraries_in_loader_cache("ld.so-1.7.0" + std::string(13, '\0') + cache, "libnvrtc.so") == expected);
  CHECK(libraries_in_loader_cache("", "libnvrtc.so").empty());
}

TEST_CASE("a damaged cache gives less and does no harm") {
  const std::string cache = loader_cache({{"libnvrtc.so.13", "/cuda/lib/libnvrtc.so.13"}});
  for (size_t length = 0; length < cache.size(); ++length) {
    CHECK(libraries_in_loader_cache(cache.substr(0, length), "libnvrtc.so").empty());
  }
  for (size_t at = 20; at < 72; ++at) {
    std::string changed = cache;
    changed[at] = '\xff';
    CHECK(libraries_in_loader_cache(changed, "libnvrtc.so").size() <= 1);
  }
}

TEST_CASE("this machine's cache knows its C library") {
  const Result<std::string> cache = real_file_system().read("/etc/ld.so.cache");
  if (!cache) return;  // a system without one
  const std::vector<std::string> paths = libraries_in_loader_cache(*cache, "libc.so.6");
  REQUIRE(!paths.empty());
  CHECK(real_file_system().status(paths[0]).exists);
}
