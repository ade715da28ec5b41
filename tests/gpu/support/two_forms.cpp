#include "tests/gpu/support/two_forms.h"

#include <fmt/format.h>

#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/parallel.h"
#include "jit/device_call.h"

namespace epifuse::test {
namespace {

using interpreter::Buffers;

// Called on any thread: no assertions.
void compile_one(TwoForms& forms, bool is_fused, const Target& target, std::string& why) {
  MemorySource no_files({});
  Diagnostics diagnostics;
  const Program program = load_program("spec.epi", forms.spec.text, no_files, diagnostics);
  CompilerOptions options;
  options.dims = forms.spec.dims;
  options.target = target;
  const auto take = [&](auto& into, const auto& compiled) {
    if (compiled) into = compiled->value_or(nullptr);
    if (!into) why = diagnostics.print() + (compiled ? "" : compiled.error().message);
  };
  if (is_fused)
    take(forms.fused, engine().compile(program, "", options, diagnostics));
  else
    take(forms.unfused, jit::compile_unfused(engine(), program, "", options, diagnostics, 1));
}

Buffers run_one(const ir::Graph& graph, const jit::LaunchSequence& kernel, const Buffers& buffers) {
  const auto problem = must(interpreter::Problem::bind(graph, buffers, {}));
  Buffers outputs = must(interpreter::make_outputs(problem));
  auto call = must(jit::DeviceCall::make(kernel, buffers, outputs, {}));
  must(call.fill_outputs(0xFF, buffers));
  must(call.launch(0));
  must(call.download(outputs));
  const auto misplaced = must(call.misplaced_writes(buffers));
  INFO(fmt::format("{}", fmt::join(misplaced, "\n")));
  CHECK(misplaced.empty());
  return outputs;
}

}  // namespace

void TwoForms::run(const Buffers& buffers, const std::function<void(const Buffers&)>& check) const {
  INFO(spec.text << "\n" << why);
  CHECK(fused);
  CHECK(unfused);
  if (fused) {
    INFO("fused");
    check(run_one(fused->planned.graph, must(engine().load(fused, gpu().device)), buffers));
  }
  if (unfused) run_unfused(buffers, check);
}

void TwoForms::run_unfused(const Buffers& buffers, const std::function<void(const Buffers&)>& check) const {
  INFO("unfused");
  check(run_one(unfused->graph, must(jit::load_unfused(engine(), unfused, gpu().device)), buffers));
}

std::vector<TwoForms> compile_forms(const std::vector<FormSpec>& specs) {
  std::vector<TwoForms> all;
  for (const FormSpec& spec : specs) all.push_back({spec, nullptr, nullptr, ""});
  const Target target = gpu_target();
  engine();  // made here: it asserts
  std::vector<std::string> why(2 * specs.size());
  interpreter::parallel_for(static_cast<int64_t>(why.size()), 0, [&](int64_t task) {
    const auto i = static_cast<size_t>(task);
    compile_one(all[i / 2], i % 2 == 0, target, why[i]);
  });
  for (size_t i = 0; i < why.size(); ++i) all[i / 2].why += why[i];
  return all;
}

}  // namespace epifuse::test
