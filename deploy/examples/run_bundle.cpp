// Runs one kernel of a bundle on .npy files and compares what it stores, byte by byte, with files that another run
// stored (`epifuse run SPEC --inputs IN -o EXPECTED`):
//
//   run_bundle kernels.epb fc1 --dims E=8,K=7168 --inputs IN --expected EXPECTED
//
// IN has NAME.npy for each input and for the sizes of groups, EXPECTED for each output. Everything about the kernel
// comes from libepifuse_runtime; memory comes from the driver, which is opened here by hand so that this builds without
// a CUDA toolkit. Exit codes: those of the library; 5 when an output differs.
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/npy.h"
#include "deploy/epifuse_runtime_cpp.h"

namespace {

using epifuse::bundled::Error;

template <class T>
T must(epifuse::Result<T> result) {
  if (!result) throw Error(EPIFUSE_RUNTIME_ERROR_USER, result.error().message);
  return *std::move(result);
}

// The few entries of the CUDA driver that a program with buffers needs.
class Gpu {
 public:
  Gpu() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (!library_) throw Error(EPIFUSE_RUNTIME_ERROR_MACHINE, fmt::format("no NVIDIA driver: {}", dlerror()));
    void* context = nullptr;
    call<unsigned>("cuInit", 0U);
    call<void**, int>("cuDevicePrimaryCtxRetain", &context, 0);
    call<void*>("cuCtxPushCurrent_v2", context);
  }

  std::shared_ptr<void> allocate(size_t bytes) {
    uint64_t pointer = 0;
    call<uint64_t*, size_t>("cuMemAlloc_v2", &pointer, bytes > 0 ? bytes : 1);
    return {reinterpret_cast<void*>(pointer), [this](void* memory) {
              if (const auto free = entry<uint64_t>("cuMemFree_v2")) free(reinterpret_cast<uint64_t>(memory));
            }};
  }
  void upload(void* to, const std::string& bytes) {
    call<uint64_t, const void*, size_t, void*>("cuMemcpyHtoDAsync_v2", reinterpret_cast<uint64_t>(to), bytes.data(),
                                               bytes.size(), nullptr);
    wait();
  }
  void download(std::string& to, void* from) {
    call<void*, uint64_t, size_t, void*>("cuMemcpyDtoHAsync_v2", to.data(), reinterpret_cast<uint64_t>(from), to.size(),
                                         nullptr);
    wait();
  }

 private:
  void wait() { call<void*>("cuStreamSynchronize", nullptr); }

  template <class... A>
  using Entry = int (*)(A...);
  template <class... A>
  Entry<A...> entry(const char* name) {
    return reinterpret_cast<Entry<A...>>(dlsym(library_, name));
  }
  template <class... A>
  void call(const char* name, A... arguments) {
    const auto function = entry<A...>(name);
    if (const int code = function ? function(arguments...) : -1; code != 0)
      throw Error(EPIFUSE_RUNTIME_ERROR_MACHINE, fmt::format("{} failed with {}", name, code));
  }

  void* library_;
};

struct CommandLine {
  std::string bundle, inputs, expected;
  epifuse::bundled::Query query;
  std::vector<std::pair<std::string, double>> params;

  CommandLine(int count, char** words) {
    const auto usage = [] {
      return Error(EPIFUSE_RUNTIME_ERROR_USAGE,
                   "usage: run_bundle BUNDLE KERNEL [--dims E=8,K=7168] [--without NAME]... [--param NAME=VALUE]... "
                   "--inputs DIRECTORY --expected DIRECTORY");
    };
    if (count < 3) throw usage();
    bundle = words[1];
    query.kernel = words[2];
    query.device = 0;
    for (int i = 3; i + 1 < count; i += 2) {
      const std::string option = words[i], value = words[i + 1];
      if (option == "--inputs") {
        inputs = value;
      } else if (option == "--expected") {
        expected = value;
      } else if (option == "--without") {
        query.left_out.insert(value);
      } else if (option == "--param" && value.find('=') != std::string::npos) {
        params.emplace_back(value.substr(0, value.find('=')), std::stod(value.substr(value.find('=') + 1)));
      } else if (option == "--dims") {
        for (size_t from = 0; from < value.size();) {
          const size_t end = std::min(value.find(',', from), value.size()), equal = value.find('=', from);
          if (equal >= end) throw usage();
          query.dims.emplace_back(value.substr(from, equal - from),
                                  std::stoll(value.substr(equal + 1, end - equal - 1)));
          from = end + 1;
        }
      } else {
        throw usage();
      }
    }
    if (count % 2 == 0 || inputs.empty() || expected.empty()) throw usage();
  }
};

