// libepifuse_runtime for C++17: the objects of deploy/epifuse_runtime.h with owners, its failures as exceptions, and
// nothing else. The comments there hold here.
#pragma once

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "deploy/epifuse_runtime.h"

namespace epifuse::bundled {

class Error : public std::runtime_error {
 public:
  Error(epifuse_runtime_status status, const std::string& message) : std::runtime_error(message), status(status) {}
  const epifuse_runtime_status status;  // EPIFUSE_RUNTIME_ERROR_…
};

inline void must(epifuse_runtime_status status) {
  if (status != EPIFUSE_RUNTIME_OK) throw Error(status, epifuse_runtime_last_error());
}

template <class T>
T sized() {
  T value{};
  value.size = sizeof value;
  return value;
}

template <class T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* object) const { destroy(object); }
};
template <class T, void (*destroy)(T*)>
using Handle = std::unique_ptr<T, Destroy<T, destroy>>;

struct Tensor {
  std::string name;
  void* pointer = nullptr;
  std::vector<int64_t> extents, strides;  // strides empty: contiguous
  std::string storage;                    // empty: taken on trust
};

struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, double>> params;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// A kernel with its buffers, which it does not own.
class Call {
 public:
  explicit Call(epifuse_runtime_call* call) : handle_(call) {}
  epifuse_runtime_call* get() const { return handle_.get(); }

  void launch(void* stream, int sm_margin = 0, bool overlap_previous = false) const {
    auto options = sized<epifuse_runtime_launch_options>();
    options.sm_margin = sm_margin;
    options.overlap_previous = overlap_previous;
    must(epifuse_runtime_launch_with(get(), stream, &options));
  }
  void rebind(const std::vector<void*>& pointers, void* workspace) {
    must(epifuse_runtime_rebind(get(), pointers.data(), pointers.size(), workspace));
  }
  void synchronize(void* stream) const { must(epifuse_runtime_synchronize(get(), stream)); }
  void check_group_sizes(void* stream) const { must(epifuse_runtime_check_group_sizes(get(), stream)); }

 private:
  Handle<epifuse_runtime_call, epifuse_runtime_call_destroy> handle_;
};

class Kernel {
 public:
  explicit Kernel(epifuse_runtime_kernel* kernel) : handle_(kernel) {}
  epifuse_runtime_kernel* get() const { return handle_.get(); }

  std::string info() const { return epifuse_runtime_kernel_info(get()); }  // JSON
  // Texts in it live as long as the kernel.
  std::vector<epifuse_runtime_buffer_info> buffers() const {
    std::vector<epifuse_runtime_buffer_info> list(epifuse_runtime_kernel_buffer_count(get()),
                                                  sized<epifuse_runtime_buffer_info>());
    for (size_t i = 0; i < list.size(); ++i) must(epifuse_runtime_kernel_buffer(get(), i, &list[i]));
    return list;
  }
  int64_t workspace_bytes(const Arguments& arguments) const {
    int64_t bytes = 0;
    must(epifuse_runtime_workspace_bytes(get(), View(arguments).get(), &bytes));
    return bytes;
  }
  Call bind(const Arguments& arguments) const {
    epifuse_runtime_call* call = nullptr;
    must(epifuse_runtime_bind(get(), View(arguments).get(), &call));
    return Call(call);
  }

 private:
  // Arguments as C has them, over the same memory.
  class View {
   public:
    explicit View(const Arguments& from) : all_(sized<epifuse_runtime_arguments>()) {
      for (const Tensor& tensor : from.tensors)
        tensors_.push_back({sizeof(epifuse_runtime_tensor), tensor.name.c_str(), tensor.pointer,
                            tensor.storage.empty() ? nullptr : tensor.storage.c_str(),
                            static_cast<int32_t>(tensor.extents.size()), tensor.extents.data(),
                            tensor.strides.empty() ? nullptr : tensor.strides.data()});
      for (const auto& [name, value] : from.params) params_.push_back({name.c_str(), value});
      all_.tensors = tensors_.data();
      all_.tensor_count = tensors_.size();
      all_.params = params_.data();
      all_.param_count = params_.size();
      all_.workspace = from.workspace;
      all_.workspace_bytes = from.workspace_bytes;
    }
    const epifuse_runtime_arguments* get() const { return &all_; }

   private:
    std::vector<epifuse_runtime_tensor> tensors_;
    std::vector<epifuse_runtime_param> params_;
    epifuse_runtime_arguments all_;
  };

  Handle<epifuse_runtime_kernel, epifuse_runtime_kernel_destroy> handle_;
};

// What finds a kernel; empty fields are not given.
struct Query {
  std::string kernel;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::set<std::string> left_out;
  std::string schedule, target, request;
  int device = EPIFUSE_RUNTIME_DEVICE_CURRENT;
};

class Runtime {
 public:
  explicit Runtime(const std::vector<std::string>& bundles = {}) {
    epifuse_runtime* runtime = nullptr;
    must(epifuse_runtime_create(nullptr, &runtime));
    handle_.reset(runtime);
    for (const std::string& path : bundles) add_bundle(path);
  }
  explicit Runtime(epifuse_runtime* runtime) : handle_(runtime) {}
  epifuse_runtime* get() const { return handle_.get(); }

  void add_bundle(const std::string& path) { must(epifuse_runtime_add_bundle(get(), path.c_str())); }
  // The bytes outlive the runtime and its kernels.
  void add_bundle(const void* bytes, size_t size, const std::string& name) {
    must(epifuse_runtime_add_bundle_memory(get(), bytes, size, name.c_str()));
  }
  std::string list() const {  // JSON
    const char* list = nullptr;
    must(epifuse_runtime_list(get(), &list));
    return list;
  }
  size_t prepare(int device = EPIFUSE_RUNTIME_DEVICE_CURRENT) {
    size_t count = 0;
    must(epifuse_runtime_prepare(get(), device, &count));
    return count;
  }
  void seal() { must(epifuse_runtime_seal(get())); }

  Kernel load(const Query& query) {
    const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    std::vector<epifuse_runtime_dim> dims;
    for (const auto& [name, value] : query.dims) dims.push_back({name.c_str(), value});
    std::vector<const char*> left_out;
    for (const std::string& name : query.left_out) left_out.push_back(name.c_str());
    auto options = sized<epifuse_runtime_kernel_options>();
    options.kernel = given(query.kernel);
    options.dims = dims.data();
    options.dim_count = dims.size();
    options.left_out = left_out.data();
    options.left_out_count = left_out.size();
    options.schedule = given(query.schedule);
    options.target = given(query.target);
    options.device = query.device;
    options.request = given(query.request);
    epifuse_runtime_kernel* kernel = nullptr;
    must(epifuse_runtime_kernel_load(get(), &options, &kernel));
    return Kernel(kernel);
  }

 private:
  Handle<epifuse_runtime, epifuse_runtime_destroy> handle_;
};

}  // namespace epifuse::bundled
