// Which libnvrtc is taken, from a disk in memory: order of places, versions, pairs, and words for each refusal.
#include "compiler/toolchain/nvrtc_locator.h"

#include "compiler/toolchain/elf_build_id.h"
#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/toolchain/elf_image.h"

using namespace epifuse;
using namespace epifuse::toolchain;
using namespace epifuse::test;

namespace {

void install(MemoryFileSystem& disk, const std::string& directory, const std::string& version,
             const std::string& build_id = "\x01") {
  const std::string major = version.substr(0, version.find('.'));
  disk.put(directory + "/libnvrtc.so." + major, elf_image(build_id, host_machine()));
  disk.put(directory + "/libnvrtc-builtins.so." + version, elf_image("\x02", host_machine()));
}

NvrtcSearch locate(MemoryFileSystem& disk, const Settings& settings = {},
                   const std::vector<std::string>& program_folders = {}) {
  return locate_nvrtc(disk, settings, [&] { return program_folders; });
}

std::string found_in(const NvrtcSearch& search) {
  return search.found.empty() ? "" : search.found[0].place + ": " + search.found[0].library;
}

}  // namespace

TEST_CASE("places are tried in their order") {
  MemoryFileSystem disk;
  Settings settings;
  settings.cuda_home = "/opt/cuda";
  settings.library_directories = {"/ld"};
  settings.program_directories = {"/none/bin", "/env/bin"};
  settings.home = "/home/u";
  const std::vector<std::string> folders{"/clone/build/dev/tools"};
  disk.put("/env/bin/python3", "");

  struct Step {
    std::string directory, expected;
  };
  // From the last place to the first: each new one must win over those before it.
  const std::vector<Step> steps = {
      {"/clone/build/nvrtc/nvidia/cu13/lib", "nvrtc/ beside this program"},
      {"/home/u/.local/lib/python3.12/site-packages/nvidia/cu13/lib", "the Python package nvidia-cuda-nvrtc"},
      {"/env/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", "the Python package nvidia-cuda-nvrtc"},
      {"/usr/local/cuda-12.9/lib64", "/usr/local/cuda*"},
      {"/usr/local/cuda-13.0/targets/x86_64-linux/lib", "/usr/local/cuda*"},
      {"/usr/local/cuda/lib64", "/usr/local/cuda*"},
      {"/ld", "the loader's path"},
      {"/opt/cuda/lib64", "CUDA_HOME"},
  };
  CHECK(found_in(locate(disk, settings, folders)) == "");
  for (const Step& step : steps) {
    install(disk, step.directory, "13.0");
    CHECK(found_in(locate(disk, settings, folders)) == step.expected + ": " + step.directory + "/libnvrtc.so.13");
  }
  settings.nvrtc = "/mine";
  install(disk, "/mine", "12.8");
  CHECK(found_in(locate(disk, settings, folders)) == "EPIFUSE_NVRTC: /mine/libnvrtc.so.12");
}

TEST_CASE("the newest usable version of a directory is taken, the others are left with a reason") {
  MemoryFileSystem disk;
  install(disk, "/usr/local/cuda/lib64", "12.9");
  install(disk, "/usr/local/cuda/lib64", "13.0");
  install(disk, "/usr/local/cuda/lib64", "14.0");
  disk.put("/usr/local/cuda/lib64/libnvrtc.so", "a link");
  const NvrtcSearch search = locate(disk);
  REQUIRE(search.found.size() == 1);
  CHECK(search.found[0].library == "/usr/local/cuda/lib64/libnvrtc.so.13");
  CHECK(search.found[0].builtins == "/usr/local/cuda/lib64/libnvrtc-builtins.so.13.0");
  CHECK(search.found[0].version == NvrtcVersion{13, 0});
  REQUIRE(search.rejected.size() == 1);
  CHECK(search.rejected[0].reason.starts_with("version 14.0 is newer"));
}

TEST_CASE("of two builtins of one major version, the one that the library names is taken") {
  MemoryFileSystem disk;
  install(disk, "/usr/local/cuda/lib64", "13.1");
  install(disk, "/usr/local/cuda/lib64", "13.10");
  const std::string library = "/usr/local/cuda/lib64/libnvrtc.so.13";
  const auto with = [&](const std::string& text) {
    disk.put(library, elf_image("\x01", host_machine(), text));
    return locate(disk);
  };
  CHECK(with(std::string("\0libnvrtc-builtins.so.13.1\0", 27)).found.at(0).version == NvrtcVersion{13, 1});
  CHECK(with(std::string("\0libnvrtc-builtins.so.13.10\0", 28)).found.at(0).version == NvrtcVersion{13, 10});
  CHECK(with("nothing").found.empty());
}

