// Entries that are whole, by their checksum, and yet not what an engine writes: another program made them, or an
// Epifuse with a fault. They heal like damage.
#include <functional>

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
    {"version 99", [](cache::Entry& entry) { entry.payload[8] = 99; }},
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