struct Values {
  std::vector<int64_t> extents;
  std::string bytes;
};

Values read_values(const std::string& path, const epifuse_runtime_buffer_info& info) {
  const epifuse::Storage storage = epifuse::parse_storage(info.storage).value();
  const epifuse::NpyArray array = must(epifuse::read_npy(must(epifuse::real_file_system().read(path)), path));
  const std::vector<int64_t> extents = epifuse::npy_extents(array, storage);
  return {extents, must(epifuse::npy_to_storage(array, storage, extents, path))};
}

struct Buffer {
  std::string name;
  bool is_output = false;
  Values values;  // of an output, those that are expected
  std::shared_ptr<void> memory;
};

Buffer make_buffer(const epifuse_runtime_buffer_info& info, const CommandLine& line, Gpu& gpu) {
  if (info.pointer_axes > 0)
    throw Error(EPIFUSE_RUNTIME_ERROR_USER, fmt::format("'{}' is an array of pointers, which no file is", info.name));
  const bool is_output = std::string_view(info.role) == "output";
  const std::string given = fmt::format("{}/{}.npy", line.inputs, info.name);
  Buffer buffer{info.name, is_output, {}, nullptr};
  buffer.values = read_values(is_output ? fmt::format("{}/{}.npy", line.expected, info.name) : given, info);
  buffer.memory = gpu.allocate(buffer.values.bytes.size());
  // An output that is added to holds what is given; any other zeros, as `epifuse run` has it.
  if (is_output && !epifuse::real_file_system().status(given).exists)
    gpu.upload(buffer.memory.get(), std::string(buffer.values.bytes.size(), '\0'));
  else
    gpu.upload(buffer.memory.get(), is_output ? read_values(given, info).bytes : buffer.values.bytes);
  return buffer;
}

int run(const CommandLine& line) {
  Gpu gpu;
  epifuse::bundled::Runtime runtime({line.bundle});
  fmt::print("{}: {} kernels are on the GPU\n", line.bundle, runtime.prepare(0));
  runtime.seal();
  const epifuse::bundled::Kernel kernel = runtime.load(line.query);
  fmt::print("{}\n", kernel.info());

  std::vector<Buffer> buffers;
  epifuse::bundled::Arguments arguments;
  for (const epifuse_runtime_buffer_info& info : kernel.buffers()) {
    const Buffer& buffer = buffers.emplace_back(make_buffer(info, line, gpu));
    arguments.tensors.push_back({buffer.name, buffer.memory.get(), buffer.values.extents, {}, info.storage});
  }
  arguments.params = line.params;
  arguments.workspace_bytes = kernel.workspace_bytes(arguments);
  const std::shared_ptr<void> workspace = gpu.allocate(static_cast<size_t>(arguments.workspace_bytes));
  arguments.workspace = workspace.get();

  const epifuse::bundled::Call call = kernel.bind(arguments);
  call.check_group_sizes(nullptr);
  call.launch(nullptr);
  call.synchronize(nullptr);

  bool equal = true;
  for (const Buffer& buffer : buffers) {
    if (!buffer.is_output) continue;
    std::string stored(buffer.values.bytes.size(), '\0');
    gpu.download(stored, buffer.memory.get());
    size_t first = 0, count = 0;
    for (size_t i = stored.size(); i-- > 0;)
      if (stored[i] != buffer.values.bytes[i]) first = i, ++count;
    if (count == 0) {
      fmt::print("{}: {} bytes, all equal\n", buffer.name, stored.size());
    } else {
      fmt::print("{}: {} of {} bytes differ, the first at {}\n", buffer.name, count, stored.size(), first);
      equal = false;
    }
  }
  return equal ? EPIFUSE_RUNTIME_OK : EPIFUSE_RUNTIME_ERROR_WRONG;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(CommandLine(count, words));
  } catch (const Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return failure.status;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return EPIFUSE_RUNTIME_ERROR_USER;
  }
}
