// The bytes of a bundle: what is written is found again, equal input gives equal bytes, and no bytes whatsoever make
// the reader crash or give a kernel that nobody wrote.
#include "cache/bundle_format.h"

#include <algorithm>
#include <random>

#include "base/digest.h"
#include "base/version.h"
#include "tests/bundle/sample_bundle.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;
using cache::BundleEntry;
using cache::BundlePtr;
using cache::BundleReader;

namespace {

std::vector<BundleEntry> two() { return {sample_entry("gate", 64), sample_entry("down", 128, 300)}; }

std::vector<BundleEntry> many() {
  std::vector<BundleEntry> entries;
  for (int kernel = 0; kernel < 12; ++kernel)
    for (const int64_t k : {64, 128, 256, 512})
      entries.push_back(sample_entry("kernel" + std::to_string(kernel), k, 2000 + 100 * static_cast<size_t>(kernel)));
  return entries;
}

// Whatever a damaged bundle answers: an entry that was written, byte for byte, or none, or an error that says damage.
void check_answers(const std::string& bytes, const std::vector<BundleEntry>& written) {
  const Result<BundlePtr> bundle = BundleReader::from_bytes(bytes, "b.epb");
  if (!bundle) {
    CHECK(bundle.error().kind == ErrorKind::wrong);
    CHECK(bundle.error().message.find("b.epb") != std::string::npos);
    return;
  }
  for (const BundleEntry& entry : written) {
    const Result<std::optional<size_t>> found = (*bundle)->find(entry.request);
    if (!found) {
      CHECK(found.error().kind == ErrorKind::wrong);
      continue;
    }
    REQUIRE(*found);  // the index is whole, so an entry that is written is there
    const Result<BundleEntry> read = (*bundle)->entry(**found);
    if (read)
      CHECK(same_entry(*read, entry));
    else
      CHECK(read.error().message.find("damaged") != std::string::npos);
  }
}

std::string with_version(std::string bytes, uint32_t version) {
  for (size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<char>(version >> (8 * i));
  bytes.resize(bytes.size() - cache::bundle::digest_bytes);
  const Digest whole = digest(bytes);
  cache::bundle::append(bytes, whole);
  return bytes;
}

}  // namespace

TEST_CASE("a bundle gives back what was put in, by request and by name") {
  const std::vector<BundleEntry> entries = many();
  const BundlePtr bundle = opened(encoded(entries));
  CHECK(bundle->size() == entries.size());
  REQUIRE(bundle->verify());
  for (const BundleEntry& entry : entries) {
    const auto by_request = bundle->find(entry.request);
    REQUIRE(by_request);
    REQUIRE(*by_request);
    CHECK(same_entry(*bundle->entry(**by_request), entry));
    const auto by_name = bundle->find(entry.label.kernel, "sm_90a", entry.label.dims);
    REQUIRE(by_name);
    CHECK(*by_name == std::vector<size_t>{**by_request});
  }
  CHECK(!*bundle->find("request 1\nkernel other\n"));
  CHECK(bundle->find("kernel1", "sm_90a", {{"E", 8}})->empty());  // a dim is missing
  CHECK(bundle->find("kernel1", "sm_80", {{"E", 8}, {"K", 64}})->empty());
  CHECK(bundle->find_kernel("kernel1")->size() == 4);  // and not those of kernel10
  CHECK(bundle->find_kernel("kernel")->empty());
  CHECK(bundle->find_kernel("")->size() == entries.size());
}

TEST_CASE("several entries may have one name: what is left out, or asked for, tells them apart") {
  BundleEntry plain = sample_entry("gate", 64), without = plain, asked = plain;
  without.label.left_out = {"bias"};
  without.request = "request 1\nkernel gate\n  left out\ntarget sm_90a\nwithout bias\n";
  asked.label.schedule = "pingpong 128x192";
  asked.request = "request 1\nkernel gate\ntarget sm_90a\nschedule pingpong 128x192\n";
  const BundlePtr bundle = opened(encoded({asked, without, plain}));
  const auto found = bundle->find("gate", "sm_90a", plain.label.dims);
  REQUIRE(found);
  REQUIRE(found->size() == 3);
  CHECK(*bundle->label((*found)[0]) == plain.label);
  CHECK(*bundle->label((*found)[1]) == asked.label);
  CHECK(*bundle->label((*found)[2]) == without.label);
}

TEST_CASE("equal entries give equal bytes, in whatever order and however often they come") {
  std::vector<BundleEntry> entries = many();
  const std::string bytes = encoded(entries);
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(entries.begin(), entries.end(), random);
    entries.push_back(entries.front());
    CHECK(encoded(entries) == bytes);
  }
}

