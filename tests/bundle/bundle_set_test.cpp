// Several bundles: the order they are searched in, what damage costs, and what is said when none has a kernel.
#include "cache/bundle_set.h"

#include "tests/bundle/sample_bundle.h"
#include "tests/support/memory_file_system.h"

using namespace epifuse;
using namespace epifuse::test;
using cache::BundleEntry;
using cache::BundleSet;

namespace {

struct Log {
  std::vector<std::string> warnings;
  LogSink sink() {
    return [this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warn) warnings.emplace_back(text);
    };
  }
};

std::string differs(const BundleEntry& has, const BundleEntry& wanted) {
  MemoryFileSystem disk;
  BundleSet set(disk, {}, nullptr);
  REQUIRE(set.add(encoded({has}), "b"));
  const auto nearest = set.nearest(wanted.request, wanted.label);
  REQUIRE(nearest);
  return nearest->differs;
}

}  // namespace

TEST_CASE("bundles are searched in their order, those that are added behind those of the setting") {
  MemoryFileSystem disk;
  BundleEntry first = sample_entry("gate", 64), second = first, third = first;
  second.cubin = "second";
  third.cubin = "third";
  disk.put("/first.epb", encoded({first}));
  disk.put("/second.epb", encoded({second, sample_entry("down", 64)}));
  Log log;
  BundleSet set(disk, {"/first.epb", "/second.epb"}, log.sink());
  CHECK(set.any());
  REQUIRE(set.add(encoded({third, sample_entry("up", 64)}), "third"));
  CHECK(set.find(first.request)->entry.cubin == first.cubin);
  CHECK(set.find(first.request)->bundle->name() == "/first.epb");
  CHECK(set.find(sample_entry("down", 64).request)->bundle->name() == "/second.epb");
  CHECK(set.find(sample_entry("up", 64).request)->bundle->name() == "third");
  CHECK_FALSE(set.find("request 1\nkernel other\n"));
  CHECK(set.names() == std::vector<std::string>{"/first.epb", "/second.epb", "third"});
  CHECK(set.kernels() == std::vector<std::string>{"down", "gate", "up"});
  CHECK(log.warnings.empty());
}

TEST_CASE("a bundle that cannot be used costs one warning, and the next one answers") {
  MemoryFileSystem disk;
  const BundleEntry entry = sample_entry("gate", 64);
  std::string damaged = encoded({entry});
  damaged[damaged.rfind("ELF of gate")] ^= 1;  // the index is whole, the cubin is not
  disk.put("/damaged.epb", damaged);
  disk.put("/text.epb", "hello");
  disk.put("/good.epb", encoded({entry}));
  Log log;
  BundleSet set(disk, {"/missing.epb", "/text.epb", "/damaged.epb", "/good.epb"}, log.sink());
  for (int i = 0; i < 3; ++i) {
    const auto found = set.find(entry.request);
    REQUIRE(found);
    CHECK(found->bundle->name() == "/good.epb");
    CHECK(same_entry(found->entry, entry));
  }
  REQUIRE(log.warnings.size() == 3);
  CHECK(log.warnings[0].find("/missing.epb") != std::string::npos);
  CHECK(log.warnings[1] == "a bundle is not used: /text.epb is no bundle");
  CHECK(log.warnings[2].find("the bundle /damaged.epb is damaged: part") != std::string::npos);
  CHECK(set.problems() == log.warnings);
}

TEST_CASE("the nearest kernel, and what differs") {
  const BundleEntry wanted = sample_entry("gate", 64);
  BundleEntry other = sample_entry("gate", 128);
  CHECK(differs(other, wanted) == "the dim K");
  other.label.dims["E"] = 16;
  CHECK(differs(other, wanted) == "the dims E, K");
  other = wanted;
  other.request = "request 1\nkernel gate\nwithout bias\n";
  other.label.left_out = {"bias"};
  CHECK(differs(other, wanted) == "what is left out");
  other.label.schedule = "wide";
  CHECK(differs(other, wanted) == "what is left out and the plan that is asked for");
  other = wanted;
  other.label.target = "sm_80";
  CHECK(differs(other, wanted) == "the target");
  // A `const`, a type, an option: only the text of the request has them.
  other = wanted;
  other.request = "request 1\nkernel gate\n  dim K = 64\n  %1 = const 3\ntarget sm_90a\n";
  BundleEntry seven = wanted;
  seven.request = "request 1\nkernel gate\n  dim K = 64\n  %1 = const 7\ntarget sm_90a\n";
  CHECK(differs(other, seven) == "the kernel's text: '%1 = const 3' there, '%1 = const 7' here");

  MemoryFileSystem disk;
  BundleSet set(disk, {}, nullptr);
  BundleEntry far = sample_entry("gate", 4096);
  far.label.target = "sm_80";
  REQUIRE(set.add(encoded({far, sample_entry("gate", 128), sample_entry("down", 64)}), "b"));
  CHECK(set.nearest(wanted.request, wanted.label)->label.dims.at("K") == 128);
  CHECK_FALSE(set.nearest("request 1\n", sample_entry("other", 64).label));
}

TEST_CASE("a kernel that is there and cannot be found or read says why, and not that nothing differs") {
  const BundleEntry wanted = sample_entry("gate", 64);
  const std::string good = encoded({wanted});
  MemoryFileSystem disk;
  const auto differs_in = [&](const std::string& bytes) {
    BundleSet set(disk, {}, nullptr);
    REQUIRE(set.add(bytes, "b.epb"));
    CHECK(!set.find(wanted.request));
    return set.nearest(wanted.request, wanted.label)->differs;
  };
  const uint64_t parts = cache::bundle::number_at<uint64_t>(good, 32), row = cache::bundle::places(1, parts).entries;
  std::string bytes = good;
  bytes[row] = static_cast<char>(bytes[row] + 1);
  CHECK(differs_in(with_checksums(bytes, 1, parts)).starts_with("nothing but the digest of the request"));
  bytes = good;
  bytes[good.find("ELF of gate")] = 'e';
  CHECK(differs_in(bytes).find("does not have its checksum") != std::string::npos);
}
