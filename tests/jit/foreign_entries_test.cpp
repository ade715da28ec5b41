// Entries that are whole, by their checksum, and yet not what an engine writes: another program made them, or an
// Epifuse with a fault. They heal like damage.
#include <fmt/format.h>
#include <functional>

#include "base/version.h"
#include "jit/artifact_store.h"
#include "tests/jit/support.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::From;

namespace {

// Rewrites the entry of that name, with a checksum that fits.
void rewrite(MemoryFileSystem& disk, const std::string& key, const std::function<void(cache::Entry&)>& change) {
  const std::string path = "/cache/" + key, bytes = *disk.read(path);
  const cache::DecodedEntry decoded = cache::decode_entry(bytes);
  REQUIRE(decoded.state == cache::EntryState::good);
  const cache::EntryView& view = decoded.entry;
  cache::Entry entry{view.kind, std::string(view.request), std::string(view.toolchain), std::string(view.metadata),
                     std::string(view.payload)};
  change(entry);
  disk.put(path, cache::encode_entry(entry));
}

void becomes(cache::Entry& entry, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  const size_t at = entry.payload.find(from);
  REQUIRE(at != std::string::npos);
  entry.payload.replace(at, from.size(), to);
}

const std::pair<const char*, std::function<void(cache::Entry&)>> changes[] = {
    {"not a kernel image", [](cache::Entry& entry) { entry.payload.clear(); }},
    {"the metadata", [](cache::Entry& entry) { becomes(entry, "\"registers\"", "\"registerz\""); }},
    {"its recipe is not that of its request",
     [](cache::Entry& entry) { becomes(entry, "\"kernel\":\"small\"", "\"kernel\":\"other\""); }},
    {"its cubin has no function 'kernel_small'",
     [](cache::Entry& entry) { becomes(entry, ".text.kernel_small", ".text.kernel_smell"); }},
    {"its cubin is for sm_80",
     [](cache::Entry& entry) {
       const size_t cubin = KernelImage::split(entry.payload)->cubin.size();
       entry.payload[entry.payload.size() - cubin + 49] = 80;  // the place of the capability in an ELF's flags
     }},
    {"what it has for a cubin is none",
     [](cache::Entry& entry) {
       const size_t cubin = KernelImage::split(entry.payload)->cubin.size();
       entry.payload.resize(entry.payload.size() - cubin);
       for (size_t i = 24; i < 32; ++i) entry.payload[i] = 0;
     }},
    {"its redirect cannot be read",
     [](cache::Entry& entry) {
       entry.kind = cache::EntryKind::redirect;
       entry.payload = "xx";
     }},
};

}  // namespace

TEST_CASE("a whole entry without a usable kernel is told once, set aside and made again") {
  for (const auto& [problem, change] : changes) {
    MemoryFileSystem disk;
    INFO(problem);
    const std::string key = TestEngine(disk).compile()->key;
    rewrite(disk, key, change);
    {
      TestEngine off(disk, "/cache", [](jit::EngineOptions& options) { options.settings.jit = false; });
      CHECK(contains(off.compile_error().message, "is not in the cache and cannot be compiled"));
      REQUIRE(off.lines(LogLevel::warn).size() == 1);
      CHECK(contains(off.lines(LogLevel::warn)[0], problem));
    }
    TestEngine heals(disk);
    CHECK(heals.compile()->from == From::toolchain);
    REQUIRE(heals.lines(LogLevel::warn).size() == 1);
    CHECK(contains(heals.lines(LogLevel::warn)[0], problem));
    CHECK(disk.exists("/cache/" + key + ".bad"));
    TestEngine next(disk);
    CHECK(next.compile()->from == From::disk);
    CHECK(next.lines(LogLevel::warn).empty());
  }
}

TEST_CASE(
    "an entry of another version is said to be that, whichever of its versions it is, and is made again quietly") {
  const auto renumbered = [](std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  const std::string recipe = fmt::format("\"recipe\":{}", recipe_version);
  const std::string image = fmt::format("image 1:{}", kernel_image_version);
  const std::pair<const char*, std::function<void(cache::Entry&)>> versions[] = {
      {"the request",
       [&](cache::Entry& entry) {
         renumbered(entry.request, fmt::format("artifact 1:{}", artifact_version), "artifact 1:0");
       }},
      {"the image, as the request has it", [&](cache::Entry& entry) { renumbered(entry.request, image, "image 1:0"); }},
      {"a redirect to such an image",
       [&](cache::Entry& entry) {
         renumbered(entry.request, image, "image 1:0");
         entry.kind = cache::EntryKind::redirect;
         entry.payload = "in another way";
       }},
      {"the recipe",
       [&](cache::Entry& entry) {
         renumbered(entry.request, recipe, "\"recipe\":1");
         renumbered(entry.payload, recipe, "\"recipe\":1");
       }},
  };
  for (const auto& [what, change] : versions) {
    INFO(what);
    MemoryFileSystem disk;
    const std::string path = "/cache/" + TestEngine(disk).compile()->key;
    rewrite(disk, path.substr(path.rfind('/') + 1), change);
    const std::string bytes = *disk.read(path);
    CHECK(jit::check_entry(cache::decode_entry(bytes).entry).state == cache::EntryState::other_version);
  }

  // Where nothing but the payload says so, it lies under today's name.
  MemoryFileSystem disk;
  const std::string key = TestEngine(disk).compile()->key;
  rewrite(disk, key, [](cache::Entry& entry) { entry.payload[8] = 99; });
  TestEngine next(disk);
  CHECK(next.compile()->from == From::toolchain);
  CHECK(next.lines(LogLevel::warn).empty());
  CHECK(!disk.exists("/cache/" + key + ".bad"));
  CHECK(TestEngine(disk).compile()->from == From::disk);
}

TEST_CASE("a redirect in the place of the image that it leads to is damage") {
  MemoryFileSystem disk;
  const auto all_spill = [](int, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) -> Status {
    outcome.spill_bytes = 8;
    return {};
  };
  TestEngine first(disk);
  first.toolchain->say = all_spill;
  const std::string key = first.compile()->key;
  rewrite(disk, key, [](cache::Entry& entry) {
    entry.kind = cache::EntryKind::redirect;
    entry.payload = R"({"spill_bytes":8,"wgmma_serialized":false})";
  });
  TestEngine heals(disk);
  heals.toolchain->say = all_spill;
  CHECK(heals.compile()->from == From::toolchain);
  CHECK(contains(heals.lines(LogLevel::warn).front(), "a redirect is in the place of the image"));
  CHECK(disk.exists("/cache/" + key + ".bad"));
}
