// prebuild: kernels of many specs, dims and targets into one bundle, by processes. What is compiled goes through the
// cache as ever, so a run that was cut off goes on where it was.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/json.h"
#include "cache/bundle_reader.h"
#include "cache/bundle_writer.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "jit/bundled_kernels.h"
#include "jit/engine.h"
#include "jit/tuning_file.h"
#include "tools/bundle_labels.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/count_text.h"
#include "tools/files_read.h"
#include "tools/output_file.h"
#include "tools/prebuild_list.h"
#include "tools/worker_pool.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json failures_json(const std::vector<NotBuilt>& failures) {
  Json list = Json::array();
  for (const NotBuilt& failure : failures) list.push_back({{"what", failure.what}, {"error", failure.message}});
  return list;
}

Json listed_json(const ListedKernel& kernel) {
  Json json = label_json(kernel.label);
  json["groups"] = Json::array();
  for (const ListedKernel::Groups& groups : kernel.groups)
    json["groups"].push_back({{"dim", groups.dim}, {"by", groups.by}});
  json["dyns"] = kernel.dyns;
  return json;
}

// Whose fault decides the exit code: a broken machine before a mistake, for the mistake may be its consequence.
ExitCode code_of(const std::vector<NotBuilt>& failures) {
  if (failures.empty()) return ExitCode::good;
  const bool machine = std::any_of(failures.begin(), failures.end(),
                                   [](const NotBuilt& failure) { return failure.kind == ErrorKind::environment; });
  return machine ? ExitCode::machine : ExitCode::user;
}

std::string failures_text(const std::vector<NotBuilt>& failures) {
  std::string text;
  for (const NotBuilt& failure : failures) text += fmt::format("{}\n{}\n", failure.what, failure.message);
  return text + fmt::format("{} could not be built", failures.size());
}

// What a worker gives back: a line of words, a line of warnings, then bytes.
struct Outcome {
  std::string status;  // "ok", or "user", "machine": whose fault
  std::string from;
  double milliseconds = 0;
  std::string bytes;                  // a bundle of one kernel, or the message
  std::vector<std::string> warnings;  // of the log, said where they can be collected

  std::string to_text() const {
    return fmt::format("{} {} {:.3f}\n{}\n{}", status, from, milliseconds, dump(Json(warnings)), bytes);
  }
  static Outcome parse(const std::string& text) {
    Outcome outcome;
    const size_t line = text.find('\n'), first = text.find(' '), second = text.find(' ', first + 1);
    const size_t next = text.find('\n', line + 1);
    outcome.status = text.substr(0, first);
    outcome.from = text.substr(first + 1, second - first - 1);
    outcome.milliseconds = std::strtod(text.c_str() + second, nullptr);
    outcome.warnings =
        read_json(std::string_view(text).substr(line + 1, next - line - 1))->get<std::vector<std::string>>();
    outcome.bytes = text.substr(next + 1);
    return outcome;
  }
};

// In a process of its own.
Outcome compile_one(jit::Engine& engine, const ListedKernel& kernel) {
  try {
    const Result<jit::CompiledKernelPtr> compiled = engine.compile(kernel.plan());
    if (!compiled)
      return {
          compiled.error().kind == ErrorKind::environment ? "machine" : "user", "-", 0, compiled.error().message, {}};
    const Result<std::string> toolchain = engine.toolchain().identity();
    Result<std::string> bytes = cache::encode_bundle({jit::bundle_entry(**compiled, toolchain ? *toolchain : "")});
    if (!bytes) return {"user", "-", 0, bytes.error().message, {}};
    return {"ok", std::string(jit::from_name((*compiled)->from)), (*compiled)->milliseconds, *std::move(bytes), {}};
  } catch (const std::bad_alloc&) {
    return {"machine", "-", 0, "not enough memory", {}};
  } catch (const std::exception& error) {
    return {"machine", "-", 0, fmt::format("a bug of Epifuse: {}", error.what()), {}};
  }
}

// The kernels of a list, one of each CUDA text first: those that differ in dims alone are then found in the cache, and
// no process waits for what another one compiles.
std::vector<size_t> order_of(const PrebuildList& list) {
  std::vector<size_t> order, again;
  std::set<std::string> sources;
  for (size_t i = 0; i < list.kernels.size(); ++i)
    (sources.insert(list.kernels[i].source).second ? order : again).push_back(i);
  order.insert(order.end(), again.begin(), again.end());
  return order;
}

