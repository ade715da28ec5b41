// Recording the requests of a run, and reading them again.
#include <sys/wait.h>
#include <unistd.h>

#include "jit/request_record.h"
#include "jit/unfused.h"
#include "tests/jit/support.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/scratch_directory.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

std::vector<jit::RecordedRequest> recorded(FileSystem& disk, const std::string& path) {
  const Result<std::string> text = disk.read(path);
  REQUIRE(text);
  auto requests = jit::parse_record(*text);
  INFO((requests ? std::string() : requests.error().message));
  REQUIRE(requests);
  CHECK(requests->torn.empty());
  return std::move(requests->requests);
}

auto recording(const std::string& path) {
  return [path](jit::EngineOptions& options) { options.settings.record = path; };
}

}  // namespace

TEST_CASE("each request of a run is one line, with the texts of its spec and no path of the machine") {
  MemoryFileSystem disk;
  TestEngine engine(disk, "/cache", recording("/run.jsonl"));
  REQUIRE(disk.make_directories("/"));
  Diagnostics diagnostics;
  MemorySource files(std::map<std::string, std::string>{{"/srv/specs/lib/scale.epi", "fn scaled(v) = v * 2\n"}});
  std::string text = small_spec;
  text = "use \"lib/scale.epi\"\nuse \"activations.epi\"\n" + text.replace(text.find("* p\n"), 3, "* scaled(p)");
  const Program program = load_program("/srv/specs/small.epi", text, files, diagnostics);
  CompilerOptions options;
  options.dims = {{"K", 128}};
  for (int i = 0; i < 3; ++i) REQUIRE(engine->compile(program, "", options, diagnostics));
  options.left_out = {"q"};
  REQUIRE(engine->compile(program, "small", options, diagnostics));
  options = {};
  REQUIRE(jit::compile_unfused(*engine, program, "", options, diagnostics));
  INFO(diagnostics.print());
  const std::vector<jit::RecordedRequest> requests = recorded(disk, "/run.jsonl");
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].kernel == "small");
  CHECK(requests[0].dims == std::map<std::string, int64_t>{{"E", 2}, {"K", 128}, {"N", 64}});
  CHECK(requests[0].spec == "small.epi");
  CHECK(requests[0].files ==
        std::map<std::string, std::string>{{"small.epi", text}, {"lib/scale.epi", "fn scaled(v) = v * 2\n"}});
  CHECK(requests[1].left_out == std::set<std::string>{"q"});
  CHECK(requests[2].unfused);
  CHECK(disk.read("/run.jsonl")->find("/srv") == std::string::npos);

  // Planned again from the line alone, it is the same request.
  MemorySource kept(requests[0].files);
  const Program again = load_program(requests[0].spec, kept.read(requests[0].spec)->value(), kept, diagnostics);
  CompilerOptions same;
  same.dims = requests[0].dims;
  options.dims = {{"K", 128}};
  CHECK(plan_kernel(again, "small", same, diagnostics)->request ==
        plan_kernel(program, "small", options, diagnostics)->request);
}

TEST_CASE("a record that cannot be written costs one warning") {
  MemoryFileSystem disk;
  FaultyFileSystem full(disk);
  full.good_writes = 0;
  TestEngine engine(full, "", [](jit::EngineOptions& options) {
    options.settings.record = "/run.jsonl";
    options.settings.cache_wanted = false;
  });
  engine.compile();
  CompilerOptions options;
  options.dims = {{"K", 128}};
  engine.compile(small_spec, options);
  REQUIRE(engine.lines(LogLevel::warn).size() == 1);
  // The file may have been named by an option or a program, and not by the environment.
  CHECK(engine.lines(LogLevel::warn)[0].starts_with("requests are not recorded: "));
  CHECK(contains(engine.lines(LogLevel::warn)[0], "/run.jsonl"));
}

TEST_CASE("processes that append to one file keep their lines whole") {
  const ScratchDirectory folder;
  const std::string path = folder / "run.jsonl";
  constexpr int processes = 4, lines = 200;
  for (int process = 0; process < processes; ++process) {
    if (::fork() != 0) continue;
    const std::string line(1000, static_cast<char>('a' + process));
    for (int i = 0; i < lines; ++i)
      if (!real_file_system().append(path, line + "\n")) ::_exit(1);
    ::_exit(0);
  }
  for (int process = 0; process < processes; ++process) {
    int status = 1;
    ::wait(&status);
    CHECK(status == 0);
  }
  const std::string text = *real_file_system().read(path);
  CHECK(text.size() == processes * lines * size_t{1001});
  for (size_t at = 0; at < text.size(); at += 1001)
    REQUIRE(text.substr(at, 1001) == std::string(1000, text[at]) + "\n");
}

TEST_CASE("what is no record is refused with its line") {
  const auto message = [](const std::string& text) { return jit::parse_record(text).error().message; };
  // An empty list of kernels is nobody's wish.
  CHECK(message("") == "it has no requests");
  CHECK(message("\n  \n") == "it has no requests");
  CHECK(message("\n{") == "it is no record: no line of it can be read");
  CHECK(message("\n7") == "line 2: this is no JSON object");
  CHECK(message("{}") == "line 1: this is no recorded request");
  CHECK(message("{\"record\":2}") == "line 1: the record has version 2, and this Epifuse reads 1");
  CHECK(message("{\"record\":1,\"spec\":\"a\"}") == "line 1: 'kernel' is missing");
  const std::string good = R"({"record":1,"spec":"a","kernel":"k","dims":{"K":7},"without":[],"taps":[],)"
                           R"("target":"sm_90a","schedule":"","unfused":false,"files":{"a":""}})";
  REQUIRE(jit::parse_record(good));
  std::string large = good;
  large.replace(large.find('7'), 1, "18446744073709551615");
  CHECK(message(large) == "line 1: 'dims' is no object of whole numbers");
}

TEST_CASE("a line that was cut short costs its request and no other") {
  MemoryFileSystem disk;
  REQUIRE(disk.make_directories("/"));
  const auto run = [&] { TestEngine(disk, "/cache", recording("/run.jsonl")).compile(); };
  run();
  const std::string line = *disk.read("/run.jsonl");
  // At the end, where the next run begins a line of its own.
  disk.put("/run.jsonl", line + line.substr(0, line.size() / 2));
  run();
  auto record = jit::parse_record(*disk.read("/run.jsonl"));
  REQUIRE(record);
  CHECK(record->requests.size() == 2);
  CHECK(record->torn == std::vector<int>{2});
  // In the middle, by whoever does not.
  record = jit::parse_record(line.substr(0, line.size() / 2) + line + line);
  REQUIRE(record);
  CHECK(record->requests.size() == 2);
  CHECK(record->torn == std::vector<int>{1});
  for (size_t at = 1; at + 1 < line.size(); ++at) {
    record = jit::parse_record(line.substr(0, at) + line);
    REQUIRE(record);
    REQUIRE(record->requests.size() == 1);
  }
}
