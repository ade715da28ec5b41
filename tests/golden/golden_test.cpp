// The texts of all stages of all specs: as they were when someone last looked at them (golden files), and the same
// whoever asks from wherever.
//
// EPIFUSE_UPDATE_GOLDEN=1 rewrites the files instead of comparing (the build target update_golden). Tests only read the
// checkout otherwise.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <vector>

#include "base/file_system.h"
#include "base/settings.h"
#include "compiler/compiler.h"
#include "tests/support/catch.h"
#include "tests/support/scratch_directory.h"

namespace epifuse {
namespace {

namespace fs = std::filesystem;

struct NamedStage {
  Stage stage;
  const char* name;
};
constexpr NamedStage stages[] = {
    {Stage::tokens, "tokens"}, {Stage::ast, "ast"}, {Stage::ir, "ir"}, {Stage::plan, "plan"}, {Stage::cuda, "cuda"}};

// Tokens and syntax are those of the whole file.
bool is_of_kernel(Stage stage) { return stage != Stage::tokens && stage != Stage::ast; }

const std::string source = EPIFUSE_SOURCE_DIR;

std::string read(const std::string& path) {
  const Result<std::string> text = real_file_system().read(path);
  return text ? *text : "";
}

// Kernels of files with several, by the name of their golden files: the training steps have a dozen each, which repeat
// each other.
struct KernelOfMany {
  const char *name, *path, *kernel;
};
constexpr KernelOfMany kernels_of_many[] = {{"fp8_blocks_fc1", "recipes/fp8_blocks", "fc1"}};

const KernelOfMany* kernel_of_many(const std::string& name) {
  const auto found = std::find_if(std::begin(kernels_of_many), std::end(kernels_of_many),
                                  [&](const KernelOfMany& kernel) { return kernel.name == name; });
  return found == std::end(kernels_of_many) ? nullptr : found;
}

// "moe_fc1_swiglu", …: the files of specs/ that have one kernel, and those kernels, sorted.
std::vector<std::string> spec_names() {
  std::vector<std::string> names;
  for (const KernelOfMany& kernel : kernels_of_many) names.emplace_back(kernel.name);
  for (const fs::directory_entry& entry : fs::directory_iterator(source + "/specs")) {
    if (entry.path().extension() != ".epi") continue;
    const std::string text = read(entry.path().string());
    if (text.find("\nkernel ") == text.rfind("\nkernel ")) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string spec_path(const std::string& name) {
  const KernelOfMany* kernel = kernel_of_many(name);
  return fmt::format("{}/specs/{}.epi", source, kernel ? kernel->path : name);
}
std::string golden_path(const std::string& name, const NamedStage& stage) {
  return fmt::format("{}/tests/golden/{}/{}.txt", source, name, stage.name);
}

// The text of a stage of the spec of that name, which may lie elsewhere.
std::string emit(Stage stage, const std::string& name, const std::string& path) {
  DiskSource files(real_file_system());
  Diagnostics diagnostics;
  const Result<Program> program = load_program(path, files, diagnostics);
  REQUIRE(program);
  const std::optional<std::string> text = emit_stage(
      stage, *program, kernel_of_many(name) ? kernel_of_many(name)->kernel : "", CompilerOptions{}, diagnostics);
  INFO(diagnostics.print());
  REQUIRE(text);
  return *text;
}
std::string emit(Stage stage, const std::string& name) { return emit(stage, name, spec_path(name)); }

// Where two texts part, which a reader wants to see rather than both texts whole.
std::string first_difference(const std::string& golden, const std::string& now) {
  const size_t at = std::mismatch(golden.begin(), golden.end(), now.begin(), now.end()).first - golden.begin();
  const auto line_number = std::count(golden.begin(), golden.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  const auto line = [&](const std::string& text) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return text.substr(begin, std::min<size_t>(text.find('\n', begin) - begin, 400));
  };
  return fmt::format("line {}\n  golden: {}\n  now:    {}", line_number, line(golden), line(now));
}

bool updating() { return process_environment()("EPIFUSE_UPDATE_GOLDEN").value_or("") == "1"; }

TEST_CASE("every stage of every spec is as its golden file says") {
  REQUIRE(!spec_names().empty());
  for (const std::string& name : spec_names()) {
    for (const NamedStage& stage : stages) {
      if (kernel_of_many(name) && !is_of_kernel(stage.stage)) continue;
      const std::string path = golden_path(name, stage), now = emit(stage.stage, name);
      if (updating()) {
        fs::create_directories(fs::path(path).parent_path());
        REQUIRE(real_file_system().write_atomically(path, now));
        fs::permissions(path, fs::perms(0644));
        continue;
      }
      const std::string golden = read(path);
      if (golden == now) continue;
      FAIL_CHECK(path << " differs at " << first_difference(golden, now)
                      << "\nIf that is meant: cmake --build --preset dev --target update_golden, and read the diff.");
    }
  }
}

TEST_CASE("every golden directory belongs to a spec") {
  const std::vector<std::string> specs = spec_names();
  for (const fs::directory_entry& entry : fs::directory_iterator(source + "/tests/golden")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    if (std::find(specs.begin(), specs.end(), name) != specs.end()) continue;
    if (updating())
      fs::remove_all(entry.path());
    else
      FAIL_CHECK("tests/golden/" << name << " is left over: there is no spec of that name");
  }
}

TEST_CASE("a stage's text is the same when it is made again") {
  for (const std::string& name : spec_names())
    for (const NamedStage& stage : stages) {
      INFO(name << " " << stage.name);
      CHECK(emit(stage.stage, name) == emit(stage.stage, name));
    }
}

TEST_CASE("neither the working directory nor the spec's path reaches any stage") {
  const test::ScratchDirectory scratch;
  const fs::path before = fs::current_path();
  for (const std::string& name : spec_names()) {
    const std::string copy = scratch / "other name.epi";
    fs::copy_file(spec_path(name), copy, fs::copy_options::overwrite_existing);
    for (const NamedStage& stage : stages) {
      INFO(name << " " << stage.name);
      const std::string here = emit(stage.stage, name);
      fs::current_path(scratch.path());
      const std::string there = emit(stage.stage, name, "./other name.epi");
      fs::current_path(before);
      CHECK(here == there);
    }
  }
}

TEST_CASE("comments and blanks reach no stage from the ir on") {
  const test::ScratchDirectory scratch;
  for (const std::string& name : spec_names()) {
    std::string text = "# a comment in front\n\n" + read(spec_path(name)) + "\n# and one behind\n";
    for (size_t at = 0; (at = text.find("= gemm(", at)) != std::string::npos; at += 9) text.insert(at + 1, "  ");
    REQUIRE(real_file_system().write_atomically(scratch / "spec.epi", text));
    for (const NamedStage& stage : stages) {
      if (stage.stage == Stage::tokens) continue;
      INFO(name << " " << stage.name);
      CHECK(emit(stage.stage, name) == emit(stage.stage, name, scratch / "spec.epi"));
    }
  }
}

}  // namespace
}  // namespace epifuse