struct Built {
  std::vector<cache::BundleEntry> entries;
  Json kernels = Json::array();
  int compiled = 0;  // the others were in the cache
  int jobs = 0;
};

Built build(const PrebuildList& list, const CommandLine& line, Surroundings& world, std::vector<NotBuilt>& failures) {
  Built built;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  built.jobs = line.jobs > 0 ? line.jobs : usual_workers(cores, available_memory());
  const std::vector<size_t> order = order_of(list);
  std::unique_ptr<jit::Engine> engine;  // of a worker, and never in this process
  std::vector<std::string> warnings;    // of a worker, about its task
  const auto work = [&](size_t task) {
    const LogSink log = [&](LogLevel level, std::string_view text) {
      if (level <= LogLevel::warn)
        warnings.emplace_back(text);
      else if (world.log)
        world.log(level, text);
    };
    if (!engine) engine = make_engine({world.settings, "", world.disk, log}, true);
    Outcome outcome = compile_one(*engine, list.kernels[order[task]]);
    outcome.warnings = std::exchange(warnings, {});
    return outcome.to_text();
  };
  size_t done = 0;
  std::vector<Json> rows(list.kernels.size());
  Waiting waiting;
  waiting.say = [&](const std::vector<std::pair<size_t, int>>& tasks) {
    for (const auto& [task, process] : tasks)
      note(fmt::format("still waiting for {}, in process {}", cache::describe(list.kernels[order[task]].label),
                       process));
  };
  const auto finished = [&](TaskResult result) {
    const size_t index = order[result.task];
    const cache::BundleLabel& label = list.kernels[index].label;
    const std::string what = cache::describe(label);
    ++done;
    const auto failed = [&](const std::string& message, ErrorKind kind) {
      failures.push_back({what, message, kind});
      note(fmt::format("[{}/{}] {}: failed", done, list.kernels.size(), what));
    };
    if (result.died) return failed(result.output, ErrorKind::environment);
    Outcome outcome = Outcome::parse(result.output);
    for (const std::string& warning : outcome.warnings)
      if (world.log) world.log(LogLevel::warn, warning);
    if (outcome.status != "ok")
      return failed(outcome.bytes, outcome.status == "machine" ? ErrorKind::environment : ErrorKind::user);
    const Result<cache::BundlePtr> bundle = cache::BundleReader::from_bytes(std::move(outcome.bytes), "of a worker");
    Result<cache::BundleEntry> entry = bundle ? (*bundle)->entry(0) : Result<cache::BundleEntry>(bundle.error());
    if (!entry) return failed(entry.error().message, ErrorKind::environment);
    const Result<jit::BundleInfo> info = jit::BundleInfo::parse(entry->info);
    const bool compiled = outcome.from == jit::from_name(jit::From::toolchain);
    built.compiled += compiled;
    note(fmt::format("[{}/{}] {}: {} in {:.0f} ms", done, list.kernels.size(), what,
                     compiled ? "compiled" : "from the cache", outcome.milliseconds));
    Json& row = rows[index] = listed_json(list.kernels[index]);
    row["plan"] = info ? Json(info->plan) : Json();
    row["tuned"] = info && !info->tuned.empty() && info->plan == info->tuned;
    row["refused"] = Json::array();
    if (info)
      for (const jit::BundleInfo::Refused& refused : info->refused)
        row["refused"].push_back({{"plan", refused.plan}, {"reason", refused.reason}});
    row["key"] = info ? Json(info->key) : Json();
    row["cubin_bytes"] = entry->cubin.size();
    row["compiled"] = compiled;
    row["ms"] = outcome.milliseconds;
    built.entries.push_back(*std::move(entry));
  };
  run_in_processes(list.kernels.size(), built.jobs, work, finished, waiting);
  for (Json& row : rows)
    if (!row.is_null()) built.kernels.push_back(std::move(row));
  return built;
}

Report dry_run(const PrebuildList& list) {
  Report report;
  Json kernels = Json::array();
  for (const ListedKernel& kernel : list.kernels) {
    report.text += cache::describe(kernel.label) + "\n";
    kernels.push_back(listed_json(kernel));
  }
  report.text += kernels_text(list.kernels.size()) + "\n";
  report.fields = dump({{"kernels", std::move(kernels)}, {"failures", failures_json(list.failures)}});
  report.code = code_of(list.failures);
  if (!list.failures.empty()) report.error = failures_text(list.failures);
  return report;
}

