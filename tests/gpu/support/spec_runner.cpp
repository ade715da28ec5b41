// On the GPU.
#include "tests/cases/spec_runner.h"

#include "tests/gpu/support/cases.h"

namespace epifuse::test {

interpreter::Buffers run_spec(const std::string& text, const interpreter::Buffers& buffers,
                              const interpreter::Params& params) {
  const auto kernel = compile_spec(text);
  const interpreter::Problem problem = must(interpreter::Problem::bind(kernel->planned.graph, buffers, params));
  interpreter::Buffers outputs = must(interpreter::make_outputs(problem));
  auto call = must(jit::DeviceCall::make(must(engine().load(kernel, gpu().device)), buffers, outputs, params));
  must(call.fill_outputs(0xFF, buffers));
  must(call.launch(0));
  must(call.download(outputs));
  return outputs;
}

std::string vectors_text(const std::string& name) { return file_text("tests/vectors/" + name); }

}  // namespace epifuse::test
