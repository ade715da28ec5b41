// The environment becomes settings; bad values are named.
#include "base/settings.h"

#include <map>
#include <set>

#include "tests/support/catch.h"

using namespace epifuse;

namespace {

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* variable) -> std::optional<std::string> {
    const auto place = values.find(variable);
    return place == values.end() ? std::nullopt : std::optional<std::string>(place->second);
  };
}

}  // namespace

TEST_CASE("the cache directory is the first of three places") {
  CHECK(read_settings(environment({{"HOME", "/home/u"}}))->cache_directory == "/home/u/.cache/epifuse");
  CHECK(read_settings(environment({{"HOME", "/home/u"}, {"XDG_CACHE_HOME", "/x"}}))->cache_directory == "/x/epifuse");
  CHECK(read_settings(environment({{"HOME", "/home/u"}, {"XDG_CACHE_HOME", "x"}}))->cache_directory ==
        "/home/u/.cache/epifuse");  // a relative one is invalid
  CHECK(read_settings(environment({{"XDG_CACHE_HOME", "/x"}, {"EPIFUSE_CACHE_DIR", "/c"}}))->cache_directory == "/c");
  CHECK(read_settings(environment({{"EPIFUSE_CACHE_DIR", "c"}}))->cache_directory.front() == '/');

  const Settings nothing = *read_settings(environment({}));
  CHECK(nothing.cache_directory.empty());
  CHECK(nothing.cache_wanted);
  const Settings off = *read_settings(environment({{"HOME", "/home/u"}, {"EPIFUSE_CACHE_DIR", "off"}}));
  CHECK(off.cache_directory.empty());
  CHECK(!off.cache_wanted);
}

TEST_CASE("lists, switches and levels") {
  const Settings settings = *read_settings(environment({{"EPIFUSE_CACHE_READ", "/a::/b:"},
                                                        {"EPIFUSE_BUNDLES", "/m.epb"},
                                                        {"EPIFUSE_NVRTC", "/n/libnvrtc.so.13"},
                                                        {"CUDA_HOME", "/cuda"},
                                                        {"EPIFUSE_TUNING", "/t/tuning.json"},
                                                        {"EPIFUSE_JIT", "off"},
                                                        {"EPIFUSE_LOG", "debug"},
                                                        {"PATH", "/p:/q"},
                                                        {"NVRTC_APPEND_FLAGS", "-G"}}));
  CHECK(settings.read_cache_directories == std::vector<std::string>{"/a", "/b"});
  CHECK(settings.bundles == std::vector<std::string>{"/m.epb"});
  CHECK(settings.nvrtc == "/n/libnvrtc.so.13");
  CHECK(settings.cuda_home == "/cuda");
  CHECK(settings.tuning == "/t/tuning.json");
  CHECK(read_settings(environment({{"EPIFUSE_TUNING", "t.json"}}))->tuning.front() == '/');
  CHECK(read_settings(environment({}))->tuning.empty());
  CHECK(!settings.jit);
  CHECK(settings.log == LogLevel::debug);
  CHECK(settings.program_directories == std::vector<std::string>{"/p", "/q"});
  CHECK(settings.toolchain_environment == std::vector<std::string>{"NVRTC_APPEND_FLAGS=-G"});

  const Settings standard = *read_settings(environment({{"EPIFUSE_JIT", ""}, {"EPIFUSE_LOG", ""}}));
  CHECK(standard.jit);
  CHECK(standard.log == LogLevel::warn);
}

TEST_CASE("the cache's trust and size") {
  const Settings standard = *read_settings(environment({}));
  CHECK(!standard.trust_shared);
  CHECK(standard.cache_bytes == uint64_t{2} << 30);
  const auto shared = read_settings(environment({{"EPIFUSE_CACHE_TRUST", "shared"}, {"EPIFUSE_CACHE_SIZE", "500M"}}));
  CHECK(shared->trust_shared);
  CHECK(shared->cache_bytes == uint64_t{500} << 20);
  CHECK(!read_settings(environment({{"EPIFUSE_CACHE_TRUST", "all"}})));
  CHECK(!read_settings(environment({{"EPIFUSE_CACHE_SIZE", "big"}})));

  CHECK(parse_bytes("1") == 1);
  CHECK(parse_bytes("3K") == 3072);
  CHECK(parse_bytes("2G") == uint64_t{2} << 30);
  CHECK(parse_bytes("1T") == uint64_t{1} << 40);
  CHECK(parse_bytes("unlimited") == 0);
  for (const char* text : {"", "0", "-1", "1X", "M", "1MB", " 1", "1.5G", "99999999999T", "18446744073709551616"}) {
    CHECK(!parse_bytes(text));
  }
}

TEST_CASE("a value that is not understood names the variable, the value and what it may be") {
  const Result<Settings> jit = read_settings(environment({{"EPIFUSE_JIT", "maybe"}}));
  REQUIRE(!jit);
  CHECK(jit.error().kind == ErrorKind::user);
  CHECK(jit.error().message == "EPIFUSE_JIT is 'maybe'; it may be 'on' or 'off'");
  const Result<Settings> log = read_settings(environment({{"EPIFUSE_LOG", "loud"}}));
  REQUIRE(!log);
  CHECK(log.error().message == "EPIFUSE_LOG is 'loud'; it may be 'error', 'warn', 'info' or 'debug'");
}

TEST_CASE("the table has every variable once, with its value or default") {
  std::set<std::string_view> seen;
  for (const SettingRow& row : settings_table(environment({{"HOME", "/h"}, {"EPIFUSE_JIT", "off"}}))) {
    CHECK(seen.insert(row.variable).second);
    CHECK(!row.meaning.empty());
    if (row.variable == "EPIFUSE_CACHE_DIR") {
      CHECK(row.value == "/h/.cache/epifuse");
      CHECK(!row.is_set);
    }
    if (row.variable == "EPIFUSE_JIT") {
      CHECK(row.value == "off");
      CHECK(row.is_set);
    }
    if (row.variable == "EPIFUSE_LOG") CHECK(row.value == "warn");
  }
  for (const std::string_view variable : {"EPIFUSE_CACHE_READ", "EPIFUSE_BUNDLES", "EPIFUSE_NVRTC", "CUDA_HOME"}) {
    CHECK(seen.contains(variable));
  }
}
