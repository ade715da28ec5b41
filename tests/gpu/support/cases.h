// What the cases share: a kernel with every kind of store, runs of one problem, and tensors at addresses of our choice.
#pragma once

#include <string>
#include <vector>

#include "jit/device_call.h"
#include "tests/cases/written_bytes.h"
#include "tests/gpu/support/kernels.h"

namespace epifuse::test {

// Rows with a probability and a residual, stored as rows and transposed, plain and as MXFP8.
extern const char* const every_store_spec;

// Made from a seed; rows behind the last group hold NaN.
interpreter::Buffers made_inputs(const jit::CompiledKernelPtr& kernel, const std::vector<int64_t>& counts,
                                 int64_t slack_rows, uint64_t seed = 1);

// `M.ends` of groups with these counts.
interpreter::HostTensor ends_of(const std::vector<int64_t>& counts);

// One problem in device memory of its own.
class ProblemRun {
 public:
  ProblemRun(const jit::CompiledKernelPtr& kernel, const interpreter::Buffers& inputs);

  // Outputs hold `poison` in every byte, then the kernel runs.
  interpreter::Buffers run(uint8_t poison, int sm_margin = 0);
  WrittenBytes written();

  void poison(uint8_t byte) { must(call_.fill_outputs(byte, {})); }
  void upload(const std::string& name, const interpreter::HostTensor& tensor);
  interpreter::Buffers download();

  jit::DeviceCall& call() { return call_; }
  Status enqueue() const { return call_.bound().launch(call_.stream()); }
  void wait() const { must(call_.bound().synchronize(call_.stream())); }

 private:
  interpreter::Buffers outputs_;
  jit::DeviceCall call_;
};

// Tensors carved out of one allocation, which keeps what was in it.
class Memory {
 public:
  explicit Memory(size_t bytes);  // 0xFF in every byte

  // `beyond` bytes behind a multiple of 256.
  runtime::TensorArgument place(const std::string& name, const interpreter::HostTensor& tensor, size_t beyond = 0);
  void rewind() { at_ = 0; }

  void put(const runtime::TensorArgument& to, std::span<const uint8_t> bytes);
  void get(const runtime::TensorArgument& from, interpreter::HostTensor& tensor) const;

 private:
  size_t offset_of(const runtime::TensorArgument& argument) const { return argument.pointer - buffer_.pointer(); }

  runtime::DeviceBuffer buffer_;
  size_t at_ = 0;
};

// Shapes of the outputs of a kernel for these inputs.
interpreter::Buffers output_shapes(const jit::CompiledKernelPtr& kernel, const interpreter::Buffers& inputs);

// Compares device memory on the device, in the order of a stream.
class BitComparison {
 public:
  BitComparison();
  // `bytes` is a multiple of 16, and so are both addresses.
  runtime::BoundCall bind(cuda::DevicePointer a, cuda::DevicePointer b, size_t bytes) const;
  int different_words() const;  // of all launches so far

 private:
  runtime::ModulePtr module_;
  runtime::DeviceBuffer found_;
};

}  // namespace epifuse::test