// What a bundle lacks, what nobody asked for, and what today's compiler would make otherwise.
Report check(const PrebuildList& list, const CommandLine& line, Surroundings& world) {
  if (!world.disk.status(line.output).exists)
    return failure(ExitCode::user, fmt::format("there is no bundle '{}'", line.output));
  const Result<cache::BundlePtr> opened = cache::BundleReader::open(world.disk, line.output);
  if (!opened) return failure(opened.error());
  const cache::BundleReader& bundle = **opened;
  if (Status good = bundle.verify(); !good) return failure(good.error());
  Json missing = Json::array(), changed = Json::array(), stale = Json::array(), extra = Json::array();
  UnmatchedKernels not_there, not_wanted;
  std::set<size_t> wanted;
  Report report;
  for (const ListedKernel& listed : list.kernels) {
    const PlannedKernel kernel = listed.plan();
    const cache::BundleLabel& label = listed.label;
    const Result<std::optional<size_t>> found = bundle.find(kernel.request);
    if (!found) return failure(found.error());
    if (!*found) {
      not_there.push_back({label, kernel.request});
      continue;
    }
    wanted.insert(**found);
    const Result<cache::BundleEntry> entry = bundle.entry(**found);
    if (!entry) return failure(entry.error());
    const Result<jit::ReadEntry> read = jit::read_entry(*entry, line.output);
    const std::string why = read ? jit::why_stale(read->info, kernel) : read.error().message;
    if (why.empty()) continue;
    Json row = label_json(label);
    row["why"] = why;
    stale.push_back(std::move(row));
    report.text += fmt::format("stale    {}: {}\n", cache::describe(label), why);
  }
  for (size_t i = 0; i < bundle.size(); ++i) {
    if (wanted.contains(i)) continue;
    const Result<cache::BundleLabel> label = bundle.label(i);
    if (!label) return failure(label.error());
    const Result<SharedBytes> request = bundle.request(i);
    if (!request) return failure(request.error());
    not_wanted.push_back({*label, std::string(request->view())});
  }
  for (const ChangedKernel& one : take_changed(not_wanted, not_there)) {
    Json row = label_json(one.label);
    row["why"] = one.differs;
    changed.push_back(std::move(row));
    report.text += fmt::format("changed  {}: {}\n", cache::describe(one.label), one.differs);
  }
  for (const auto& [label, request] : not_there) {
    missing.push_back(label_json(label));
    report.text += fmt::format("missing  {}\n", cache::describe(label));
  }
  for (const auto& [label, request] : not_wanted) {
    extra.push_back(label_json(label));
    report.text += fmt::format("extra    {}\n", cache::describe(label));
  }
  const size_t differing = missing.size() + changed.size() + stale.size() + extra.size();
  report.text += fmt::format("{}: {} missing, {} changed, {} stale, {} extra, of {}\n", line.output, missing.size(),
                             changed.size(), stale.size(), extra.size(), kernels_text(list.kernels.size()));
  report.fields = dump({{"bundle", line.output},
                        {"kernels", list.kernels.size()},
                        {"missing", std::move(missing)},
                        {"changed", std::move(changed)},
                        {"stale", std::move(stale)},
                        {"extra", std::move(extra)},
                        {"failures", failures_json(list.failures)}});
  if (!list.failures.empty()) {
    report.code = code_of(list.failures);
    report.error = failures_text(list.failures);
  } else if (differing > 0) {
    report.code = ExitCode::wrong;
    report.error = fmt::format("{} is not what would be built", line.output);
  }
  return report;
}

// A tuning file that is named and cannot be read would be a bundle of other plans than were asked for.
Status check_plans(const std::string& path, Surroundings& world) {
  if (path.empty()) return {};
  const Result<jit::TuningFile> plans = jit::read_whole_tuning_file(world.disk, path);
  return plans ? Status() : user_error(plans.error().message);
}

Result<PrebuildList> list_record(const CommandLine& line, Surroundings& world) {
  const Result<std::string> text = world.disk.read(line.from_record);
  if (!text) return user_error(text.error().message);
  const auto record = jit::parse_record(*text);
  if (!record) return user_error(fmt::format("{}: {}", line.from_record, record.error().message));
  for (const int torn : record->torn)
    note(fmt::format("warning: {}: line {} was cut short, and a request may be missing", line.from_record, torn));
  const std::string& plans = line.plans.empty() ? world.settings.tuning : line.plans;
  if (Status readable = check_plans(plans, world); !readable) return readable.error();
  return list_kernels(record->requests, plans, world);
}

