#include "cache/bundle_set.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace epifuse::cache {
namespace {

// The names whose numbers differ, or that only one of them has.
std::vector<std::string> differing_dims(const BundleLabel& a, const BundleLabel& b) {
  std::vector<std::string> names;
  for (const auto& [name, value] : a.dims)
    if (const auto other = b.dims.find(name); other == b.dims.end() || other->second != value) names.push_back(name);
  for (const auto& [name, value] : b.dims)
    if (!a.dims.contains(name)) names.push_back(name);
  return names;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view("(nothing)") : line.substr(first);
}

struct Difference {
  int weight = 0;  // how far apart; a target is further away than any dim
  std::string text;
};

Difference difference(const BundleLabel& has, const BundleLabel& wanted) {
  std::vector<std::string> parts;
  int weight = 0;
  if (has.target != wanted.target) {
    parts.push_back("the target");
    weight += 1000;
  }
  if (const std::vector<std::string> dims = differing_dims(has, wanted); !dims.empty()) {
    parts.push_back(fmt::format("the dim{} {}", dims.size() > 1 ? "s" : "", fmt::join(dims, ", ")));
    weight += 10 * static_cast<int>(dims.size());
  }
  if (has.left_out != wanted.left_out) {
    parts.push_back("what is left out");
    weight += 5;
  }
  if (has.schedule != wanted.schedule) {
    parts.push_back("the plan that is asked for");
    weight += 2;
  }
  return {weight, fmt::format("{}", fmt::join(parts, " and "))};
}

}  // namespace

std::string differing_line(std::string_view has, std::string_view wanted) {
  while (!has.empty() || !wanted.empty()) {
    const std::string_view a = next_line(has), b = next_line(wanted);
    if (a != b) return fmt::format("the kernel's text: '{}' there, '{}' here", trimmed(a), trimmed(b));
  }
  return "nothing but the digest of the request, by which it is not found: the bundle is damaged";
}

BundleSet::BundleSet(FileSystem& disk, std::vector<std::string> paths, LogSink log)
    : disk_(disk), log_(std::move(log)), paths_(std::move(paths)) {}

void BundleSet::warn_once(const std::string& text) {
  if (std::find(problems_.begin(), problems_.end(), text) != problems_.end()) return;
  problems_.push_back(text);
  if (log_) log_(LogLevel::warn, text);
}

std::vector<BundlePtr> BundleSet::bundles() {
  const std::lock_guard<std::mutex> guard(mutex_);
  for (const std::string& path : paths_) {
    Result<BundlePtr> opened = BundleReader::open(disk_, path);
    if (opened)
      bundles_.push_back(*std::move(opened));
    else
      warn_once(fmt::format("a bundle is not used: {}", opened.error().message));
  }
  paths_.clear();
  return bundles_;
}

Status BundleSet::add(const std::string& path) {
  Result<BundlePtr> opened = BundleReader::open(disk_, path);
  if (!opened) return opened.error();
  add(*std::move(opened));
  return {};
}

Status BundleSet::add(SharedBytes bytes, std::string name) {
  Result<BundlePtr> opened = BundleReader::from_bytes(std::move(bytes), std::move(name));
  if (!opened) return opened.error();
  add(*std::move(opened));
  return {};
}

void BundleSet::add(BundlePtr bundle) {
  bundles();  // those of the paths come first
  const std::lock_guard<std::mutex> guard(mutex_);
  bundles_.push_back(std::move(bundle));
}

bool BundleSet::any() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return !paths_.empty() || !bundles_.empty() || !problems_.empty();
}

std::optional<BundleSet::Found> BundleSet::find(std::string_view request) {
  for (const BundlePtr& bundle : bundles()) {
    const Result<std::optional<size_t>> index = bundle->find(request);
    Result<BundleEntry> entry = !index   ? Result<BundleEntry>(index.error())
                                : *index ? bundle->entry(**index)
                                         : Result<BundleEntry>(BundleEntry{});
    if (!entry) {
      const std::lock_guard<std::mutex> guard(mutex_);
      warn_once(fmt::format("a kernel of a bundle is not used: {}", entry.error().message));
      continue;
    }
    if (*index) return Found{bundle, *std::move(entry)};
  }
  return std::nullopt;
}

std::optional<BundleSet::Nearest> BundleSet::nearest(std::string_view request, const BundleLabel& label) {
  std::optional<Nearest> best;
  int least = 0;
  for (const BundlePtr& bundle : bundles()) {
    const Result<std::vector<size_t>> same_kernel = bundle->find_kernel(label.kernel);
    if (!same_kernel) continue;
    for (const size_t index : *same_kernel) {
      Result<BundleLabel> has = bundle->label(index);
      if (!has) continue;
      Difference apart = difference(*has, label);
      if (best && apart.weight >= least) continue;
      if (apart.weight == 0) {
        const Result<BundleEntry> entry = bundle->entry(index);
        apart.text = entry ? differing_line(entry->request, request) : entry.error().message;
      }
      least = apart.weight;
      best = Nearest{bundle, *std::move(has), std::move(apart.text)};
    }
  }
  return best;
}

std::vector<std::string> BundleSet::kernels() {
  std::set<std::string> found;
  for (const BundlePtr& bundle : bundles())
    for (size_t i = 0; i < bundle->size(); ++i)
      if (const Result<BundleLabel> label = bundle->label(i); label) found.insert(label->kernel);
  return {found.begin(), found.end()};
}

std::vector<std::string> BundleSet::names() {
  std::vector<std::string> list;
  for (const BundlePtr& bundle : bundles()) list.push_back(bundle->name());
  return list;
}

std::vector<std::string> BundleSet::problems() {
  bundles();
  const std::lock_guard<std::mutex> guard(mutex_);
  return problems_;
}

}  // namespace epifuse::cache
