#include "cache/bundle_reader.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "base/version.h"
#include "cache/bundle_format.h"

namespace epifuse::cache {
namespace {

using bundle::digest_at;
using bundle::number_at;

// Digests as they lie in the table: the high half decides first.
bool before(const Digest& a, const Digest& b) { return std::pair(a.high, a.low) < std::pair(b.high, b.low); }

}  // namespace

Result<BundlePtr> BundleReader::open(FileSystem& disk, const std::string& path) {
  Result<SharedBytes> bytes = disk.map(path);
  if (!bytes) {
    const FileStatus status = disk.target_status(path);
    if (!status.exists) return user_error(fmt::format("there is no file '{}'", path));
    if (status.is_directory) return user_error(fmt::format("'{}' is a directory, and no bundle", path));
    if (status.is_special) return user_error(fmt::format("'{}' is no regular file, and no bundle", path));
    return bytes.error();
  }
  return from_bytes(*std::move(bytes), path);
}

Result<BundlePtr> BundleReader::from_bytes(SharedBytes bytes, std::string name) {
  std::shared_ptr<BundleReader> reader(new BundleReader(std::move(bytes), std::move(name)));
  if (Status good = reader->check_index(); !good) return good.error();
  return BundlePtr(std::move(reader));
}

Error BundleReader::damaged(std::string_view what) const {
  return {ErrorKind::wrong, fmt::format("the bundle {} is damaged: {}", name_, what)};
}

Status BundleReader::check_index() {
  const std::string_view bytes = view();
  if (bytes.size() < bundle::magic.size() || bytes.substr(0, bundle::magic.size()) != bundle::magic)
    return Error{ErrorKind::wrong, fmt::format("{} is no bundle", name_)};
  if (bytes.size() < bundle::header_bytes + 2 * bundle::digest_bytes) return damaged("it is cut short");
  const auto version = number_at<uint32_t>(bytes, 8);
  // Told from damage by the checksum at the end, which every version has.
  if (version != static_cast<uint32_t>(bundle_version)) {
    const size_t body = bytes.size() - bundle::digest_bytes;
    if (digest_at(bytes, body) != digest(bytes.substr(0, body))) return damaged("its version is none");
    return user_error(
        fmt::format("the bundle {} has version {} and was written by {} Epifuse; this one reads {}", name_, version,
                    version > static_cast<uint32_t>(bundle_version) ? "a newer" : "an older", bundle_version));
  }
  const auto size = number_at<uint64_t>(bytes, 16), entries = number_at<uint64_t>(bytes, 24),
             parts = number_at<uint64_t>(bytes, 32);
  if (size > bytes.size()) return damaged(fmt::format("it is cut short: {} of {} bytes are there", bytes.size(), size));
  if (size < bytes.size()) return damaged(fmt::format("there are {} bytes behind its end", bytes.size() - size));
  // In this order, so that no product overflows.
  const uint64_t most = bytes.size() / bundle::part_bytes;
  if (entries > most || parts > most) return damaged("the index does not fit");
  const bundle::Places at = bundle::places(entries, parts);
  if (at.end + bundle::digest_bytes > size) return damaged("the index does not fit");
  if (digest_at(bytes, at.index_digest) != digest(bytes.substr(0, at.index_digest)))
    return damaged("the index does not have its checksum");

  // What follows can only be wrong in a file that somebody made so.
  entries_ = entries;
  parts_ = parts;
  for (size_t i = 0; i < parts; ++i) {
    const uint64_t row = at.parts + i * bundle::part_bytes;
    const auto offset = number_at<uint64_t>(bytes, row), length = number_at<uint64_t>(bytes, row + 8);
    const uint64_t end = size - bundle::digest_bytes;
    if (offset < at.end || offset > end || length > end - offset) return damaged("a part lies outside");
  }
  for (size_t i = 0; i < entries; ++i) {
    for (size_t which = 0; which < bundle::part_count; ++which)
      if (part_of(i, which) >= parts) return damaged("an entry has a part that is none");
    const uint64_t row = at.entries + i * bundle::entry_bytes;
    if (i > 0 && before(digest_at(bytes, row), digest_at(bytes, row - bundle::entry_bytes)))
      return damaged("the entries are not sorted");
    if (named(i) >= entries) return damaged("the index of names does not fit");
  }
  return {};
}

uint32_t BundleReader::part_of(size_t entry, size_t which) const {
  const uint64_t row = bundle::places(entries_, parts_).entries + entry * bundle::entry_bytes;
  return number_at<uint32_t>(view(), row + bundle::digest_bytes + 4 * which);
}

uint32_t BundleReader::named(size_t place) const {
  return number_at<uint32_t>(view(), bundle::places(entries_, parts_).names + place * bundle::name_bytes);
}

uint32_t BundleReader::cubin_part(size_t entry) const { return part_of(entry, bundle::cubin); }

Result<SharedBytes> BundleReader::part(uint32_t number) const {
  const uint64_t row = bundle::places(entries_, parts_).parts + uint64_t{number} * bundle::part_bytes;
  const SharedBytes bytes =
      bytes_.part(number_at<uint64_t>(view(), row), static_cast<size_t>(number_at<uint64_t>(view(), row + 8)));
  if (digest(bytes) != digest_at(view(), row + 16))
    return damaged(fmt::format("part {} does not have its checksum", number));
  return bytes;
}

Result<std::optional<size_t>> BundleReader::find(std::string_view wanted) const {
  const Digest key = digest(wanted);
  const uint64_t table = bundle::places(entries_, parts_).entries;
  const auto digest_of = [&](size_t entry) { return digest_at(view(), table + entry * bundle::entry_bytes); };
  size_t first = 0, end = entries_;
  while (first < end) {
    const size_t middle = first + (end - first) / 2;
    if (before(digest_of(middle), key))
      first = middle + 1;
    else
      end = middle;
  }
  for (; first < entries_ && digest_of(first) == key; ++first) {
    const Result<SharedBytes> stored = request(first);
    if (!stored) return stored.error();
    if (stored->view() == wanted) return {first};
  }
  return {std::nullopt};
}

Result<std::vector<size_t>> BundleReader::with_prefix(std::string_view prefix) const {
  size_t first = 0, end = entries_;
  while (first < end) {
    const size_t middle = first + (end - first) / 2;
    const Result<SharedBytes> text = part(part_of(named(middle), bundle::label));
    if (!text) return text.error();
    if (text->view() < prefix)
      first = middle + 1;
    else
      end = middle;
  }
  std::vector<size_t> found;
  for (; first < entries_; ++first) {
    const Result<SharedBytes> text = part(part_of(named(first), bundle::label));
    if (!text) return text.error();
    if (!text->view().starts_with(prefix)) break;
    found.push_back(named(first));
  }
  return found;
}

Result<std::vector<size_t>> BundleReader::find(const std::string& kernel, const std::string& target,
                                               const std::map<std::string, int64_t>& dims) const {
  BundleLabel wanted;
  wanted.kernel = kernel;
  wanted.target = target;
  wanted.dims = dims;
  return with_prefix(wanted.key_text());
}

Result<std::vector<size_t>> BundleReader::find_kernel(std::string_view kernel) const {
  return with_prefix(kernel.empty() ? "" : fmt::format("kernel {}\n", kernel));
}

Result<BundleLabel> BundleReader::label(size_t entry) const {
  const Result<SharedBytes> text = part(part_of(entry, bundle::label));
  if (!text) return text.error();
  Result<BundleLabel> label = BundleLabel::parse(*text);
  if (!label) return damaged(label.error().message);
  return label;
}

Result<SharedBytes> BundleReader::request(size_t entry) const { return part(part_of(entry, bundle::request)); }

Result<BundleEntry> BundleReader::entry(size_t index) const {
  BundleEntry entry;
  SharedBytes* const into[] = {&entry.request, nullptr, &entry.info, &entry.recipe, &entry.image, &entry.cubin};
  for (size_t which = 0; which < bundle::part_count; ++which) {
    if (!into[which]) continue;
    Result<SharedBytes> bytes = part(part_of(index, which));
    if (!bytes) return bytes.error();
    *into[which] = *std::move(bytes);
  }
  Result<BundleLabel> own = label(index);
  if (!own) return own.error();
  entry.label = *std::move(own);
  return entry;
}

// A later version may give what is unused a meaning; in this one it has none, and is written by no Epifuse.
Status BundleReader::check_unused() const {
  const bundle::Places at = bundle::places(entries_, parts_);
  std::vector<std::pair<uint64_t, uint64_t>> used = {{0, 12},
                                                     {16, 40},
                                                     {at.entries, at.names + entries_ * bundle::name_bytes},
                                                     {at.parts, at.end},
                                                     {bytes_.size() - bundle::digest_bytes, bytes_.size()}};
  for (size_t i = 0; i < parts_; ++i) {
    const uint64_t row = at.parts + i * bundle::part_bytes, offset = number_at<uint64_t>(view(), row);
    used.emplace_back(offset, offset + number_at<uint64_t>(view(), row + 8));
  }
  std::sort(used.begin(), used.end());
  uint64_t end = 0;
  for (const auto& [first, behind] : used) {
    for (; end < first; ++end)
      if (view()[end] != 0) return damaged(fmt::format("byte {}, which has no meaning, is not zero", end));
    end = std::max(end, behind);
  }
  return {};
}

Status BundleReader::verify() const {
  const size_t body = bytes_.size() - bundle::digest_bytes;
  if (digest_at(view(), body) != digest(view().substr(0, body))) {
    // The part that is hit says more than the sum over all.
    for (uint32_t number = 0; number < parts_; ++number)
      if (const Result<SharedBytes> bytes = part(number); !bytes) return bytes.error();
    return damaged("it does not have its checksum");
  }
  if (Status zeros = check_unused(); !zeros) return zeros;
  std::vector<bool> is_named(entries_, false);
  std::string last;
  for (size_t place = 0; place < entries_; ++place) {
    const size_t index = named(place);
    const Result<BundleEntry> read = entry(index);
    if (!read) return read.error();
    const uint64_t row = bundle::places(entries_, parts_).entries + index * bundle::entry_bytes;
    if (digest(read->request) != digest_at(view(), row))
      return damaged(fmt::format("{} is not found by its request", describe(read->label)));
    std::string text = read->label.text();
    if (is_named[index] || text < last) return damaged("the index of names is not sorted");
    is_named[index] = true;
    last = std::move(text);
  }
  return {};
}

}  // namespace epifuse::cache
