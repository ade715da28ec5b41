// Finds the files behind `use`, depth first, each once.
#include "compiler/parser/program.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "compiler/parser/parser.h"
#include "library_texts.h"

namespace epifuse {
namespace {

// How files of the embedded library are named in messages; no file on disk has such a path.
constexpr std::string_view library_prefix = "<library>/";

bool in_library(std::string_view path) { return path.substr(0, library_prefix.size()) == library_prefix; }

// One name for one file, so that a file used on two ways is parsed once.
std::string normal(const std::filesystem::path& path) { return path.lexically_normal().generic_string(); }

class ProgramLoader {
 public:
  ProgramLoader(SpecSource& source, Diagnostics& diagnostics) : source_(source), diagnostics_(diagnostics) {}

  Program run(std::string name, std::string text) {
    add(std::move(name), std::move(text));
    return std::move(program_);
  }

 private:
  int add(std::string path, std::string text) {
    const int unit = static_cast<int>(program_.units.size());
    units_[path] = unit;
    program_.units.emplace_back();
    program_.units[unit].tree = parse(std::make_shared<SourceFile>(SourceFile{path, std::move(text)}), diagnostics_);
    open_.push_back(path);
    const std::vector<ast::Use> uses = program_.units[unit].tree.uses;
    for (const ast::Use& use : uses) {
      const int used = find(path, use);
      program_.units[unit].uses.push_back(used);
    }
    open_.pop_back();
    return unit;
  }

  int find(const std::string& from, const ast::Use& use) {
    if (open_.size() > static_cast<size_t>(max_nesting)) {
      diagnostics_.error(use.where, fmt::format("files use files deeper than {} levels", max_nesting));
      return -1;
    }
    if (!in_library(from)) {
      const std::string path = normal(std::filesystem::path(from).parent_path() / use.path);
      if (const std::optional<int> unit = known(path, use)) return *unit;
      Result<std::optional<std::string>> text = source_.read(path);
      if (!text) {
        diagnostics_.error(use.where, text.error().message);
        return -1;
      }
      if (*text) return add(path, std::move(**text));
    }
    const std::string path = std::string(library_prefix) + use.path;
    if (const std::optional<int> unit = known(path, use)) return *unit;
    if (const std::optional<std::string_view> text = spec_library::library_texts_text(use.path))
      return add(path, std::string(*text));
    const std::string near = nearest(use.path, library_files());
    diagnostics_.error(use.where, fmt::format("'{}' is neither beside this file nor in the library", use.path),
                       near.empty() ? fmt::format("the library has {}", fmt::join(library_files(), ", "))
                                    : fmt::format("did you mean \"{}\"?", near));
    return -1;
  }

  // The unit of a file that was seen before; a file that is still open uses itself.
  std::optional<int> known(const std::string& path, const ast::Use& use) {
    const auto seen = units_.find(path);
    if (seen == units_.end()) return std::nullopt;
    const auto open = std::find(open_.begin(), open_.end(), path);
    if (open == open_.end()) return seen->second;
    std::string chain;
    for (auto file = open; file != open_.end(); ++file) chain += *file + " uses ";
    diagnostics_.error(use.where, fmt::format("the files use each other in a cycle: {}{}", chain, path));
    return -1;
  }

  SpecSource& source_;
  Diagnostics& diagnostics_;
  Program program_;
  std::map<std::string, int> units_;
  std::vector<std::string> open_;  // from the main file to the one being read
};

}  // namespace

Result<std::optional<std::string>> DiskSource::read(const std::string& path) {
  const FileStatus status = files_.status(path);
  if (!status.exists) return std::optional<std::string>();
  if (status.is_directory) return user_error(fmt::format("'{}' is a directory", path));
  Result<std::string> text = files_.read(path);
  if (!text) return text.error();
  return std::optional<std::string>(std::move(*text));
}

Result<std::optional<std::string>> MemorySource::read(const std::string& path) {
  const auto file = files_.find(path);
  return file == files_.end() ? std::optional<std::string>() : std::optional<std::string>(file->second);
}

Result<Program> load_program(const std::string& path, SpecSource& source, Diagnostics& diagnostics) {
  Result<std::optional<std::string>> text = source.read(path);
  if (!text) return text.error();
  if (!*text) return user_error(fmt::format("there is no file '{}'", path));
  return load_program(normal(path), std::move(**text), source, diagnostics);
}

Program load_program(std::string name, std::string text, SpecSource& source, Diagnostics& diagnostics) {
  return ProgramLoader(source, diagnostics).run(std::move(name), std::move(text));
}

bool is_library_file(std::string_view source_name) { return in_library(source_name); }

std::vector<std::string> library_files() {
  std::vector<std::string> names;
  for (const spec_library::EmbeddedFile& file : spec_library::library_texts()) names.emplace_back(file.path);
  return names;
}

std::vector<LibraryFunction> library_functions() {
  std::vector<LibraryFunction> functions;
  for (const spec_library::EmbeddedFile& file : spec_library::library_texts()) {
    Diagnostics ignored;
    const ast::File tree =
        parse(std::make_shared<SourceFile>(SourceFile{std::string(file.path), std::string(file.text)}), ignored);
    for (const ast::Function& function : tree.functions)
      functions.push_back({function.name.text, std::string(file.path)});
  }
  return functions;
}

}  // namespace epifuse