TEST_CASE("what equal entries share is stored once, and cubins lie where a driver may read them") {
  const std::string one = encoded({sample_entry("gate", 64, 5000)}), four = encoded({
                                                                         sample_entry("gate", 64, 5000),
                                                                         sample_entry("gate", 128, 5000),
                                                                         sample_entry("gate", 256, 5000),
                                                                         sample_entry("gate", 512, 5000),
                                                                     });
  CHECK(four.size() < one.size() + 2500);
  const BundlePtr bundle = opened(four);
  const char* shared = bundle->entry(0)->cubin.data();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(bundle->entry(i)->cubin.data() == shared);  // no copies
    CHECK(bundle->cubin_part(i) == bundle->cubin_part(0));
  }
  // From a file, the place in the mapping is the place in the file.
  const ScratchDirectory folder;
  REQUIRE(real_file_system().write_atomically(folder / "b.epb", four));
  Result<BundlePtr> mapped = BundleReader::open(real_file_system(), folder / "b.epb");
  REQUIRE(mapped);
  const Result<BundleEntry> entry = (*mapped)->entry(2);
  CHECK(reinterpret_cast<uintptr_t>(entry->cubin.data()) % cache::bundle::cubin_alignment == 0);
  // An entry's bytes outlive the reader and the file's name.
  REQUIRE(real_file_system().remove(folder / "b.epb"));
  const std::string before(entry->cubin.view());
  mapped = BundlePtr();
  CHECK(entry->cubin.view() == before);
}

TEST_CASE("an empty bundle is a bundle") {
  const BundlePtr bundle = opened(encoded({}));
  CHECK(bundle->size() == 0);
  CHECK(bundle->verify());
  CHECK(!*bundle->find("request 1\n"));
  CHECK(bundle->find_kernel("")->empty());
}

TEST_CASE("two answers to one request are refused by name") {
  BundleEntry other = sample_entry("gate", 64);
  other.cubin = "another";
  const Result<std::string> bytes = cache::encode_bundle({sample_entry("gate", 64), other});
  REQUIRE_FALSE(bytes);
  CHECK(bytes.error().kind == ErrorKind::user);
  CHECK(bytes.error().message.find("kernel 'gate' for sm_90a with E=8,K=64") != std::string::npos);
}

TEST_CASE("every byte of a bundle of two kernels, changed in two ways: never a crash, never a wrong kernel") {
  const std::vector<BundleEntry> entries = two();
  const std::string good = encoded(entries);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char change : {'\x01', '\xff'}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      INFO("byte " << at);
      check_answers(bytes, entries);
      const Result<BundlePtr> bundle = BundleReader::from_bytes(bytes, "b.epb");
      if (!bundle) continue;
      const Status whole = (*bundle)->verify();
      REQUIRE_FALSE(whole);
      CHECK(whole.error().kind == ErrorKind::wrong);
    }
  }
}

TEST_CASE("one byte in 64 of a larger bundle, changed") {
  const std::vector<BundleEntry> entries = many();
  const std::string good = encoded(entries);
  for (size_t at = 0; at < good.size(); at += 64) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
    INFO("byte " << at);
    check_answers(bytes, entries);
  }
}

