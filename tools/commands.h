// The commands. Each takes the parsed command line and returns what it has to say (tools/report.h).
#pragma once

#include "base/file_system.h"
#include "base/log.h"
#include "base/settings.h"
#include "tools/command_line.h"
#include "tools/report.h"

namespace epifuse::tools {

// What a command may touch of the world.
struct Surroundings {
  Settings settings;
  std::string settings_problem;  // why the environment could not be understood; only doctor goes on then
  FileSystem& disk;
  LogSink log;
};

Report check(const CommandLine& line, Surroundings& world);
Report compile(const CommandLine& line, Surroundings& world);
Report run(const CommandLine& line, Surroundings& world);
Report verify(const CommandLine& line, Surroundings& world);
Report explain(const CommandLine& line, Surroundings& world);
Report bench(const CommandLine& line, Surroundings& world);
Report tune(const CommandLine& line, Surroundings& world);
Report format(const CommandLine& line, Surroundings& world);
Report gradients(const CommandLine& line, Surroundings& world);
Report prebuild(const CommandLine& line, Surroundings& world);
Report bundle_list(const CommandLine& line, Surroundings& world);
Report bundle_verify(const CommandLine& line, Surroundings& world);
Report bundle_extract(const CommandLine& line, Surroundings& world);
Report bundle_merge(const CommandLine& line, Surroundings& world);
Report bundle_diff(const CommandLine& line, Surroundings& world);
Report bundle_embed(const CommandLine& line, Surroundings& world);
Report doctor(const CommandLine& line, Surroundings& world);
Report cache_list(const CommandLine& line, Surroundings& world);
Report cache_show(const CommandLine& line, Surroundings& world);
Report cache_why(const CommandLine& line, Surroundings& world);
Report cache_verify(const CommandLine& line, Surroundings& world);
Report cache_prune(const CommandLine& line, Surroundings& world);
Report cache_clear(const CommandLine& line, Surroundings& world);
Report cache_path(const CommandLine& line, Surroundings& world);

// For --version.
std::string version_text(Surroundings& world);

}  // namespace epifuse::tools
