// Whole programs over libepifuse_runtime.so as it is shipped, on a machine whose libcuda.so.1 is a fake: the example of
// docs/runtime_library.md, compiled as C, and deploy/examples/run_bundle.cpp with a kernel that copies.
#include <fmt/format.h>
#include <sys/wait.h>

#include "base/file_system.h"
#include "base/kernel_image.h"
#include "base/npy.h"
#include "cache/bundle_writer.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cubin.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

struct Ended {
  int code = -1;
  std::string output;  // both streams
};

// A program of the build on the machine with the fake driver.
Ended run(const std::string& program, const std::string& arguments, bool has_driver = true) {
  const std::string command = fmt::format("env LD_LIBRARY_PATH={} {} {} 2>&1",
                                          has_driver ? EPIFUSE_FAKE_DRIVER : "/nonexistent", program, arguments);
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  Ended ended;
  char part[4096];
  while (const size_t count = ::fread(part, 1, sizeof part, pipe)) ended.output.append(part, count);
  const int status = ::pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

void write(const std::string& path, const std::string& bytes) {
  REQUIRE(real_file_system().write_atomically(path, bytes));
}

// `recipe` as a bundle of one kernel, whose cubin declares its entries to the fake driver.
std::string bundle_of(const LaunchRecipe& recipe, std::map<std::string, int64_t> dims) {
  KernelImage image;
  image.recipe = recipe;
  std::string cubin;
  for (const RecipeStep& step : recipe.steps) cubin += fmt::format("{} {}\n", step.entry, step.parameter_bytes);
  cubin.push_back('\0');
  std::set<std::string> functions;
  for (const RecipeStep& step : recipe.steps) functions.insert(step.entry);
  image.cubin = fake_cubin(functions, cubin);
  KernelImage::Parts parts = image.to_parts();
  std::string request = fmt::format("request 1\nkernel {}\n", recipe.kernel);
  for (const auto& [name, value] : dims) request += fmt::format("  dim {} = {}\n", name, value);
  request += fmt::format("target {}\n", recipe.target);
  cache::BundleEntry entry{
      std::move(request), {recipe.kernel, recipe.target, std::move(dims), {}, ""}, "{}", parts.recipe, parts.metadata,
      parts.cubin};
  Result<std::string> bytes = cache::encode_bundle({entry});
  REQUIRE(bytes);
  return *std::move(bytes);
}

// y = x.
LaunchRecipe copy_recipe() {
  const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K");
  LaunchRecipe recipe;
  recipe.kernel = "copy";
  recipe.target = "sm_90a";
  recipe.tensors = {{"x", Storage::bf16, TensorRole::input, {m, k}}, {"y", Storage::bf16, TensorRole::output, {m, k}}};
  recipe.symbols = {{"K", SymbolKind::fixed, 1}, {"M", SymbolKind::launch, 1}};
  RecipeStep step;
  step.entry = "copy_entry";
  step.block = 128;
  step.grid = m;
  step.parameter_bytes = 24;
  step.fields = {{"x", FieldKind::address, 0, 8, "x"},
                 {"y", FieldKind::address, 8, 8, "y"},
                 {"bytes", FieldKind::integer64, 16, 8, "", m * k * 2}};
  recipe.steps = {step};
  return recipe;
}

// The buffers of specs/grouped_gemm.epi, over an entry that does nothing.
LaunchRecipe grouped_gemm_recipe() {
  const IntExpr m = IntExpr::symbol("M"), k = IntExpr::symbol("K"), n = IntExpr::symbol("N"), e = IntExpr::symbol("E");
  LaunchRecipe recipe;
  recipe.kernel = "grouped_gemm";
  recipe.target = "sm_90a";
  recipe.tensors = {{"x", Storage::bf16, TensorRole::input, {m, k}},
                    {"w", Storage::bf16, TensorRole::input, {e, n, k}},
                    {"M.ends", Storage::i32, TensorRole::group_sizes, {e}, false, 4},
                    {"y", Storage::bf16, TensorRole::output, {m, n}}};
  recipe.symbols = {{"E", SymbolKind::fixed, 1},
                    {"K", SymbolKind::fixed, 1},
                    {"N", SymbolKind::fixed, 1},
                    {"M", SymbolKind::launch, 1}};
  RecipeStep step;
  step.entry = "gemm_entry";
  step.block = 384;
  step.grid = IntExpr::symbol("sm_count");
  step.parameter_bytes = 32;
  step.fields = {{"x", FieldKind::address, 0, 8, "x"},
                 {"w", FieldKind::address, 8, 8, "w"},
                 {"ends", FieldKind::address, 16, 8, "M.ends"},
                 {"y", FieldKind::address, 24, 8, "y"}};
  recipe.steps = {step};
  recipe.workspace_bytes = 512;
  return recipe;
}

}  // namespace

