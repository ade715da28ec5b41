// What the cache promises to whoever compiles: what does not matter never makes a miss, what matters always does, and
// an Engine that was taken into a forked child says so.
#include <sys/wait.h>
#include <unistd.h>

#include "base/artifact_record.h"
#include "compiler/parser/format.h"
#include "compiler/toolchain/artifact_request.h"
#include "jit/artifact_store.h"
#include "runtime/bind.h"
#include "tests/jit/support.h"
#include "tests/support/fake_driver.h"

using namespace epifuse;
using namespace epifuse::test;
using jit::From;

namespace {

// The small spec as another file, in another place and another hand.
constexpr auto untidy_spec = R"(# somebody else's copy


kernel small {
  dim E=2,K = 64,   N = 64   # sizes
  group   M by E
  param limit = 4

  in x : bf16[M,K]
  in  w: bf16[E,N,K]
  in  p : f32[M]=1
  v = min( gemm(x, w), limit )*p
  out y:bf16[M, N] = v
  out q : mxfp8[M,N] = v
}
)";

jit::CompiledKernelPtr compile_file(TestEngine& engine, const std::string& name, const std::string& text) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program(name, text, no_files, diagnostics);
  auto compiled = engine->compile(program, "", {}, diagnostics);
  INFO(diagnostics.print());
  REQUIRE((compiled && *compiled));
  return **compiled;
}

// A build of no spec, whose parts the test changes.
struct Parts {
  std::string source = "text", arch = "sm_90a", flag = "-x", digest = "11";

  jit::Build build() const {
    jit::Build made;
    made.request = {
        "k", "__global__ void k(const int);\n" + source, {{"tile/tile.cuh", "template", digest}}, arch, {flag}};
    made.recipe.kernel = "k";
    made.recipe.target = "sm_90a";
    RecipeStep step;
    step.entry = "k";
    step.block = 32;
    step.parameter_bytes = 4;
    made.recipe.steps = {step};
    return made;
  }
};

struct Store {
  explicit Store(FileSystem& disk) : artifacts(toolchain, disk, options(), true) {}
  static cache::CacheOptions options() {
    cache::CacheOptions made;
    made.directory = "/cache";
    return made;
  }
  // Whether the toolchain was asked.
  bool compiles(const Parts& parts) {
    const int before = toolchain->calls();
    REQUIRE(artifacts.get(parts.build()));
    return toolchain->calls() > before;
  }

  std::shared_ptr<FakeToolchain> toolchain = std::make_shared<FakeToolchain>();
  jit::ArtifactStore artifacts;
};

}  // namespace

TEST_CASE("a spec that is moved, renamed or formatted, by whichever user, is found") {
  MemoryFileSystem disk;
  TestEngine first(disk);
  const auto compiled = first.compile();

  Diagnostics diagnostics;
  const auto tidy = format_spec(std::make_shared<SourceFile>("untidy.epi", untidy_spec), diagnostics);
  REQUIRE(tidy);
  CHECK(*tidy != untidy_spec);
  for (const std::string& text : {std::string(small_spec), std::string(untidy_spec), *tidy}) {
    TestEngine other(disk, "/cache", [](jit::EngineOptions& options) {
      options.settings.home = "/elsewhere/somebody";
      options.settings.cuda_home = "/opt/cuda";
      options.settings.program_directories = {"/opt/bin"};
      options.settings.library_directories = {"/opt/lib"};
      options.settings.log = LogLevel::debug;
    });
    const auto found = compile_file(other, "/somewhere/else/renamed.epi", text);
    CHECK(found->from == From::disk);
    CHECK(found->key == compiled->key);
  }
}

TEST_CASE("B112 B114 an artifact of another toolchain, architecture, template, flag or text is never used") {
  MemoryFileSystem disk;
  CHECK(Store(disk).compiles({}));
  CHECK(!Store(disk).compiles({}));
  const Parts others[] = {{.source = "another"}, {.arch = "sm_100a"}, {.flag = "-y"}, {.digest = "22"}};
  for (const Parts& other : others) CHECK(Store(disk).compiles(other));
  for (const Parts& other : others) CHECK(!Store(disk).compiles(other));
  Store upgraded(disk);
  upgraded.toolchain->installed = std::string("fake 1.0, another build");  // the same version
  CHECK(upgraded.compiles({}));
  CHECK(!Store(disk).compiles({}));  // which is still there for whoever goes back
}

