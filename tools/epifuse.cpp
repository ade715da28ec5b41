// The `epifuse` command: parses the command line, runs one command, prints its report. The only place that catches
// InternalError.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <mutex>
#include <new>
#include <unistd.h>

#include "base/ensure.h"
#include "cache/bundle_reader.h"
#include "jit/request_record.h"
#include "tools/commands.h"
#include "tools/files_read.h"

namespace epifuse::tools {
namespace {

struct Command {
  std::string_view name;
  Report (*run)(const CommandLine&, Surroundings&);
};
constexpr Command commands[] = {
    {"check", check},
    {"compile", compile},
    {"run", run},
    {"verify", verify},
    {"explain", explain},
    {"bench", bench},
    {"tune", tune},
    {"fmt", format},
    {"grad", gradients},
    {"prebuild", prebuild},
    {"bundle list", bundle_list},
    {"bundle verify", bundle_verify},
    {"bundle extract", bundle_extract},
    {"bundle merge", bundle_merge},
    {"bundle diff", bundle_diff},
    {"bundle embed", bundle_embed},
    {"doctor", doctor},
    {"cache list", cache_list},
    {"cache show", cache_show},
    {"cache why", cache_why},
    {"cache verify", cache_verify},
    {"cache prune", cache_prune},
    {"cache clear", cache_clear},
    {"cache path", cache_path},
};

Surroundings surroundings() {
  Result<Settings> settings = read_settings();
  std::string problem = settings ? "" : settings.error().message;
  Settings usable = settings ? std::move(*settings) : Settings{};
  LogSink log = stderr_log(usable.log);
  return {std::move(usable), std::move(problem), real_file_system(), std::move(log)};
}

// A bundle of the environment that cannot be opened is a warning. One that this very command names was meant; `cache
// why` tells what is wrong with it.
Status check_named_bundle(const CommandLine& line, const std::string& path, Surroundings& world) {
  const Result<cache::BundlePtr> opened = cache::BundleReader::open(world.disk, path);
  if (opened || (line.command == "cache why" && opened.error().kind == ErrorKind::wrong)) return {};
  return opened.error();
}

// Warnings of the log, which JSON has among the diagnostics: whoever reads it may not see stderr.
class Heard {
 public:
  LogSink before(LogSink next) {
    return [this, next = std::move(next)](LogLevel level, std::string_view text) {
      if (level <= LogLevel::warn) {
        const std::lock_guard<std::mutex> guard(mutex_);
        warnings_.emplace_back(text);
      }
      next(level, text);
    };
  }
  void add_to(Diagnostics& diagnostics) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const std::string& text : warnings_) diagnostics.warning({}, text);
  }

 private:
  std::mutex mutex_;  // kernels are compiled on several threads
  std::vector<std::string> warnings_;
};

Report run_command(const CommandLine& line, Surroundings world) {
  if (!world.settings_problem.empty() && line.command != "doctor")
    return failure(ExitCode::user, world.settings_problem);
  for (const std::string& path : line.bundles)
    if (Status there = check_named_bundle(line, path, world); !there) return failure(there.error());
  world.settings.bundles.insert(world.settings.bundles.begin(), line.bundles.begin(), line.bundles.end());
  if (line.jit) world.settings.jit = *line.jit;
  if (!line.record.empty()) {
    world.settings.record = line.record;
    if (Status record = jit::check_goes_on(world.disk, line.record); !record) return failure(record.error());
  }
  if (writes_output(line))
    if (Status other = check_not_replaced(line.output, files_read(line, world.settings)); !other)
      return failure(other.error());
  for (const Command& command : commands)
    if (command.name == line.command) return command.run(line, world);
  EPIFUSE_ENSURE(false, fmt::format("no command '{}'", line.command));
  return {};
}

// Runs a command whatever it throws: nothing but a bug and a full memory throws.
Report run_safely(const CommandLine& line) {
  try {
    Heard heard;
    Surroundings world = surroundings();
    if (line.json) world.log = heard.before(std::move(world.log));
    Report report = run_command(line, std::move(world));
    heard.add_to(report.diagnostics);
    return report;
  } catch (const std::bad_alloc&) {
    return failure(ExitCode::machine, "not enough memory");
  } catch (const std::exception& error) {
    return failure(ExitCode::bug,
                   fmt::format("{}\nThis is a bug of Epifuse. Please report it with the command line, the spec and the "
                               "output of `epifuse doctor`.",
                               error.what()));
  }
}

// A file that is opened while a standard stream is closed gets that stream's number, and what is said to the stream.
// The number is taken, by something that can be neither read (0) nor written (1, 2), so that the stream still is as if
// it were closed.
void keep_numbers_of_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char** argv) {
  keep_numbers_of_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // an output larger than it may be is an error, which is printed
  const auto parsed = parse_command_line(argc, argv);
  if (const auto* show = std::get_if<ShowText>(&parsed)) {
    Report report;
    Surroundings world = surroundings();
    report.text = show->version ? version_text(world) : show->text;
    return static_cast<int>(print(report, "", false));
  }
  if (const auto* usage = std::get_if<UsageError>(&parsed)) {
    const std::string command = usage->command.empty() ? "" : usage->command + " ";
    const std::string hint = fmt::format("\nepifuse {}--help says how it is used", command);
    const Report report = failure(ExitCode::usage, usage->message + (usage->json ? "" : hint));
    return static_cast<int>(print(report, usage->command, usage->json));
  }
  const CommandLine& line = std::get<CommandLine>(parsed);
  return static_cast<int>(print(run_safely(line), line.command, line.json));
}

}  // namespace
}  // namespace epifuse::tools

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Memory in a few large pieces: a warm start makes fifteen system calls, and should not make as many again for its
  // heap.
  ::mallopt(M_TOP_PAD, 4 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
  return epifuse::tools::main(argc, argv);
}