TEST_CASE("the examples of the page run from a bundle to a launch") {
  for (const char* const example : {EPIFUSE_EXAMPLE_C, EPIFUSE_EXAMPLE_CPP}) {
    const ScratchDirectory folder;
    const std::string path = folder / "kernels.epb";
    write(path, bundle_of(grouped_gemm_recipe(), {{"E", 8}, {"K", 7168}, {"N", 4096}}));
    const Ended ended = run(example, path);
    INFO(ended.output);
    CHECK(ended.code == 0);
    CHECK(contains(ended.output, fmt::format(R"("bundle":"{}","kernel":"grouped_gemm","target":"sm_90a")", path)));
    CHECK(contains(ended.output, R"("workspace_bytes":512)"));

    write(path, bundle_of(grouped_gemm_recipe(), {{"E", 8}, {"K", 7168}, {"N", 2048}}));
    const Ended missed = run(example, path);
    CHECK(missed.code == 3);
    CHECK(
        contains(missed.output, "what differs: the dim N\n  to build it: epifuse prebuild SPEC --kernel grouped_gemm"));
  }
}

TEST_CASE("run_bundle compares what a kernel stores with the files of another run") {
  const ScratchDirectory folder;
  const std::string path = folder / "kernels.epb", expected = folder / "expected", inputs = folder / "inputs";
  write(path, bundle_of(copy_recipe(), {{"K", 4}}));
  REQUIRE(real_file_system().make_directories(expected));
  REQUIRE(real_file_system().make_directories(inputs));
  NpyArray array{"<u2", {3, 4}, "abcdefghijklmnopqrstuvwx"};
  write(inputs + "/x.npy", write_npy(array));
  write(expected + "/y.npy", write_npy(array));
  const std::string arguments = fmt::format("{} copy --dims K=4 --inputs {} --expected {}", path, inputs, expected);
  const Ended equal = run(EPIFUSE_RUN_BUNDLE, arguments);
  INFO(equal.output);
  CHECK(equal.code == 0);
  CHECK(contains(equal.output, "1 kernels are on the GPU\n"));
  CHECK(contains(equal.output, "y: 24 bytes, all equal\n"));

  array.data[5] = '!';
  write(expected + "/y.npy", write_npy(array));
  const Ended different = run(EPIFUSE_RUN_BUNDLE, arguments);
  CHECK(different.code == 5);
  CHECK(contains(different.output, "y: 1 of 24 bytes differ, the first at 5\n"));

  CHECK(run(EPIFUSE_RUN_BUNDLE, path).code == 2);
  CHECK(run(EPIFUSE_RUN_BUNDLE, arguments + " --dims K=8").code == 2);  // K is 4 and 8
  CHECK(run(EPIFUSE_RUN_BUNDLE, fmt::format("{} copy --dims K=8 --inputs {} --expected {}", path, inputs, expected))
            .code == 3);
  std::string bytes = *real_file_system().read(path);
  bytes[bytes.find("copy_entry 24")] = 'k';
  write(path, bytes);
  const Ended damaged = run(EPIFUSE_RUN_BUNDLE, arguments);
  CHECK(damaged.code == 5);
  CHECK(contains(damaged.output, fmt::format("the bundle {} is damaged", path)));
}

TEST_CASE("a machine without a driver is told in words") {
  const Ended ended = run(EPIFUSE_RUN_BUNDLE, "b copy --inputs . --expected .", /*has_driver=*/false);
  // Where there is a driver, the bundle is what is missing.
  CHECK(ended.code == 3);
  CHECK((contains(ended.output, "no NVIDIA driver") || contains(ended.output, "cannot open b")));
}
