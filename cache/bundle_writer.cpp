#include "cache/bundle_writer.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <set>

#include "base/version.h"
#include "cache/bundle_format.h"

namespace epifuse::cache {
namespace {

// What is to be written for an entry.
struct Row {
  Digest digest;  // of the request
  std::string label;
  const BundleEntry* entry;

  std::string_view bytes(size_t part) const {
    switch (part) {
      case bundle::request: return entry->request;
      case bundle::label: return label;
      case bundle::info: return entry->info;
      case bundle::recipe: return entry->recipe;
      case bundle::image: return entry->image;
      default: return entry->cubin;
    }
  }
  auto order() const { return std::tuple(digest.high, digest.low, entry->request.view()); }
};

bool same_bytes(const Row& a, const Row& b) {
  for (size_t part = 0; part < bundle::part_count; ++part)
    if (a.bytes(part) != b.bytes(part)) return false;
  return true;
}

// Distinct bytes, each with its place among all parts. Texts come first, so that a listing reads the front of the file
// alone; then the cubins.
struct PartTable {
  using Key = std::pair<bool, std::string_view>;  // whether it is a cubin, bytes
  std::map<Key, uint32_t> numbers;

  static Key key(const Row& row, size_t part) { return {part == bundle::cubin, row.bytes(part)}; }

  explicit PartTable(const std::vector<Row>& rows) {
    for (const Row& row : rows)
      for (size_t part = 0; part < bundle::part_count; ++part) numbers.emplace(key(row, part), 0);
    uint32_t next = 0;
    for (auto& [bytes, number] : numbers) number = next++;
  }
};

void pad_to(std::string& out, uint64_t alignment) { out.resize(bundle::round_up(out.size(), alignment), '\0'); }

}  // namespace

Result<std::string> encode_bundle(std::vector<BundleEntry> entries) {
  std::vector<Row> rows;
  for (const BundleEntry& entry : entries) rows.push_back({digest(entry.request), entry.label.text(), &entry});
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.order() < b.order(); });
  for (size_t i = 1; i < rows.size(); ++i)
    if (rows[i - 1].order() == rows[i].order() && !same_bytes(rows[i - 1], rows[i]))
      return user_error(fmt::format("{} is there twice, and not the same", describe(rows[i].entry->label)));
  rows.erase(std::unique(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.order() == b.order(); }),
             rows.end());

  const PartTable parts(rows);
  const bundle::Places at = bundle::places(rows.size(), parts.numbers.size());
  uint64_t end = at.end;
  std::string part_rows;
  for (const auto& [key, number] : parts.numbers) {
    const auto& [is_cubin, bytes] = key;
    end = bundle::round_up(end, is_cubin ? bundle::cubin_alignment : bundle::part_alignment);
    bundle::append(part_rows, end);
    bundle::append(part_rows, uint64_t{bytes.size()});
    bundle::append(part_rows, digest(bytes));
    end += bytes.size();
  }

  std::string out;
  out.reserve(end + bundle::digest_bytes);
  out += bundle::magic;
  bundle::append(out, static_cast<uint32_t>(bundle_version));
  bundle::append(out, uint32_t{0});
  bundle::append(out, end + bundle::digest_bytes);
  bundle::append(out, uint64_t{rows.size()});
  bundle::append(out, uint64_t{parts.numbers.size()});
  out.resize(bundle::header_bytes, '\0');
  for (const Row& row : rows) {
    bundle::append(out, row.digest);
    for (size_t part = 0; part < bundle::part_count; ++part)
      bundle::append(out, parts.numbers.at(PartTable::key(row, part)));
  }
  std::vector<uint32_t> by_name(rows.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::stable_sort(by_name.begin(), by_name.end(),
                   [&](uint32_t a, uint32_t b) { return rows[a].label < rows[b].label; });
  for (const uint32_t row : by_name) bundle::append(out, row);
  pad_to(out, 8);
  out += part_rows;
  bundle::append(out, digest(out));
  for (const auto& [key, number] : parts.numbers) {
    pad_to(out, key.first ? bundle::cubin_alignment : bundle::part_alignment);
    out += key.second;
  }
  bundle::append(out, digest(out));
  return out;
}

std::vector<BundleLabel> ambiguous_labels(const std::vector<BundleEntry>& entries) {
  std::map<std::string, std::set<std::string_view>> requests;
  std::vector<BundleLabel> found;
  for (const BundleEntry& entry : entries) {
    std::set<std::string_view>& of_label = requests[entry.label.text()];
    if (of_label.insert(entry.request.view()).second && of_label.size() == 2) found.push_back(entry.label);
  }
  return found;
}

}  // namespace epifuse::cache