TEST_CASE("a bundle that is cut short or goes on behind its end is refused, at every length") {
  const std::string good = encoded(two());
  for (size_t length = 0; length < good.size(); ++length) {
    INFO("length " << length);
    const Result<BundlePtr> bundle = BundleReader::from_bytes(good.substr(0, length), "b.epb");
    REQUIRE_FALSE(bundle);
    CHECK(bundle.error().kind == ErrorKind::wrong);
  }
  CHECK(BundleReader::from_bytes(good.substr(0, good.size() - 1), "b")
            .error()
            .message.find(fmt::format("{} of {} bytes", good.size() - 1, good.size())) != std::string::npos);
  CHECK(BundleReader::from_bytes(good + "x", "b").error().message.find("behind its end") != std::string::npos);
}

TEST_CASE("a bundle of a newer Epifuse is refused as such, and an unknown file as none") {
  const std::string newer = with_version(encoded(two()), bundle_version + 1);
  const Result<BundlePtr> bundle = BundleReader::from_bytes(newer, "b.epb");
  REQUIRE_FALSE(bundle);
  CHECK(bundle.error().kind == ErrorKind::user);
  CHECK(bundle.error().message.find("version 2 and was written by a newer Epifuse; this one reads 1") !=
        std::string::npos);
  for (const char* text : {"", "EPI", "hello, world", "PK\x03\x04"})
    CHECK(BundleReader::from_bytes(std::string(text), "b.epb").error().message == "b.epb is no bundle");
}

