#include "tools/understand_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <string_view>

#include "base/settings.h"
#include "tools/values.h"

namespace epifuse::tools {
namespace {

Result<DeviceChoice> parse_device(const std::string& text) {
  if (text == "auto") return DeviceChoice::automatic;
  if (text == "cpu") return DeviceChoice::cpu;
  if (text == "gpu") return DeviceChoice::gpu;
  return user_error(fmt::format("'{}' is not cpu, gpu or auto", text));
}

Result<Emit> parse_emit(const std::string& text) {
  constexpr std::string_view names[] = {"tokens", "ast", "ir", "plan", "cuda", "ptx", "cubin", "sass"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == text) return static_cast<Emit>(i);
  return user_error(
      fmt::format("'{}' is no stage; the stages are tokens, ast, ir, plan, cuda, ptx, cubin and sass", text));
}

Result<jit::DataMode> parse_data(const std::string& text) {
  if (text == "normal") return jit::DataMode::normal;
  if (text == "scaled") return jit::DataMode::scaled;
  if (text == "integers") return jit::DataMode::integers;
  return user_error(fmt::format("'{}' is not normal, scaled or integers", text));
}

Error in_option(std::string_view option, const Error& error) {
  return user_error(fmt::format("{}: {}", option, error.message));
}

// How kernels are measured.
Status understand_measuring(const Written& written, CommandLine& line) {
  line.host = written.host;
  line.compare = written.compare;
  line.no_full_clock = written.no_full_clock;
  line.report = written.report;
  line.all_plans = written.all_plans;
  if (written.all_plans && !written.schedule.empty()) return user_error("--all-plans: --schedule names one plan");
  if (written.compare && written.specs.size() != 2)
    return user_error(fmt::format("--compare: it takes two files that bench wrote, not {}", written.specs.size()));
  if (written.expected_rows) {
    const Result<int64_t> rows = parse_integer(*written.expected_rows, 1, int64_t{1} << 31);
    if (!rows) return in_option("--expected-rows", rows.error());
    if (written.counts) return user_error("--expected-rows: --counts says how many rows the groups have");
    line.expected_rows = *rows;
  }
  if (written.rounds) {
    const Result<int64_t> rounds = parse_integer(*written.rounds, 1, 100000);
    if (!rounds) return in_option("--rounds", rounds.error());
    line.rounds = static_cast<int>(*rounds);
  }
  if (written.warm) {
    const Result<double> seconds = parse_number(*written.warm, 0, 600);
    if (!seconds) return in_option("--warm", seconds.error());
    line.warm_seconds = *seconds;
  }
  if (written.tolerance) {
    const Result<double> percent = parse_number(*written.tolerance, 0, 1000);
    if (!percent) return in_option("--tolerance", percent.error());
    line.tolerance_percent = *percent;
  }
  return {};
}

// A set for each --dims of prebuild, else one of them all.
Status understand_dims(const Written& written, CommandLine& line) {
  for (const std::string& text : written.dims) {
    auto& into = line.command == "prebuild" ? line.dim_sets.emplace_back() : line.dims;
    if (Status status = parse_dims(text, into); !status) return in_option("--dims", status.error());
  }
  return {};
}

// Where kernels come from, and what is built ahead of time.
Status understand_bundles(const Written& written, CommandLine& line) {
  line.bundles = written.bundles;
  line.record = written.record.value_or("");
  if (written.jit && *written.jit != "on" && *written.jit != "off")
    return user_error(fmt::format("--jit: '{}' is not on or off", *written.jit));
  if (written.jit) line.jit = *written.jit == "on";
  line.manifest = written.manifest.value_or("");
  line.plans = written.plans.value_or("");
  line.from_record = written.from_record.value_or("");
  line.symbol = written.symbol.value_or("");
  line.dry_run = written.dry_run;
  line.partial = written.partial;
  line.prefer_first = written.prefer_first;
  for (const std::string& name : written.targets) {
    const Result<Target> target = parse_target(name);
    if (!target) return in_option("--target", target.error());
    line.targets.push_back(*target);
  }
  if (line.command != "prebuild") return {};
  if (line.specs.empty() && line.manifest.empty() && line.from_record.empty())
    return user_error("there is nothing to build: name specs, or --manifest FILE, or --from-record FILE");
  const bool says_what = !line.kernel.empty() || !line.dim_sets.empty() || !line.targets.empty() ||
                         !line.left_out.empty() || !line.schedule.empty() || written.unfused;
  if (line.specs.empty() && says_what)
    return user_error(fmt::format("{} says what is built, and for which kernels, dims and targets",
                                  line.manifest.empty() ? "--from-record" : "--manifest"));
  return {};
}

}  // namespace

Result<CommandLine> understand(const Written& written, const std::string& command) {
  CommandLine line;
  line.command = command;
  line.specs = written.specs;
  if (!written.spec.empty()) line.specs.push_back(written.spec);
  line.kernel = written.kernel;
  line.schedule = written.schedule;
  line.output = written.output.value_or("");
  line.inputs = written.inputs_from.value_or("");
  line.json = written.json;
  line.check_only = written.check_only;
  if (!line.output.empty() && line.specs.size() > 1 && command != "bench" && command != "prebuild" &&
      command != "bundle merge")
    return user_error("-o: it is one file, and several were named");
  if (written.chain) {
    Result<std::vector<std::string>> chain = parse_names(*written.chain);
    if (!chain) return in_option("--chain", chain.error());
    line.chain = std::move(*chain);
  }
  if (Status status = understand_dims(written, line); !status) return status.error();
  for (const std::string& text : written.params)
    if (Status status = parse_params(text, line.params); !status) return in_option("--param", status.error());
  line.left_out.insert(written.without.begin(), written.without.end());
  line.taps.insert(written.taps.begin(), written.taps.end());
  line.unfused = written.unfused;
  line.no_unfused = written.no_unfused;
  if (line.unfused && !line.schedule.empty() && command != "prebuild")
    return user_error("--schedule: it names a plan of the fused kernel, and --unfused asks for others");
  for (const std::string& text : written.inputs) {
    auto assignment = parse_assignment(text);
    if (!assignment) return user_error(fmt::format("an input is NAME=FILE.npy: {}", assignment.error().message));
    const auto same_name = [&](const auto& other) { return other.first == assignment->first; };
    if (std::any_of(line.input_files.begin(), line.input_files.end(), same_name))
      return user_error(fmt::format("the input '{}' is given twice", assignment->first));
    line.input_files.push_back(std::move(*assignment));
  }
  if (written.counts) {
    Result<std::vector<int64_t>> counts = parse_counts(*written.counts);
    if (!counts) return in_option("--counts", counts.error());
    line.counts = std::move(*counts);
  }
  if (written.target) {
    const Result<Target> target = parse_target(*written.target);
    if (!target) return in_option("--target", target.error());
    line.target = *target;
  }
  if (written.emit) {
    const Result<Emit> emit = parse_emit(*written.emit);
    if (!emit) return in_option("--emit", emit.error());
    line.emit = *emit;
  }
  const Result<DeviceChoice> device = parse_device(written.device);
  if (!device) return in_option("--device", device.error());
  line.device = *device;
  const Result<int64_t> seed = parse_integer(written.seed, 0, std::numeric_limits<int64_t>::max());
  if (!seed) return in_option("--seed", seed.error());
  line.seed = static_cast<uint64_t>(*seed);
  const Result<jit::DataMode> data = parse_data(written.data);
  if (!data) return in_option("--data", data.error());
  line.data = *data;
  if (written.slack) {
    const Result<int64_t> slack = parse_integer(*written.slack, 0, int64_t{1} << 40);
    if (!slack) return in_option("--slack", slack.error());
    line.slack = *slack;
  }
  if (written.jobs) {
    const Result<int64_t> jobs = parse_integer(*written.jobs, 1, 4096);
    if (!jobs) return in_option("--jobs", jobs.error());
    line.jobs = static_cast<int>(*jobs);
  }
  if (Status status = understand_measuring(written, line); !status) return status.error();
  line.cache_key = written.cache_key;
  if (written.cache_size) {
    line.cache_bytes = parse_bytes(*written.cache_size);
    if (!line.cache_bytes)
      return user_error(fmt::format("--size: '{}' is no number of bytes, as 500M or 2G", *written.cache_size));
  }
  if (Status status = understand_bundles(written, line); !status) return status.error();
  return line;
}

}  // namespace epifuse::tools
