// `use`: where files are looked for, how often they are read, and what cannot be used.
#include "compiler/parser/program.h"

#include "tests/support/catch.h"

using namespace epifuse;

namespace {

struct Loaded {
  Program program;
  Diagnostics diagnostics;
};

Loaded load(std::map<std::string, std::string> files, const std::string& main = "main.epi") {
  MemorySource source(std::move(files));
  Loaded loaded;
  Result<Program> program = load_program(main, source, loaded.diagnostics);
  REQUIRE(program);
  loaded.program = std::move(*program);
  return loaded;
}

class UnreadableSource : public SpecSource {
 public:
  Result<std::optional<std::string>> read(const std::string& path) override {
    return environment_error("cannot read " + path);
  }
};

}  // namespace

TEST_CASE("a used file is looked for beside its user, then in the library") {
  const Loaded beside =
      load({{"specs/main.epi", "use \"activations.epi\"\n"}, {"specs/activations.epi", "fn own(x) = x\n"}},
           "specs/main.epi");
  CHECK(beside.diagnostics.all().empty());
  REQUIRE(beside.program.units.size() == 2);
  CHECK(beside.program.units[1].tree.source->name == "specs/activations.epi");
  CHECK(beside.program.units[1].tree.functions.size() == 1);

  const Loaded library = load({{"main.epi", "use \"activations.epi\"\n"}});
  CHECK(library.diagnostics.all().empty());
  REQUIRE(library.program.units.size() == 2);
  CHECK(library.program.units[1].tree.source->name == "<library>/activations.epi");
  CHECK(library.program.units[1].tree.functions.size() == 13);
}

TEST_CASE("a file that is used on several ways is read once") {
  const Loaded loaded = load({{"main.epi", "use \"a.epi\"\nuse \"b/b.epi\"\nuse \"./a.epi\"\n"},
                              {"a.epi", "use \"c.epi\"\n"},
                              {"b/b.epi", "use \"../c.epi\"\n"},
                              {"c.epi", "const c = 1\n"}});
  CHECK(loaded.diagnostics.all().empty());
  CHECK(loaded.program.units.size() == 4);
  CHECK(loaded.program.units[0].uses == std::vector<int>{1, 3, 1});
}

TEST_CASE("files cannot use each other in a cycle") {
  const Loaded loaded =
      load({{"main.epi", "use \"a.epi\"\n"}, {"a.epi", "\nuse \"b.epi\"\n"}, {"b.epi", "use \"a.epi\"\n"}});
  REQUIRE(loaded.diagnostics.all().size() == 1);
  const Diagnostic& cycle = loaded.diagnostics.all()[0];
  CHECK(cycle.message == "the files use each other in a cycle: a.epi uses b.epi uses a.epi");
  CHECK(cycle.where.file->name == "b.epi");
  CHECK(load({{"main.epi", "use \"main.epi\"\n"}}).diagnostics.print().find("main.epi uses main.epi") !=
        std::string::npos);
}

TEST_CASE("a long row of files is an error, not a crash") {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 500; ++i) files[std::to_string(i)] = "use \"" + std::to_string(i + 1) + "\"\n";
  CHECK(load(files, "0").diagnostics.print().find("deeper than 100 levels") != std::string::npos);
}

TEST_CASE("a file that is nowhere, and one that cannot be read") {
  const Loaded loaded = load({{"main.epi", "use \"activation.epi\"\n"}});
  REQUIRE(loaded.diagnostics.all().size() == 1);
  CHECK(loaded.diagnostics.all()[0].hint == "did you mean \"activations.epi\"?");

  UnreadableSource source;
  Diagnostics diagnostics;
  const Result<Program> program = load_program("main.epi", source, diagnostics);
  REQUIRE_FALSE(program);
  CHECK(program.error().kind == ErrorKind::environment);
  load_program("main.epi", "use \"a.epi\"\n", source, diagnostics);
  REQUIRE(diagnostics.all().size() == 1);
  CHECK(diagnostics.all()[0].message == "cannot read a.epi");

  MemorySource empty({});
  CHECK_FALSE(load_program("main.epi", empty, diagnostics));
}

TEST_CASE("the library knows what it defines") {
  CHECK(library_files() == std::vector<std::string>{"activations.epi"});
  const std::vector<LibraryFunction> functions = library_functions();
  const auto file_of = [&](const std::string& name) {
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [&](const LibraryFunction& known) { return known.name == name; });
    return found == functions.end() ? "" : found->file;
  };
  CHECK(file_of("relu") == "activations.epi");
  CHECK(file_of("sigmoid").empty());
}