TEST_CASE("an index with the right checksum and impossible numbers is refused") {
  const std::string good = encoded(two());
  const uint64_t entries = 2, parts = cache::bundle::number_at<uint64_t>(good, 32);
  const cache::bundle::Places at = cache::bundle::places(entries, parts);
  const auto refused = [&](uint64_t offset, uint64_t value, size_t size, const char* message) {
    std::string bytes = good;
    for (size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
    const Result<BundlePtr> bundle = BundleReader::from_bytes(with_checksums(bytes, entries, parts), "b");
    REQUIRE_FALSE(bundle);
    CHECK(bundle.error().message.find(message) != std::string::npos);
  };
  refused(at.entries + 16, parts, 4, "a part that is none");
  refused(at.entries + 16 + 20, 0xffffffff, 4, "a part that is none");
  refused(at.entries, ~uint64_t{0}, 8, "not sorted");
  refused(at.names, 2, 4, "the index of names");
  refused(at.parts, 0, 8, "outside");
  refused(at.parts, good.size(), 8, "outside");
  refused(at.parts, ~uint64_t{0}, 8, "outside");
  refused(at.parts + 8, good.size(), 8, "outside");
  refused(at.parts + 8, ~uint64_t{0} - 63, 8, "outside");
  // The numbers of entries and parts are those of the places above, so they are damaged by hand.
  for (const uint64_t offset : {24, 32})
    for (const uint64_t value : {~uint64_t{0}, uint64_t{1} << 60, uint64_t{good.size()}, uint64_t{0}}) {
      std::string bytes = good;
      for (size_t i = 0; i < 8; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
      CHECK_FALSE(BundleReader::from_bytes(bytes, "b"));
    }
}

TEST_CASE("bytes without a meaning are zero, or the bundle is no good") {
  const std::string good = encoded(two());
  const uint64_t entries = 2, parts = cache::bundle::number_at<uint64_t>(good, 32);
  CHECK(opened(good)->verify());
  // In the header, and the last of a gap: in front of the cubins, which begin at multiples of 256, there is one.
  const std::string_view elf(
      "\x7f"
      "ELF");
  const size_t first_cubin = good.find(elf);
  REQUIRE(first_cubin % cache::bundle::cubin_alignment == 0);
  for (const size_t place : {size_t{12}, size_t{15}, size_t{40}, size_t{63}, first_cubin - 1}) {
    REQUIRE(good[place] == 0);
    std::string bytes = good;
    bytes[place] = 1;
    const Status verified = opened(with_checksums(bytes, entries, parts))->verify();
    REQUIRE(!verified);
    CHECK(verified.error().kind == ErrorKind::wrong);
    CHECK(verified.error().message ==
          fmt::format("the bundle sample.epb is damaged: byte {}, which has no meaning, is not zero", place));
  }
  // Three entries have 12 bytes of names, and padding behind them.
  const std::string three = encoded({sample_entry("a", 64), sample_entry("b", 64), sample_entry("c", 64)});
  const uint64_t three_parts = cache::bundle::number_at<uint64_t>(three, 32);
  std::string bytes = three;
  bytes[cache::bundle::places(3, three_parts).parts - 1] = 1;
  CHECK(opened(three)->verify());
  CHECK(!opened(with_checksums(bytes, 3, three_parts))->verify());
}

TEST_CASE("tables of any bytes, with right checksums: whatever is asked, nothing outside is read") {
  const std::string good = encoded(two());
  const uint64_t entries = 2, parts = cache::bundle::number_at<uint64_t>(good, 32);
  const cache::bundle::Places at = cache::bundle::places(entries, parts);
  std::mt19937 random(11);
  int opened = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good;
    for (int change = 0; change <= i % 3; ++change) {
      const size_t place = at.entries + random() % (at.index_digest - at.entries);
      // Small numbers hit what is allowed more often than any byte.
      bytes[place] = static_cast<char>(i % 2 == 0 ? random() % 16 : random());
    }
    const Result<BundlePtr> bundle = BundleReader::from_bytes(with_checksums(bytes, entries, parts), "b");
    if (!bundle) continue;
    ++opened;
    // Parts may be exchanged, by who can make checksums; each is still one that is there.
    for (size_t entry = 0; entry < (*bundle)->size(); ++entry)
      if (const Result<BundleEntry> read = (*bundle)->entry(entry); read)
        for (const SharedBytes* part : {&read->request, &read->info, &read->recipe, &read->image, &read->cubin})
          CHECK(good.find(part->view()) != std::string::npos);
    static_cast<void>((*bundle)->verify());
    if (const auto all = (*bundle)->find_kernel(""); all) CHECK(all->size() <= 2);
    for (const BundleEntry& entry : two()) {
      const auto found = (*bundle)->find(entry.request);
      // The text decides: what is found by a request has it.
      if (found && *found) CHECK((*bundle)->request(**found)->view() == entry.request.view());
    }
  }
  CHECK(opened > 100);
}

TEST_CASE("a text of a label stands for itself alone") {
  const cache::BundleLabel label = {"fc1", "sm_90a", {{"E", 8}, {"K", 7168}}, {"bias", "prob"}, "pingpong 128x192"};
  CHECK(label.text() ==
        "kernel fc1\ntarget sm_90a\ndims E=8,K=7168\nwithout bias\nwithout prob\nschedule pingpong 128x192\n");
  CHECK(*cache::BundleLabel::parse(label.text()) == label);
  for (const char* text :
       {"", "kernel fc1\n", "kernel fc1\ntarget sm_90a\n", "kernel a\ntarget b\ndims E\n",
        "kernel a\ntarget b\ndims E=\n", "kernel a\ntarget b\ndims E=1x\n", "kernel a\ntarget b\ndims E=1,\n",
        "kernel a\ntarget b\ndims F=1,E=2\n", "kernel a\ntarget b\ndims E=1\nmore\n", "kernel a\ntarget b\ndims E=1"})
    CHECK_FALSE(cache::BundleLabel::parse(text));
}

TEST_CASE("a label that stands for kernels of several texts is ambiguous, once") {
  BundleEntry gate = sample_entry("gate", 64), edited = gate, again = gate;
  edited.request = std::string(gate.request.view()) + "x\n";
  again.request = std::string(gate.request.view()) + "y\n";
  CHECK(cache::ambiguous_labels(many()).empty());
  CHECK(cache::ambiguous_labels({gate, gate}).empty());
  const auto labels = cache::ambiguous_labels({gate, sample_entry("down", 64), edited, again});
  REQUIRE(labels.size() == 1);
  CHECK(labels[0] == gate.label);
}
