// One key after the other: the order of looking, making and publishing is the cache's; what is made is decided here.
#include "jit/artifact_store.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/artifact_record.h"
#include "base/ensure.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/toolchain/artifact_request.h"
#include "deploy/prepared_kernels.h"

namespace epifuse::jit {
namespace {

using cache::EntryKind;
using cache::Found;
using cache::Made;
using Json = nlohmann::ordered_json;

// The part of a request that tells an image from the redirect that leads to it.
constexpr std::string_view anyway = "anyway";

// With the toolchain that made the entry, which need not be the key's.
std::string entry_name(const ArtifactKey& key, const Found& found) {
  return found.toolchain == key.toolchain() ? key.name() : ArtifactKey(key.request(), found.toolchain).name();
}

Refusal refusal_of(const KernelImage& image) {
  Refusal refusal;
  refusal.spill_bytes = image.spill_bytes;
  refusal.wgmma_serialized = image.wgmma_serialized;
  return refusal;
}
void note_compile(Refusal& refusal, const ToolchainTimes& times, std::string ptx) {
  refusal.times = times;
  refusal.compiled = true;
  refusal.ptx = std::move(ptx);
}
bool is_refused(const KernelImage& image) { return image.spill_bytes > 0 || image.wgmma_serialized; }

double rounded(double milliseconds) { return std::round(milliseconds * 10) / 10; }

// For people: `epifuse cache list` and `cache show`.
std::string metadata_of(const Build& build, const KernelImage& image, const ToolchainTimes& times) {
  Json dims = Json::object();
  for (const auto& [name, value] : build.dims) dims[name] = value;
  const Json json = {{"kernel", build.recipe.kernel},
                     {"target", build.recipe.target},
                     {"dims", std::move(dims)},
                     {"schedule", build.schedule},
                     {"registers", image.registers},
                     {"spill_bytes", image.spill_bytes},
                     {"wgmma_serialized", image.wgmma_serialized},
                     {"compile_ms",
                      {{"all", rounded(times.milliseconds)},
                       {"cuda", rounded(times.phases.cuda)},
                       {"nvvm", rounded(times.phases.nvvm)},
                       {"ptxas", rounded(times.phases.ptxas)}}},
                     {"epifuse", version}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string redirect_payload(const Refusal& refusal) {
  return Json{{"spill_bytes", refusal.spill_bytes}, {"wgmma_serialized", refusal.wgmma_serialized}}.dump();
}

std::optional<Refusal> parse_redirect(std::string_view payload) {
  const Result<Json> json = read_json(payload);
  if (!json || !json->is_object()) return std::nullopt;
  const auto spills = json->find("spill_bytes"), serialized = json->find("wgmma_serialized");
  if (spills == json->end() || serialized == json->end() || !spills->is_number_integer() || !serialized->is_boolean()) {
    return std::nullopt;
  }
  Refusal refusal;
  refusal.spill_bytes = spills->get<int>();
  refusal.wgmma_serialized = serialized->get<bool>();
  return refusal;
}

Error not_compiled(const Build& build) {
  return deploy::sealed_error(
      fmt::format("kernel '{}' for {} would have to be compiled", build.recipe.kernel, build.request.arch));
}

From from_of(cache::Source source) {
  switch (source) {
    case cache::Source::memory: return From::memory;
    case cache::Source::disk: return From::disk;
    case cache::Source::made: break;
  }
  return From::toolchain;
}

}  // namespace

cache::ContentVerdict check_entry(const cache::EntryView& entry) {
  using cache::EntryState;
  const auto damaged = [](std::string why) { return cache::ContentVerdict{EntryState::damaged, std::move(why)}; };
  const auto request = parse_record(entry.request);
  if (!request) return damaged("its request cannot be read");
  if (toolchain::is_of_other_version(*request)) return {EntryState::other_version, ""};
  const auto part = [&](std::string_view name) {
    return std::find_if(request->begin(), request->end(), [&](const RecordField& field) { return field.name == name; });
  };
  if (entry.kind == EntryKind::redirect) {
    if (part(anyway) != request->end()) return damaged("a redirect is in the place of the image that it leads to");
    return parse_redirect(entry.payload) ? cache::ContentVerdict() : damaged("its redirect cannot be read");
  }
  if (KernelImage::is_of_other_version(entry.payload)) return {EntryState::other_version, ""};
  const Result<KernelImage::Sections> sections = KernelImage::split(entry.payload);
  if (!sections) return damaged(sections.error().message);
  const auto recipe = part("recipe");
  if (recipe == request->end() || recipe->value != sections->recipe)
    return damaged("its recipe is not that of its request");
  // A cubin is held to its recipe, whatever that costs: another kernel's would be launched with this one's buffers.
  const auto image =
      KernelImage::from_parts(sections->recipe, sections->metadata, SharedBytes(nullptr, sections->cubin));
  if (image) return {};
  // Asked last: a recipe is text, and reading it once more is paid for by those alone that cannot be used.
  if (LaunchRecipe::is_of_other_version(sections->recipe)) return {EntryState::other_version, ""};
  return damaged(image.error().message);
}

namespace {

cache::CacheOptions checked(cache::CacheOptions options) {
  options.check = check_entry;
  return options;
}

}  // namespace

ArtifactKey key_anyway(const ArtifactKey& key) {
  ArtifactRecord line;
  return ArtifactKey(key.request() + line.add(anyway, "yes").take(), key.toolchain(), key.subject());
}

std::string_view from_name(From from) {
  constexpr std::string_view names[] = {"memory", "disk", "toolchain", "bundle"};
  return names[static_cast<size_t>(from)];
}

std::string Refusal::reason() const {
  const std::string spills = spill_bytes > 0 ? fmt::format("spills {} bytes", spill_bytes) : "";
  const std::string waits = wgmma_serialized ? "waits for each wgmma" : "";
  return spills.empty() ? waits : waits.empty() ? spills : spills + " and " + waits;
}

bool Refusal::better_than(const Refusal& other) const {
  return std::pair(wgmma_serialized, spill_bytes) < std::pair(other.wgmma_serialized, other.spill_bytes);
}

ArtifactStore::ArtifactStore(std::shared_ptr<toolchain::Toolchain> toolchain, FileSystem& disk,
                             cache::CacheOptions options, bool may_compile)
    : toolchain_(std::move(toolchain)),
      log_(options.log),
      may_compile_(may_compile),
      cache_(disk, checked(std::move(options))) {}

Result<std::variant<Artifact, Refusal>> ArtifactStore::get(const Build& build, IfAbsent if_absent) {
  const Keyed own = keyed(build);
  const ArtifactKey& key = own.key;
  JustCompiled compiled;
  const Result<Found> found = find_or_make(build, key, if_absent, [&]() -> Result<Made> {
    Result<Compiled> made = this->compile(build);
    if (!made) return made.error();
    Made entry{EntryKind::artifact, made->image.to_bytes(), metadata_of(build, made->image, made->times)};
    if (is_refused(made->image)) {
      // Before the redirect: whoever sees that may want this.
      const Result<Found> kept = cache_.find_or_make(key_anyway(key), [&]() -> Result<Made> { return entry; });
      if (!kept) return kept.error();
      entry = {EntryKind::redirect, redirect_payload(refusal_of(made->image)), entry.metadata};
    }
    compiled = *std::move(made);
    return entry;
  });
  if (!found) return found.error();
  if (found->kind == EntryKind::redirect) {
    std::optional<Refusal> refusal = parse_redirect(found->payload);
    EPIFUSE_ENSURE(refusal, "a redirect that cannot be read passed the cache's check");
    if (compiled) note_compile(*refusal, compiled->times, std::move(compiled->ptx));
    return {*std::move(refusal)};
  }
  return {to_artifact(own, key, *found, std::move(compiled))};
}

Result<Artifact> ArtifactStore::get_anyway(const Build& build, IfAbsent if_absent) {
  const Keyed own = keyed(build);
  const ArtifactKey key = key_anyway(own.key);
  JustCompiled compiled;
  const Result<Found> found = find_or_make(build, key, if_absent, [&]() -> Result<Made> {
    Result<Compiled> made = this->compile(build);
    if (!made) return made.error();
    Made entry{EntryKind::artifact, made->image.to_bytes(), metadata_of(build, made->image, made->times)};
    compiled = *std::move(made);
    return entry;
  });
  if (!found) return found.error();
  return to_artifact(own, key, *found, std::move(compiled));
}

ArtifactStore::Keyed ArtifactStore::keyed(const Build& build) const {
  const Result<std::string> identity = toolchain_->identity();
  std::string recipe_json = build.recipe.to_json();
  ArtifactKey key = toolchain::artifact_key(build.request, recipe_json, identity ? *identity : "");
  return {build, std::move(recipe_json), std::move(key)};
}

Result<ArtifactStore::Compiled> ArtifactStore::compile(const Build& build) {
  if (sealed_) return not_compiled(build);
  ++calls_;
  Result<toolchain::CompileOutcome> outcome = toolchain_->compile(build.request);
  if (!outcome) return outcome.error();
  Compiled compiled;
  compiled.image.cubin = std::move(outcome->cubin);
  compiled.image.recipe = build.recipe;
  compiled.image.registers = outcome->registers;
  compiled.image.spill_bytes = outcome->spill_bytes;
  compiled.image.wgmma_serialized = outcome->wgmma_serialized;
  compiled.image.warnings = std::move(outcome->notes);
  compiled.ptx = std::move(outcome->ptx);
  compiled.times = {outcome->milliseconds, outcome->phases};
  log(LogLevel::info,
      fmt::format(
          "compiled '{}' ({}) in {:.0f} ms (front end {:.0f}, NVVM {:.0f}, ptxas {:.0f}): {} registers, {} spill "
          "bytes",
          build.recipe.kernel, build.schedule, outcome->milliseconds, outcome->phases.cuda, outcome->phases.nvvm,
          outcome->phases.ptxas, outcome->registers, outcome->spill_bytes));
  return compiled;
}

Result<Found> ArtifactStore::find_or_make(const Build& build, const ArtifactKey& key, IfAbsent if_absent,
                                          const std::function<Result<Made>()>& make) {
  if (!may_compile_) return find_without_compiler(build, key, "EPIFUSE_JIT is off");
  const Result<std::string> identity = toolchain_->identity();
  if (!identity) return find_without_compiler(build, key, identity.error().message);
  if (sealed_ || if_absent == IfAbsent::leave) {
    // No lock is waited for.
    std::optional<Found> found = cache_.find(key);
    return found ? Result<Found>(*std::move(found)) : not_compiled(build);
  }
  Result<Found> found = cache_.find_or_make(key, make);
  // The toolchain says `user` of a text that it refuses. Nobody but us wrote that text.
  EPIFUSE_ENSURE(found || found.error().kind != ErrorKind::user,
                 fmt::format("the CUDA text of kernel '{}' ({}) does not compile: {}", build.recipe.kernel,
                             build.schedule, found.error().message));
  return found;
}

Result<Found> ArtifactStore::find_without_compiler(const Build& build, const ArtifactKey& key, const std::string& why) {
  std::optional<Found> found = key.toolchain().empty() ? std::nullopt : cache_.find(key);
  if (!found) {
    found = cache_.find_any_toolchain(key);
    if (found) {
      log(LogLevel::info,
          fmt::format("kernel '{}': nothing is compiled here ({}); the cache entry {} is used, made by {}",
                      build.recipe.kernel, why, found->path, found->toolchain));
    }
  }
  if (found) return *std::move(found);
  return environment_error(fmt::format("kernel '{}' for {} is not in the cache and cannot be compiled: {}",
                                       build.recipe.kernel, build.request.arch, why));
}

Artifact ArtifactStore::to_artifact(const Keyed& keyed, const ArtifactKey& key, const Found& found,
                                    JustCompiled compiled) {
  if (compiled) {
    return {std::move(compiled->image), std::move(compiled->ptx), key.name(), From::toolchain, compiled->times};
  }
  Result<KernelImage> image =
      KernelImage::from_bytes(found.payload, KernelImage::KnownRecipe{keyed.build.recipe, keyed.recipe_json});
  EPIFUSE_ENSURE(image, "an image that cannot be read passed the cache's check");
  return {*std::move(image), "", entry_name(key, found), from_of(found.from), {}};
}

void ArtifactStore::log(LogLevel level, const std::string& text) const {
  if (log_) log_(level, text);
}

}  // namespace epifuse::jit
