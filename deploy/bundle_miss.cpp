#include "deploy/bundle_miss.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/target.h"

namespace epifuse::deploy {
namespace {

// A word as a shell reads it.
std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-./=,+:@").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Names of `of` that `in` does not have, as a list.
std::string names_beyond(const cache::BundleLabel& of, const cache::BundleLabel& in) {
  std::vector<std::string> names;
  for (const auto& [name, value] : of.dims)
    if (!in.dims.contains(name)) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Why no command builds what is wanted; empty: one does. Of a kernel that no bundle has under this name, its dims are
// not known here.
std::string why_not_built(cache::BundleSet& bundles, std::string_view request, const cache::BundleLabel& wanted) {
  if (const Result<Target> target = parse_target(wanted.target); !target)
    return fmt::format("it cannot be built: {}", target.error().message);
  const auto nearest = bundles.nearest(request, wanted);
  if (!nearest) return "";
  const std::string missing = names_beyond(nearest->label, wanted), unknown = names_beyond(wanted, nearest->label);
  if (!missing.empty()) return fmt::format("to find it, name a number for every dim of the kernel: {} too", missing);
  if (!unknown.empty()) return fmt::format("to find it, name the kernel's own dims: it has no {}", unknown);
  return "";
}

}  // namespace

std::string prebuild_command(const cache::BundleLabel& label, const std::string& spec) {
  std::string text =
      fmt::format("epifuse prebuild {} --kernel {}", spec.empty() ? "SPEC" : quoted(spec), quoted(label.kernel));
  if (!label.dims.empty()) text += " --dims " + quoted(cache::dims_text(label.dims));
  for (const std::string& name : label.left_out) text += " --without " + quoted(name);
  if (!label.schedule.empty()) text += " --schedule " + quoted(label.schedule);
  return text + fmt::format(" --target {} -o FILE", quoted(label.target));
}

std::string explain_what_differs(cache::BundleSet& bundles, std::string_view request,
                                 const cache::BundleLabel& wanted) {
  const std::string text = fmt::format("{} is in no bundle", cache::describe(wanted));
  if (const auto nearest = bundles.nearest(request, wanted))
    return text + fmt::format("\n  nearest: {} has {}\n  what differs: {}", nearest->bundle->name(),
                              cache::describe(nearest->label), nearest->differs);
  const std::vector<std::string> names = bundles.names(), kernels = bundles.kernels();
  return text + fmt::format("\n  {} {}: {}", fmt::join(names, " and "), names.size() > 1 ? "have" : "has",
                            kernels.empty() ? "nothing" : fmt::format("{}", fmt::join(kernels, ", ")));
}

std::string explain_miss(cache::BundleSet& bundles, std::string_view request, const cache::BundleLabel& wanted) {
  if (bundles.names().empty()) return fmt::format("{} is not there: there is no bundle", cache::describe(wanted));
  const std::string text = explain_what_differs(bundles, request, wanted);
  const std::string obstacle = why_not_built(bundles, request, wanted);
  return text + (obstacle.empty() ? "\n  to build it: " + prebuild_command(wanted) : "\n  " + obstacle);
}

bool is_request(std::string_view text) {
  if (!text.starts_with("request ")) return false;
  const cache::BundleLabel label = label_of_request(text);
  return !label.kernel.empty() && !label.target.empty();
}

cache::BundleLabel label_of_request(std::string_view request) {
  constexpr std::string_view kernel = "kernel ", dim = "  dim ", target = "target ", without = "without ",
                             schedule = "schedule ";
  cache::BundleLabel label;
  while (!request.empty()) {
    const std::string_view line = request.substr(0, request.find('\n'));
    request.remove_prefix(std::min(line.size() + 1, request.size()));
    const auto rest = [&](std::string_view word) { return std::string(line.substr(word.size())); };
    if (line.starts_with(kernel)) label.kernel = rest(kernel);
    if (line.starts_with(target)) label.target = rest(target);
    if (line.starts_with(without)) label.left_out.insert(rest(without));
    if (line.starts_with(schedule)) label.schedule = rest(schedule);
    if (const size_t equal = line.find(" = "); line.starts_with(dim) && equal != std::string_view::npos) {
      int64_t value = 0;
      const auto [stop, failed] = std::from_chars(line.data() + equal + 3, line.data() + line.size(), value);
      if (failed == std::errc()) label.dims[std::string(line.substr(dim.size(), equal - dim.size()))] = value;
    }
  }
  return label;
}

}  // namespace epifuse::deploy