TEST_CASE("the identity follows the builds of both files and nothing else") {
  MemoryFileSystem disk;
  install(disk, "/usr/local/cuda/lib64", "13.0");
  const std::string identity = locate(disk).found.at(0).identity();
  CHECK(identity.starts_with("nvrtc 13.0 01 builtins 02 flags --std="));
  install(disk, "/usr/local/cuda/lib64", "13.0", "\x03");
  CHECK(locate(disk).found.at(0).identity() != identity);

  MemoryFileSystem moved;
  install(moved, "/ld", "13.0");
  Settings settings;
  settings.library_directories = {"/ld"};
  CHECK(locate(moved, settings).found.at(0).identity() == identity);
}

TEST_CASE("what cannot be used is said") {
  MemoryFileSystem disk;
  Settings settings;
  settings.nvrtc = "/n/libnvrtc.so.13";
  const auto reason = [&] {
    const NvrtcSearch search = locate(disk, settings);
    const Result<NvrtcLocation> result = search.result();
    REQUIRE(!result);
    CHECK(result.error().kind == ErrorKind::environment);
    CHECK(result.error().message.find("/n/libnvrtc.so.13") != std::string::npos);
    CHECK(result.error().message.find("EPIFUSE_NVRTC") != std::string::npos);
    return search.rejected.at(0).reason;
  };
  CHECK(reason() == "there is no file or folder /n/libnvrtc.so.13");
  disk.put("/n/libnvrtc.so.13", "text");
  CHECK(reason() == "/n/libnvrtc.so.13 is not a shared library");
  disk.put("/n/libnvrtc.so.13", elf_image("\x01", EM_386));
  CHECK(reason() == "it is for another processor");
  disk.put("/n/libnvrtc.so.13", elf_image("\x01", host_machine()));
  disk.put("/n/libnvrtc-builtins.so.12.9", "");
  CHECK(reason() == "libnvrtc-builtins.so.* of its version is not beside it");

  // A setting that does not work is not passed over in silence.
  install(disk, "/usr/local/cuda/lib64", "13.0");
  CHECK(locate(disk, settings).found.empty());
}

TEST_CASE("a setting right under the root") {
  MemoryFileSystem disk;
  Settings settings;
  settings.nvrtc = "/nonexistent";
  CHECK(locate(disk, settings).rejected.at(0).reason == "there is no file or folder /nonexistent");
  install(disk, "", "13.0");
  settings.nvrtc = "/libnvrtc.so.13";
  CHECK(found_in(locate(disk, settings)) == "EPIFUSE_NVRTC: /libnvrtc.so.13");
}

TEST_CASE("an old toolkit in an early place does not hide a good one in a later") {
  MemoryFileSystem disk;
  Settings settings;
  settings.cuda_home = "/opt/cuda";
  install(disk, "/opt/cuda/lib64", "12.4");
  install(disk, "/usr/local/cuda-13.0/lib64", "13.0");
  const NvrtcSearch search = locate(disk, settings);
  CHECK(found_in(search) == "/usr/local/cuda*: /usr/local/cuda-13.0/lib64/libnvrtc.so.13");
  CHECK(search.rejected.at(0).reason == "version 12.4 is older than 12.8");
}

TEST_CASE("a cut library or cut builtins in an early place are left for a later one, unless they are named") {
  for (const std::string name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}) {
    MemoryFileSystem disk;
    Settings settings;
    settings.cuda_home = "/opt/cuda";
    install(disk, "/opt/cuda/lib64", "13.0");
    install(disk, "/usr/local/cuda/lib64", "13.0");
    std::string& bytes = disk.node("/opt/cuda/lib64/" + name).bytes;
    bytes.resize(bytes.size() - 1);
    const std::string reason = "/opt/cuda/lib64/" + name + " is damaged: it is shorter than its own headers say";
    const NvrtcSearch search = locate(disk, settings);
    CHECK(found_in(search) == "/usr/local/cuda*: /usr/local/cuda/lib64/libnvrtc.so.13");
    CHECK(search.rejected.at(0).reason == reason);

    settings.nvrtc = "/opt/cuda/lib64";
    const Result<NvrtcLocation> named = locate(disk, settings).result();
    REQUIRE(!named);
    CHECK(named.error().kind == ErrorKind::environment);
    CHECK(named.error().message.find(reason) != std::string::npos);
  }
}

TEST_CASE("nothing anywhere names the places and what to do") {
  MemoryFileSystem disk;
  const Result<NvrtcLocation> result = locate(disk).result();
  REQUIRE(!result);
  for (const char* part : {"/usr/local/cuda*", "the loader's path", "nvidia-cuda-nvrtc", "EPIFUSE_NVRTC"}) {
    CHECK(result.error().message.find(part) != std::string::npos);
  }
}
