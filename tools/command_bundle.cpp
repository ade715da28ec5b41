// bundle list, verify, extract, merge, diff: what is in bundles of prebuilt kernels. (embed: embed_bundle.h.)
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/kernel_image.h"
#include "cache/bundle_reader.h"
#include "cache/bundle_writer.h"
#include "jit/bundled_kernels.h"
#include "tools/bundle_labels.h"
#include "tools/commands.h"
#include "tools/count_text.h"
#include "tools/embed_bundle.h"
#include "tools/output_file.h"

namespace epifuse::tools {
namespace {

using cache::BundleEntry;
using cache::BundlePtr;
using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<BundlePtr> open(const std::string& path, Surroundings& world) {
  return cache::BundleReader::open(world.disk, path);
}

// An entry with all that it holds understood.
struct Kernel {
  BundleEntry entry;
  jit::BundleInfo info;
  KernelImage image;
  uint32_t cubin = 0;  // its number among the bundle's parts
};

Result<Kernel> read_kernel(const cache::BundleReader& bundle, size_t index) {
  Kernel kernel;
  Result<BundleEntry> entry = bundle.entry(index);
  if (!entry) return entry.error();
  kernel.entry = *std::move(entry);
  Result<jit::ReadEntry> read = jit::read_entry(kernel.entry, bundle.name());
  if (!read) return read.error();
  kernel.info = std::move(read->info);
  kernel.image = std::move(read->image);
  kernel.cubin = bundle.cubin_part(index);
  return kernel;
}

// In the order of their labels; of one kernel, where it is named.
Result<std::vector<Kernel>> read_kernels(const cache::BundleReader& bundle, const std::string& name = "") {
  const Result<std::vector<size_t>> order = bundle.find_kernel(name);
  if (!order) return order.error();
  if (!name.empty() && order->empty()) return user_error(fmt::format("{} has no kernel '{}'", bundle.name(), name));
  std::vector<Kernel> kernels;
  for (const size_t index : *order) {
    Result<Kernel> kernel = read_kernel(bundle, index);
    if (!kernel) return kernel.error();
    kernels.push_back(*std::move(kernel));
  }
  return kernels;
}

Json row_of(const Kernel& kernel) {
  const cache::BundleLabel& label = kernel.entry.label;
  Json refused = Json::array();
  for (const jit::BundleInfo::Refused& one : kernel.info.refused)
    refused.push_back({{"plan", one.plan}, {"reason", one.reason}});
  return {{"kernel", label.kernel},
          {"target", label.target},
          {"dims", label.dims},
          {"without", label.left_out},
          {"schedule", label.schedule.empty() ? Json() : Json(label.schedule)},
          {"plan", kernel.info.plan},
          {"tuned", !kernel.info.tuned.empty() && kernel.info.tuned == kernel.info.plan},
          {"key", kernel.info.key},
          {"request", digest(kernel.entry.request).hex()},
          {"source", kernel.info.source},
          {"registers", kernel.image.registers},
          {"spill_bytes", kernel.image.spill_bytes},
          {"cubin_bytes", kernel.entry.cubin.size()},
          {"cubin", kernel.cubin},
          {"refused", std::move(refused)},
          {"toolchain", kernel.info.toolchain},
          {"epifuse", kernel.info.epifuse}};
}

// Why two answers to one request are not the same; empty: they are.
std::string difference(const Kernel& a, const Kernel& b) {
  std::vector<std::string> parts;
  if (a.info.plan != b.info.plan) parts.push_back(fmt::format("plan {}, {}", a.info.plan, b.info.plan));
  if (a.info.toolchain != b.info.toolchain) parts.push_back("toolchain");
  if (a.info.epifuse != b.info.epifuse) parts.push_back(fmt::format("epifuse {}, {}", a.info.epifuse, b.info.epifuse));
  if (a.info.source != b.info.source) parts.push_back("source");
  if (a.entry.recipe.view() != b.entry.recipe.view()) parts.push_back("recipe");
  if (a.entry.cubin.view() != b.entry.cubin.view())
    parts.push_back(fmt::format("cubin ({} bytes, {})", a.entry.cubin.size(), b.entry.cubin.size()));
  if (a.entry.image.view() != b.entry.image.view()) parts.push_back("registers, spills or warnings");
  if (parts.empty() && a.entry.info.view() != b.entry.info.view()) parts.push_back("how it was made");
  return fmt::format("{}", fmt::join(parts, "; "));
}

// "fc1.sm_90a.E=8,K=7168.without-bias": a file's name, and no path. Entries with equal names get their requests'
// digests.
std::string file_name(const Kernel& kernel, bool is_unique) {
  const cache::BundleLabel& label = kernel.entry.label;
  std::string name = fmt::format("{}.{}", label.kernel, label.target);
  if (!label.dims.empty()) name += "." + cache::dims_text(label.dims);
  if (!label.left_out.empty()) name += fmt::format(".without-{}", fmt::join(label.left_out, "-"));
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
  if (name.starts_with('.')) name.front() = '_';
  return is_unique && name.size() < 200 ? name : name.substr(0, 160) + "." + digest(kernel.entry.request).hex();
}

}  // namespace

Report bundle_list(const CommandLine& line, Surroundings& world) {
  const Result<BundlePtr> bundle = open(line.specs.front(), world);
  if (!bundle) return failure(bundle.error());
  const Result<std::vector<Kernel>> kernels = read_kernels(**bundle, line.kernel);
  if (!kernels) return failure(kernels.error());
  Report report;
  Json rows = Json::array();
  std::set<uint32_t> cubins;
  std::set<std::string> toolchains;
  for (const Kernel& kernel : *kernels) {
    rows.push_back(row_of(kernel));
    cubins.insert(kernel.cubin);
    toolchains.insert(kernel.info.toolchain);
    const cache::BundleLabel& label = kernel.entry.label;
    report.text += fmt::format("{:28} {:8} {}{}{}  {}, {} bytes, request {}\n", label.kernel, label.target,
                               cache::dims_text(label.dims),
                               label.left_out.empty() ? "" : fmt::format(" without {}", fmt::join(label.left_out, ",")),
                               label.schedule.empty() ? "" : fmt::format(" as {}", label.schedule), kernel.info.plan,
                               kernel.entry.cubin.size(), digest(kernel.entry.request).hex());
  }
  report.text +=
      fmt::format("{}, {}, {} bytes; made by {}\n", kernels_text(kernels->size()),
                  count_text(cubins.size(), "cubin", "cubins"), (*bundle)->bytes(), fmt::join(toolchains, " and "));
  report.fields = dump({{"bundle", line.specs.front()},
                        {"bytes", (*bundle)->bytes()},
                        {"cubins", cubins.size()},
                        {"kernels", std::move(rows)}});
  return report;
}

Report bundle_verify(const CommandLine& line, Surroundings& world) {
  const Result<BundlePtr> bundle = open(line.specs.front(), world);
  if (!bundle) return failure(bundle.error());
  if (Status good = jit::verify_bundle(**bundle); !good) return failure(good.error());
  const size_t kernels = (*bundle)->size();
  Report report;
  report.text = fmt::format("{}: {}, every byte as it was written\n", line.specs.front(), kernels_text(kernels));
  report.fields = dump({{"bundle", line.specs.front()}, {"kernels", kernels}, {"good", true}});
  return report;
}

Report bundle_extract(const CommandLine& line, Surroundings& world) {
  if (Status possible = check_output_directory(line.output); !possible) return failure(possible.error());
  const Result<BundlePtr> bundle = open(line.specs.front(), world);
  if (!bundle) return failure(bundle.error());
  const Result<std::vector<Kernel>> kernels = read_kernels(**bundle, line.kernel);
  if (!kernels) return failure(kernels.error());
  if (Status made = make_output_directory(line.output); !made) return failure(made.error());
  std::map<std::string, int> names;
  for (const Kernel& kernel : *kernels) ++names[file_name(kernel, true)];
  Report report;
  Json rows = Json::array();
  for (const Kernel& kernel : *kernels) {
    const std::string name = file_name(kernel, names[file_name(kernel, true)] == 1);
    const std::string path = line.output + "/" + name;
    const std::pair<const char*, std::string_view> files[] = {{".cubin", kernel.entry.cubin},
                                                              {".recipe.json", kernel.entry.recipe},
                                                              {".request.txt", kernel.entry.request},
                                                              {".info.json", kernel.entry.info}};
    for (const auto& [ending, bytes] : files)
      if (Status written = write_output(world.disk, path + ending, bytes); !written) return failure(written.error());
    rows.push_back({{"kernel", kernel.entry.label.kernel}, {"files", name}});
    report.text += path + ".cubin\n";
  }
  report.fields = dump({{"output", line.output}, {"kernels", std::move(rows)}});
  return report;
}

Report bundle_merge(const CommandLine& line, Surroundings& world) {
  const Result<std::string> file = output_file(world.disk, line.output);
  if (!file) return failure(file.error());
  struct Taken {
    Kernel kernel;
    std::string from;
  };
  std::map<std::string, Taken> taken;  // by request
  std::set<std::string> twice;         // requests
  for (const std::string& path : line.specs) {
    const Result<BundlePtr> bundle = open(path, world);
    if (!bundle) return failure(bundle.error());
    Result<std::vector<Kernel>> kernels = read_kernels(**bundle);
    if (!kernels) return failure(kernels.error());
    for (Kernel& kernel : *kernels) {
      const std::string request(kernel.entry.request.view());
      const auto before = taken.find(request);
      if (before == taken.end()) {
        taken.emplace(request, Taken{std::move(kernel), path});
        continue;
      }
      twice.insert(request);
      const std::string apart = difference(before->second.kernel, kernel);
      if (!apart.empty() && !line.prefer_first)
        return failure(ExitCode::user,
                       fmt::format("{} and {} have {}, and not the same: {}\n--prefer-first takes the earlier",
                                   before->second.from, path, cache::describe(kernel.entry.label), apart));
    }
  }
  std::vector<BundleEntry> entries;
  for (auto& [request, one] : taken) entries.push_back(std::move(one.kernel.entry));
  const size_t count = entries.size();
  const std::vector<cache::BundleLabel> ambiguous = note_ambiguous(line.output, entries);
  const Result<std::string> bytes = cache::encode_bundle(std::move(entries));
  if (!bytes) return failure(bytes.error());
  if (Status written = write_output(world.disk, *file, *bytes); !written) return failure(written.error());
  Report report;
  report.text = fmt::format("{}: {}, {} bytes; {} there more than once\n", line.output, kernels_text(count),
                            bytes->size(), count_text(twice.size(), "was", "were"));
  report.fields = dump({{"output", line.output},
                        {"kernels", count},
                        {"bytes", bytes->size()},
                        {"twice", twice.size()},
                        {"ambiguous", labels_json(ambiguous)}});
  return report;
}

Report bundle_diff(const CommandLine& line, Surroundings& world) {
  std::map<std::string, Kernel> sides[2];  // by request
  for (size_t side = 0; side < 2; ++side) {
    const Result<BundlePtr> bundle = open(line.specs[side], world);
    if (!bundle) return failure(bundle.error());
    Result<std::vector<Kernel>> kernels = read_kernels(**bundle);
    if (!kernels) return failure(kernels.error());
    for (Kernel& kernel : *kernels) {
      std::string request(kernel.entry.request.view());
      sides[side].emplace(std::move(request), std::move(kernel));
    }
  }
  Report report;
  Json only[2] = {Json::array(), Json::array()}, differing = Json::array(), changed = Json::array();
  size_t equal = 0;
  UnmatchedKernels unmatched[2];
  for (size_t side = 0; side < 2; ++side)
    for (const auto& [request, kernel] : sides[side])
      if (!sides[1 - side].contains(request)) unmatched[side].push_back({kernel.entry.label, request});
  for (const ChangedKernel& one : take_changed(unmatched[0], unmatched[1])) {
    Json row = row_of(sides[0].at(one.before));
    row["differs"] = one.differs;
    changed.push_back(std::move(row));
    report.text += fmt::format("changed: {}: {}\n", cache::describe(one.label), one.differs);
  }
  for (size_t side = 0; side < 2; ++side)
    for (const auto& [label, request] : unmatched[side]) {
      only[side].push_back(row_of(sides[side].at(request)));
      report.text += fmt::format("only in {}: {}\n", line.specs[side], cache::describe(label));
    }
  for (const auto& [request, kernel] : sides[0]) {
    const auto other = sides[1].find(request);
    if (other == sides[1].end()) continue;
    const std::string apart = difference(kernel, other->second);
    if (apart.empty()) {
      ++equal;
      continue;
    }
    Json row = row_of(kernel);
    row["differs"] = apart;
    differing.push_back(std::move(row));
    report.text += fmt::format("differs: {}: {}\n", cache::describe(kernel.entry.label), apart);
  }
  const bool same = only[0].empty() && only[1].empty() && differing.empty() && changed.empty();
  report.text += fmt::format("{} equal, {} changed, {} differ, {} only in the first, {} only in the second\n", equal,
                             changed.size(), differing.size(), only[0].size(), only[1].size());
  if (!same) {
    report.code = ExitCode::wrong;
    report.error = fmt::format("{} and {} differ", line.specs[0], line.specs[1]);
  }
  report.fields = dump({{"same", same},
                        {"equal", equal},
                        {"changed", std::move(changed)},
                        {"differing", std::move(differing)},
                        {"only_in_first", std::move(only[0])},
                        {"only_in_second", std::move(only[1])}});
  return report;
}

Report bundle_embed(const CommandLine& line, Surroundings& world) {
  const Result<std::string> file = output_file(world.disk, line.output);
  if (!file) return failure(file.error());
  const Result<BundlePtr> bundle = open(line.specs.front(), world);
  if (!bundle) return failure(bundle.error());
  if (Status good = (*bundle)->verify(); !good) return failure(good.error());
  const Result<SharedBytes> bytes = world.disk.map(line.specs.front());
  if (!bytes) return failure(bytes.error());
  const std::string symbol = line.symbol.empty() ? "epifuse_bundle" : line.symbol;
  const Result<std::string> source = embedding_source(line.specs.front(), *bytes, symbol, line.output);
  if (!source) return failure(source.error());
  if (Status written = write_output(world.disk, *file, *source); !written) return failure(written.error());
  Report report;
  report.text =
      fmt::format("{}: {} bytes under {}, their number under {}_size\n", line.output, bytes->size(), symbol, symbol);
  report.fields = dump({{"output", line.output}, {"symbol", symbol}, {"bytes", bytes->size()}});
  return report;
}

}  // namespace epifuse::tools