Result<PrebuildList> list_of(const CommandLine& line, Surroundings& world) {
  if (!line.from_record.empty()) return list_record(line, world);
  Manifest manifest = manifest_of(line);
  if (!line.manifest.empty()) {
    const Result<std::string> text = world.disk.read(line.manifest);
    if (!text) return user_error(text.error().message);
    Result<Manifest> parsed =
        parse_manifest(*text, std::filesystem::path(line.manifest).parent_path().generic_string());
    if (!parsed) return user_error(fmt::format("{}: {}", line.manifest, parsed.error().message));
    manifest = *std::move(parsed);
  }
  if (!line.plans.empty()) manifest.plans = line.plans;
  if (manifest.plans.empty()) manifest.plans = world.settings.tuning;
  if (Status readable = check_plans(manifest.plans, world); !readable) return readable.error();
  PrebuildList list = list_kernels(manifest, world);
  std::vector<FileRead> files = {{manifest.plans, "the tuning file"}};
  for (const ManifestSpec& spec : manifest.specs) files.push_back({spec.spec, "a spec"});
  for (const std::string& file : list.files) files.push_back({file, "a file of a spec"});
  if (writes_output(line))
    if (Status other = check_not_replaced(line.output, files); !other) return other.error();
  return list;
}

Status write_bundle(const std::string& file, Built& built, Surroundings& world, Json& fields) {
  std::set<std::string> cubins;
  for (const cache::BundleEntry& entry : built.entries) cubins.emplace(entry.cubin.view());
  const size_t kernels = built.entries.size();
  fields["ambiguous"] = labels_json(note_ambiguous(file, built.entries));
  const Result<std::string> bytes = cache::encode_bundle(std::move(built.entries));
  if (!bytes) return bytes.error();
  fields["entries"] = kernels;
  fields["cubins"] = cubins.size();
  fields["bytes"] = bytes->size();
  return write_output(world.disk, file, *bytes);
}

}  // namespace

Report prebuild(const CommandLine& line, Surroundings& given) {
  // It is for compiling, from the specs and not from what was built before.
  Surroundings world{given.settings, given.settings_problem, given.disk, given.log};
  world.settings.bundles.clear();
  world.settings.jit = true;
  world.settings.record.clear();
  const auto start = std::chrono::steady_clock::now();
  std::string file;
  if (writes_output(line)) {
    const Result<std::string> checked = output_file(world.disk, line.output);
    if (!checked) return failure(checked.error());
    file = *checked;
  }
  Result<PrebuildList> list = list_of(line, world);
  if (!list) return failure(list.error());
  if (line.dry_run) return dry_run(*list);
  if (line.check_only) return check(*list, line, world);
  if (const auto usable = toolchain::NvrtcToolchain(world.disk, world.settings).identity(); !usable)
    return failure(usable.error());

  std::vector<NotBuilt> failures = std::move(list->failures);
  Built built = build(*list, line, world, failures);
  Report report;
  report.code = code_of(failures);
  Json fields = {{"output", nullptr}, {"kernels", std::move(built.kernels)}, {"compiled", built.compiled}};
  const size_t entries = built.entries.size();
  const bool writes = failures.empty() || (line.partial && entries != 0);
  if (writes) {
    if (Status written = write_bundle(file, built, world, fields); !written) return failure(written.error());
    fields["output"] = line.output;
    report.text =
        fmt::format("{}: {}, {}, {} bytes\n", line.output, kernels_text(entries),
                    count_text(fields["cubins"].get<size_t>(), "cubin", "cubins"), fields["bytes"].get<size_t>());
  }
  if (!failures.empty()) {
    report.error = failures_text(failures);
    if (!writes)
      report.error += fmt::format("; {} is not written{}", line.output,
                                  entries == 0 ? "" : fmt::format(" (--partial writes the {} others)", entries));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  fields["failures"] = failures_json(failures);
  fields["jobs"] = built.jobs;
  fields["ms"] = took.count();
  report.fields = dump(fields);
  return report;
}

}  // namespace epifuse::tools