TEST_CASE("the versions of every format that an entry consists of are in its request") {
  const std::string request = toolchain::artifact_key(Parts().build().request, "{}", "t").request();
  const auto fields = parse_record(request);
  REQUIRE(fields);
  for (const std::string_view version : {"artifact", "image", "entry"}) {
    CHECK(std::any_of(fields->begin(), fields->end(), [&](const RecordField& field) { return field.name == version; }));
  }
}

TEST_CASE("B116 the key follows from what is asked for, before anything is compiled and in every process alike") {
  MemoryFileSystem one, other;
  TestEngine first(one), second(other);
  second.toolchain->say = [](int, const toolchain::CompileRequest&, toolchain::CompileOutcome& outcome) {
    outcome.cubin += " with a random name";
    return Status();
  };
  CHECK(first.compile()->key == second.compile()->key);
}

TEST_CASE("B123 two hundred numbers of rows are one compile and one load") {
  FakeDriver driver;  // outlives what the engine has loaded
  MemoryFileSystem disk;
  TestEngine engine(disk);
  runtime::DevicePtr device;
  for (int64_t rows = 1; rows <= 200; ++rows) {
    CAPTURE(rows);
    // As a program would that keeps nothing from step to step.
    const jit::CompiledKernelPtr compiled = engine.compile();
    const RecipeStep& step = compiled->image.recipe.steps.at(0);
    driver.entries = {{step.entry, step.parameter_bytes}};
    if (!device) device = *runtime::Device::open(driver.table(), 0);
    driver.current = FakeDriver::primary_context(0);
    const auto loaded = engine->load(compiled, device);
    REQUIRE(loaded);
    runtime::Arguments arguments;
    arguments.dims = compiled->dims();
    for (const RecipeTensor& tensor : compiled->image.recipe.tensors) {
      runtime::TensorArgument& argument = arguments.tensors.emplace_back();
      argument.name = tensor.name;
      argument.pointer = (arguments.tensors.size() + 1) << 24;
      for (const IntExpr& extent : tensor.extents)
        argument.extents.push_back(*extent.evaluate([&](std::string_view name) -> std::optional<int64_t> {
          if (name == "M") return rows;
          for (const runtime::NamedInteger& dim : arguments.dims)
            if (dim.name == name) return dim.value;
          return std::nullopt;
        }));
    }
    const auto call = runtime::bind_call(loaded->module, arguments);
    INFO((call ? std::string() : call.error().message));
    REQUIRE(call);
    REQUIRE(call->launch(nullptr));
  }
  CHECK(driver.launches.size() == 200);
  CHECK(driver.launches.front().grid < driver.launches.back().grid);
  CHECK(engine.toolchain->calls() == 1);
  CHECK(driver.count("library_load_data") == 1);
}

TEST_CASE("an Engine in a forked child says so, and one made there works") {
  MemoryFileSystem disk;
  TestEngine engine(disk);
  const auto compiled = engine.compile();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    Diagnostics diagnostics;
    const Program program = program_of(small_spec, diagnostics);
    const auto refused = engine->compile(program, "", {}, diagnostics);
    const bool says_so =
        !refused && refused.error().kind == ErrorKind::environment && contains(refused.error().message, "fork()");
    TestEngine own(disk);
    const auto found = own->compile(program, "", {}, diagnostics);
    const bool works = found && *found && (**found)->from == From::disk && (**found)->key == compiled->key;
    ::_exit(says_so && works ? 0 : 1);
  }
  int outcome = 0;
  REQUIRE(::waitpid(child, &outcome, 0) == child);
  CHECK((WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0));
  CHECK(engine.compile()->from == From::memory);  // the parent goes on
}
