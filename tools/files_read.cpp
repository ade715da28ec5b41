#include "tools/files_read.h"

#include <filesystem>
#include <fmt/format.h>
#include <system_error>

namespace epifuse::tools {

std::vector<FileRead> files_read(const CommandLine& line, const Settings& settings) {
  const bool of_bundles = line.command.starts_with("bundle"), prebuilds = line.command == "prebuild";
  std::vector<FileRead> files;
  // fmt writes a spec in its place.
  if (line.command != "fmt")
    for (const std::string& spec : line.specs)
      files.push_back({spec, of_bundles ? "a bundle" : line.specs.size() == 1 ? "the spec" : "a spec"});
  for (const auto& [name, path] : line.input_files) files.push_back({path, "an input", name});
  files.push_back({line.inputs, "the file of inputs"});
  files.push_back({line.manifest, "the manifest"});
  files.push_back({line.from_record, "the record"});
  files.push_back({line.plans, "the tuning file"});
  // prebuild and bundle look into no bundle that they are not told to.
  if (!prebuilds && !of_bundles)
    for (const std::string& bundle : settings.bundles) files.push_back({bundle, "a bundle"});
  // tune adds to a tuning file.
  if (line.command != "tune") files.push_back({settings.tuning, "the tuning file"});
  files.push_back({settings.record, "the record"});
  return files;
}

std::vector<FileRead> files_read(const Program& program) {
  std::vector<FileRead> files;
  for (const Program::Unit& unit : program.units) files.push_back({unit.tree.source->name, "a file of the spec"});
  return files;
}

bool writes_output(const CommandLine& line) { return !line.output.empty() && !line.check_only && !line.dry_run; }

Status check_not_replaced(const std::string& output, const std::vector<FileRead>& files) {
  std::error_code failed;  // one of them is missing: they are not the same
  // What is written into a directory is looked at file by file.
  if (output.empty() || std::filesystem::is_directory(output, failed)) return {};
  for (const FileRead& file : files)
    if (std::filesystem::equivalent(output, file.path, failed) && !failed)
      return user_error(fmt::format("cannot write '{}': it is {} that is read", output, file.what));
  return {};
}

}  // namespace epifuse::tools
