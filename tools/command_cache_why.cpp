// cache why: whether a kernel is there, in the bundles or in the cache, and if not, what comes nearest and what
// differs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compiler/compiler.h"
#include "compiler/toolchain/artifact_request.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "deploy/bundle_miss.h"
#include "jit/artifact_store.h"
#include "jit/bundled_kernels.h"
#include "jit/tuned_plans.h"
#include "tools/bundle_labels.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/look_into_cache.h"
#include "tools/spec_file.h"

namespace epifuse::tools {
namespace {

using cache::CacheDirectory;
using Json = nlohmann::ordered_json;

// The search for one plan of the kernel.
struct Search {
  std::string plan;
  ArtifactKey key;
  cache::KernelCache::Explanation result;

  const CacheDirectory::Lookup* hit() const {
    for (const CacheDirectory::Lookup& lookup : result.lookups)
      if (lookup) return &lookup;
    return nullptr;
  }
};

// Plan by plan, as a compile looks: a redirect leads on to the next, and behind the last to the image of one that was
// refused.
Search search(cache::KernelCache& cache, const PlannedKernel& planned, const std::string& toolchain) {
  std::optional<Search> last;
  for (const lowering::KernelPlan& plan : planned.lowered.plans) {
    ArtifactKey key = toolchain::artifact_key(compile_request(planned, plan), plan.recipe.to_json(), toolchain);
    cache::KernelCache::Explanation found = cache.explain(key);
    last = Search{lowering::schedule_name(plan.schedule), std::move(key), std::move(found)};
    const CacheDirectory::Lookup* const hit = last->hit();
    if (!hit || hit->entry.kind != cache::EntryKind::redirect) return *std::move(last);
  }
  const ArtifactKey anyway = jit::key_anyway(last->key);
  return {last->plan, anyway, cache.explain(anyway)};
}

Json differences_json(const std::vector<RecordDifference>& differences) {
  Json rows = Json::array();
  for (const RecordDifference& one : differences)
    rows.push_back({{"part", one.part}, {"stored", one.stored}, {"wanted", one.wanted}});
  return rows;
}

std::string quoted(const std::string& value) { return value.empty() ? "nothing" : "'" + value + "'"; }

// What the bundles say: text for people, and the value of "bundles". Both are empty where there are none.
struct OfBundles {
  std::string text;
  Json json;
};

OfBundles describe(cache::BundleSet& bundles, const PlannedKernel& planned, const jit::BundleAnswer& answer) {
  if (!bundles.any()) return {};
  const cache::BundleLabel label = jit::label_of(planned);
  Json nearest, why_not;
  std::string text;
  if (answer.found_one()) {
    const std::string& why = answer.unusable.empty() ? answer.passed_over : answer.unusable;
    if (!why.empty()) why_not = why;
    text = answer.kernel ? fmt::format("{} ({}) is in the bundle {}\n", cache::describe(label),
                                       answer.kernel->info.plan, answer.kernel->bundle)
                         : why + "\n";
    for (const std::string& problem : bundles.problems()) text += fmt::format("  {}\n", problem);
  } else {
    text = jit::explain_miss(bundles, planned) + "\n";
    if (const auto near = bundles.nearest(planned.request, label)) {
      nearest = label_json(near->label);
      nearest["bundle"] = near->bundle->name();
      nearest["differs"] = near->differs;
    }
  }
  Json json = {{"searched", bundles.names()},
               {"problems", bundles.problems()},
               {"why_not", std::move(why_not)},
               {"nearest", std::move(nearest)},
               {"build", answer.found_one() ? Json() : Json(deploy::prebuild_command(label, planned.spec))}};
  return {std::move(text), std::move(json)};
}

Report finish(std::string text, Json fields, Json of_bundles) {
  fields["bundles"] = std::move(of_bundles);
  Report report;
  report.text = std::move(text);
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

// A bundle has it: nobody would look into the cache.
Report in_bundle(const jit::BundleAnswer::Kernel& kernel, const PlannedKernel& planned, const std::string& target,
                 OfBundles of_bundles) {
  return finish(std::move(of_bundles.text),
                {{"kernel", planned.graph.name},
                 {"target", target},
                 {"plan", kernel.info.plan},
                 {"key", kernel.info.key},
                 {"hit", true},
                 {"state", "good"},
                 {"bundle", kernel.bundle},
                 {"lookups", Json::array()},
                 {"no_cache", nullptr},
                 {"no_compile", nullptr},
                 {"nearest", nullptr}},
                std::move(of_bundles.json));
}

// What a run would do about a kernel that is nowhere.
struct Elsewise {
  std::string no_cache;    // why it would not be looked for in an own directory, nor stored; empty: it would
  std::string no_compile;  // why it would not be compiled; empty: it would
};

Elsewise elsewise(cache::KernelCache& cache, const Settings& settings, const Result<std::string>& toolchain) {
  Elsewise answer;
  if (const Status own = cache.own_directory(); !own)
    answer.no_cache = own.error().message;
  else if (settings.cache_directory.empty())
    answer.no_cache = settings.cache_wanted ? "neither EPIFUSE_CACHE_DIR nor HOME is set" : "EPIFUSE_CACHE_DIR is off";
  if (!settings.jit)
    answer.no_compile = "EPIFUSE_JIT is off";
  else if (!toolchain)
    answer.no_compile = toolchain.error().message;
  return answer;
}

Report describe(const Search& search, const PlannedKernel& planned, const std::string& target,
                const std::optional<cache::Found>& of_any_toolchain, const Elsewise& else_, OfBundles of_bundles) {
  const CacheDirectory::Lookup* const hit = search.hit();
  const std::string& kernel = planned.graph.name;
  std::string text = std::move(of_bundles.text);
  Json lookups = Json::array();
  std::string reasons;
  std::string_view state = hit ? "good" : "absent";
  for (const CacheDirectory::Lookup& lookup : search.result.lookups) {
    lookups.push_back({{"path", lookup.path}, {"state", cache::miss_name(lookup.miss)}, {"problem", lookup.problem}});
    if (hit || lookup.miss == CacheDirectory::Miss::absent) continue;
    if (state == "absent") state = cache::miss_name(lookup.miss);
    reasons += fmt::format("  {}: {}\n", lookup.path,
                           lookup.problem.empty() ? "it was written by another version of Epifuse" : lookup.problem);
  }
  if (hit) {
    text += fmt::format("kernel '{}' ({}) is in the cache: {}\n", kernel, search.plan, hit->path);
  } else if (of_any_toolchain) {
    text += fmt::format("kernel '{}' ({}): nothing is compiled here ({}), and {}, made by {}, is used\n", kernel,
                        search.plan, else_.no_compile, of_any_toolchain->path, of_any_toolchain->toolchain);
  } else {
    text += fmt::format("kernel '{}' ({}) is not in the cache ({}), and {}\n  key {}\n{}", kernel, search.plan, state,
                        else_.no_compile.empty() ? "would be compiled" : "cannot be compiled: " + else_.no_compile,
                        search.key.name(), reasons);
  }
  if (!else_.no_cache.empty() && !hit) text += fmt::format("  there is no own directory: {}\n", else_.no_cache);
  Json nearest;
  if (const auto& near = search.result.nearest; near && !of_any_toolchain) {
    nearest = {{"path", near->path}, {"differences", differences_json(near->differences)}};
    text += fmt::format("  the nearest entry is {}\n", near->path);
    for (const RecordDifference& one : near->differences)
      text += fmt::format("    {}: {} there, {} wanted\n", one.part, quoted(one.stored), quoted(one.wanted));
  }
  return finish(std::move(text),
                {{"kernel", kernel},
                 {"target", target},
                 {"plan", search.plan},
                 {"key", search.key.name()},
                 {"hit", hit != nullptr || of_any_toolchain.has_value()},
                 {"state", state},
                 {"bundle", nullptr},
                 {"lookups", std::move(lookups)},
                 {"no_cache", else_.no_cache.empty() ? Json() : Json(else_.no_cache)},
                 {"no_compile", else_.no_compile.empty() ? Json() : Json(else_.no_compile)},
                 {"nearest", std::move(nearest)}},
                std::move(of_bundles.json));
}

}  // namespace

Report cache_why(const CommandLine& line, Surroundings& world) {
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics);
  if (!program) return failure(program.error());
  if (diagnostics.has_errors()) return failure(std::move(diagnostics));
  const CompilerOptions options = compiler_options(line);
  jit::TunedPlans tuned(world.disk, world.settings.tuning, world.log);
  const std::optional<PlannedKernel> planned = tuned.plan(*program, line.kernel, options, diagnostics);
  if (!planned) return failure(std::move(diagnostics));

  const std::string& target = options.target.name;
  cache::BundleSet bundles(world.disk, world.settings.bundles, nullptr);
  const jit::BundleAnswer answer = jit::ask_bundles(bundles, *planned, world.settings.jit);
  OfBundles of_bundles = describe(bundles, *planned, answer);
  Report report;
  if (answer.kernel) {
    report = in_bundle(*answer.kernel, *planned, target, std::move(of_bundles));
  } else {
    const Result<std::string> toolchain = toolchain::NvrtcToolchain(world.disk, world.settings).identity();
    cache::KernelCache cache(world.disk, looking_options(world));
    const Search found = search(cache, *planned, toolchain ? *toolchain : "");
    std::optional<cache::Found> of_any;
    if (!toolchain || !world.settings.jit) of_any = cache.find_any_toolchain(found.key);
    report =
        describe(found, *planned, target, of_any, elsewise(cache, world.settings, toolchain), std::move(of_bundles));
  }
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace epifuse::tools
