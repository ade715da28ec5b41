#include "jit/bundled_kernels.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/artifact_record.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/toolchain/artifact_request.h"
#include "deploy/bundle_miss.h"
#include "deploy/prepared_kernels.h"
#include "jit/engine.h"

namespace epifuse::jit {
namespace {

using Json = nlohmann::ordered_json;

// What the toolchain would be given for a plan.
std::string source_of(const PlannedKernel& planned, const lowering::KernelPlan& plan) {
  return toolchain::artifact_key(compile_request(planned, plan), plan.recipe.to_json(), "").first();
}

const lowering::KernelPlan* find_plan(const PlannedKernel& planned, const std::string& name) {
  for (const lowering::KernelPlan& plan : planned.lowered.plans)
    if (lowering::schedule_name(plan.schedule) == name) return &plan;
  return nullptr;
}

std::string source_of(const PlannedKernel& planned, const std::string& name) {
  const lowering::KernelPlan* plan = find_plan(planned, name);
  return plan ? source_of(planned, *plan) : "";
}

// The plan that the tuning file names, by its one name: there it may be spelled otherwise.
std::string tuned_plan(const PlannedKernel& planned) {
  return planned.lowered.has_preferred ? lowering::schedule_name(planned.lowered.plans.front().schedule)
                                       : planned.tuned;
}

// Whether a bundle's kernel was built where the tuning file named that plan. Earlier versions wrote the name as it was
// spelled.
bool same_tuned(const BundleInfo& info, const PlannedKernel& planned) {
  return info.tuned == tuned_plan(planned) || info.tuned == planned.tuned;
}

std::string content_of(const cache::BundleEntry& entry) {
  ArtifactRecord parts;
  parts.add("request", entry.request).add("label", entry.label.text()).add("recipe", entry.recipe);
  parts.add("image", entry.image).add("cubin", digest(entry.cubin).hex());
  return digest(parts.take()).hex();
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string BundleInfo::to_json() const {
  Json list = Json::array();
  for (const Refused& one : refused)
    list.push_back({{"plan", one.plan}, {"reason", one.reason}, {"source", one.source}});
  const Json json = {{"epifuse", epifuse}, {"toolchain", toolchain}, {"key", key},      {"plan", plan},
                     {"tuned", tuned},     {"source", source},       {"refused", list}, {"content", content}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<BundleInfo> BundleInfo::parse(std::string_view text) {
  const Result<Json> read = read_json(text);
  const Json json = read ? *read : Json();
  if (!json.is_object()) return user_error("what a bundle says of a kernel's making is no JSON object");
  BundleInfo info;
  info.epifuse = text_of(json, "epifuse");
  info.toolchain = text_of(json, "toolchain");
  info.key = text_of(json, "key");
  info.plan = text_of(json, "plan");
  info.tuned = text_of(json, "tuned");
  info.source = text_of(json, "source");
  info.content = text_of(json, "content");
  if (info.key.empty() || info.plan.empty()) return user_error("a bundle does not say how a kernel was made");
  if (const auto list = json.find("refused"); list != json.end() && list->is_array())
    for (const Json& one : *list)
      if (one.is_object())
        info.refused.push_back({text_of(one, "plan"), text_of(one, "reason"), text_of(one, "source")});
  return info;
}

std::string source_of(const PlannedKernel& planned) { return source_of(planned, planned.lowered.plans.front()); }

cache::BundleLabel label_of(const PlannedKernel& planned) {
  cache::BundleLabel label;
  label.kernel = planned.graph.name;
  label.target = planned.lowered.plans.front().target.name;
  for (const ir::Dimension& dim : planned.graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) label.dims[dim.name] = *dim.value;
  label.left_out = planned.left_out;
  label.schedule = planned.asked_schedule;
  return label;
}

cache::BundleEntry bundle_entry(const CompiledKernel& kernel, const std::string& toolchain) {
  BundleInfo info;
  info.epifuse = version;
  info.toolchain = toolchain;
  info.key = kernel.key;
  info.plan = kernel.schedule();
  info.tuned = tuned_plan(kernel.planned);
  info.source = source_of(kernel.planned, info.plan);
  for (const RefusedPlan& plan : kernel.refused)
    info.refused.push_back({plan.schedule, plan.reason, source_of(kernel.planned, plan.schedule)});
  KernelImage::Parts parts = kernel.image.to_parts();
  cache::BundleEntry entry{kernel.planned.request,  label_of(kernel.planned),  "",
                           std::move(parts.recipe), std::move(parts.metadata), std::move(parts.cubin)};
  info.content = content_of(entry);
  entry.info = info.to_json();
  return entry;
}

Result<ReadEntry> read_entry(const cache::BundleEntry& entry, const std::string& bundle) {
  Result<KernelImage> image = deploy::image_of(entry, bundle);
  if (!image) return image.error();
  const auto unusable = [&](std::string_view why) {
    return Error{ErrorKind::wrong,
                 fmt::format("{} of the bundle {} cannot be used: {}", cache::describe(entry.label), bundle, why)};
  };
  Result<BundleInfo> info = BundleInfo::parse(entry.info);
  if (!info) return unusable(info.error().message);
  if (info->content != content_of(entry)) return unusable("its parts are not those that it was made of");
  return ReadEntry{*std::move(info), *std::move(image)};
}

Status verify_bundle(const cache::BundleReader& bundle) {
  if (Status good = bundle.verify(); !good) return good;
  for (size_t i = 0; i < bundle.size(); ++i) {
    const Result<cache::BundleEntry> entry = bundle.entry(i);
    if (!entry) return entry.error();
    if (const Result<ReadEntry> read = read_entry(*entry, bundle.name()); !read) return read.error();
  }
  return {};
}

std::string why_stale(const BundleInfo& info, const PlannedKernel& planned) {
  const auto changed = [&](const std::string& plan, const std::string& source) {
    return source_of(planned, plan) != source;
  };
  // What the tuning file names counts where it leads to another plan: it may be the one that would be taken anyway.
  const auto other_plan = [&](const std::string& why) {
    return same_tuned(info, planned)
               ? why
               : fmt::format("the tuning file names {}, not {}", planned.tuned.empty() ? "no plan" : planned.tuned,
                             info.tuned.empty() ? "none" : info.tuned);
  };
  for (const lowering::KernelPlan& plan : planned.lowered.plans) {
    const std::string name = lowering::schedule_name(plan.schedule);
    const auto refused = std::find_if(info.refused.begin(), info.refused.end(),
                                      [&](const BundleInfo::Refused& one) { return one.plan == name; });
    if (refused != info.refused.end()) {
      if (changed(name, refused->source)) return fmt::format("the plan {}, then refused, has other code now", name);
      continue;
    }
    if (name != info.plan) return other_plan(fmt::format("the plan is now {}, not {}", name, info.plan));
    return changed(name, info.source) ? fmt::format("the plan {} has other code now", name) : "";
  }
  return other_plan(fmt::format("there is no plan {} any more", info.plan));
}

BundleAnswer ask_bundles(cache::BundleSet& bundles, const PlannedKernel& planned, bool tuned_first) {
  BundleAnswer answer;
  std::optional<cache::BundleSet::Found> found = bundles.find(planned.request);
  if (!found) return answer;
  const std::string who =
      fmt::format("{} of the bundle {}", cache::describe(found->entry.label), found->bundle->name());
  Result<KernelImage> image = deploy::image_of(found->entry, found->bundle->name());
  if (!image) {
    answer.unusable = image.error().message;
    return answer;
  }
  Result<BundleInfo> info = BundleInfo::parse(found->entry.info);
  if (!info) {
    answer.unusable = fmt::format("{} cannot be used: {}", who, info.error().message);
    return answer;
  }
  // One that has another plan because the tuning file's was refused when it was built is what a compile would make.
  if (tuned_first && planned.lowered.has_preferred && info->plan != tuned_plan(planned) &&
      !same_tuned(*info, planned)) {
    answer.passed_over =
        fmt::format("{} has the plan {}, and the tuning file names {}", who, info->plan, planned.tuned);
    return answer;
  }
  answer.kernel = BundleAnswer::Kernel{found->bundle->name(), *std::move(info), *std::move(image)};
  return answer;
}

std::string explain_miss(cache::BundleSet& bundles, const PlannedKernel& planned) {
  const cache::BundleLabel label = label_of(planned);
  std::string text;
  if (!bundles.names().empty())
    text = deploy::explain_what_differs(bundles, planned.request, label);
  else
    text = bundles.any() ? "no bundle can be used" : "there is no bundle (EPIFUSE_BUNDLES)";
  for (const std::string& problem : bundles.problems()) text += "\n  " + problem;
  return text + "\n  to build it: " + deploy::prebuild_command(label, planned.spec);
}

}  // namespace epifuse::jit
