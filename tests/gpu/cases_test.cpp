// Cases of rows, groups and addresses on the device: README.md of tests/cases says what each is about.
#include "tests/gpu/support/cases.h"

#include <limits>
#include <numeric>

#include "jit/run.h"
#include "tests/cases/padded_groups.h"
#include "tests/support/host_data.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

int64_t sum(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Inputs of every_store_spec that have a row for each token.
constexpr const char* token_inputs[] = {"x", "p", "r"};

}  // namespace

TEST_CASE("B10 B12 B16: rows behind the last group reach nothing, whatever they hold") {
  const auto kernel = compile_spec(every_store_spec);
  const std::vector<int64_t> counts = {200, 0, 333, 67};
  constexpr int64_t capacity = 1024;
  const int64_t rows = sum(counts);
  Buffers inputs = made_inputs(kernel, counts, capacity - rows);
  ProblemRun problem(kernel, inputs);
  const auto set_tails = [&](double value) {
    for (const char* name : token_inputs) {
      set_rows(inputs.at(name), rows, capacity, value);
      problem.upload(name, inputs.at(name));
    }
  };
  set_tails(0);
  const WrittenBytes clean = problem.written();
  CHECK(clean.not_finite() == "");
  CHECK(clean.count("y") == rows * 320 * 2);
  CHECK(clean.count("q.scale") == rows * 320 / 32);
  CHECK(clean.count("t") == 320 * (256 + 384 + 128));  // with their gaps
  for (const double tail : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e30}) {
    INFO("a tail of " << tail);
    set_tails(tail);
    CHECK(clean.difference(problem.run(0x5A), 0x5A) == "");
  }
}

TEST_CASE("B04 B12: steps in memory that earlier ones left full of their results") {
  const auto kernel = compile_spec(every_store_spec);
  const auto loaded = must(engine().load(kernel, gpu().device));
  const auto& tensors = kernel->image.recipe.tensors;
  Memory memory(32 << 20);
  size_t turn = 0;
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{256, 256, 256, 256}, {0, 600, 0, 0}, {64, 0, 0, 1}}) {
    INFO("step " << turn);
    Buffers inputs = made_inputs(kernel, counts, 1024 - sum(counts), turn + 1);
    for (const char* name : token_inputs) set_rows(inputs.at(name), sum(counts), 1024, 0);
    const WrittenBytes clean = ProblemRun(kernel, inputs).written();

    // Each step puts the tensors elsewhere, so that tails and outputs lie on what was something else.
    memory.rewind();
    runtime::Arguments arguments;
    arguments.dims = kernel->dims();
    Buffers outputs = output_shapes(kernel, inputs);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const RecipeTensor& tensor = tensors[(i + 3 * turn) % tensors.size()];
      const bool is_output = tensor.role == TensorRole::output;
      const HostTensor& shape = (is_output ? outputs : inputs).at(tensor.name);
      const auto argument = memory.place(tensor.name, shape);
      arguments.tensors.push_back(argument);
      if (is_output) continue;
      const bool has_tail = shape.extents[0] == 1024;
      const size_t bytes = has_tail ? shape.bytes.size() / 1024 * static_cast<size_t>(sum(counts)) : shape.bytes.size();
      memory.put(argument, std::span(shape.bytes).first(bytes));
    }
    const auto read_outputs = [&] {
      for (const auto& argument : arguments.tensors)
        if (const auto at = outputs.find(argument.name); at != outputs.end()) memory.get(argument, at->second);
    };
    read_outputs();
    const Buffers before = outputs;
    const auto call = must(runtime::bind_call(loaded.module, arguments));
    must(call.launch(gpu().stream.get()));
    must(call.synchronize(gpu().stream.get()));
    read_outputs();
    CHECK(clean.difference(outputs, before) == "");
    CHECK(clean.not_finite() == "");
    ++turn;
  }
}

TEST_CASE("B09 B96: packed groups, groups padded by the caller, and aligned groups give the same bits") {
  const auto packed = compile_spec(padded_spec("")), aligned = compile_spec(padded_spec(" align 8"));
  const auto run = [](const jit::CompiledKernelPtr& kernel, const Buffers& inputs) {
    return must(jit::run_on_gpu(engine(), kernel, inputs, {}, gpu().device));
  };
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0, 1, 7, 8, 9, 0}, {8, 16, 64, 0, 0, 0}}) {
    const PaddedGroups groups(counts, 8);
    const Buffers raw = made_inputs(packed, counts, 0);
    Buffers padded = raw;
    for (const char* name : {"x", "p"}) padded[name] = groups.pad(raw.at(name));
    const Buffers ours = run(aligned, padded);
    padded["M.counts"] = tensor_of(Storage::i32, {6}, {groups.padded_counts.begin(), groups.padded_counts.end()});
    const Buffers one = run(packed, raw), theirs = run(packed, padded);
    for (const char* name : {"y", "q", "q.scale"}) {
      INFO(name);
      CHECK((groups.rows_of(one.at(name), false) == groups.rows_of(theirs.at(name), true)));
      CHECK((groups.rows_of(one.at(name), false) == groups.rows_of(ours.at(name), true)));
    }
    for (const char* name : {"t", "t.scale"}) CHECK(different_columns(one.at(name), ours.at(name)) == 0);
  }
}

TEST_CASE("B17: rows of zeros become zero codes under a finite scale") {
  const auto kernel = compile_spec(every_store_spec, {{"E", 1}});
  Buffers inputs = made_inputs(kernel, {130}, 0);
  for (const char* name : {"x", "r"}) set_rows(inputs.at(name), 128, 130, 0);
  const WrittenBytes written = ProblemRun(kernel, inputs).written();
  CHECK(written.not_finite() == "");
  const HostTensor &q = written.outputs().at("q"), &t = written.outputs().at("t");
  int64_t wrong = 0;
  for (int64_t i = 128 * 320; i < 130 * 320; ++i) wrong += interpreter::load_code(q, i) != 0;
  for (int64_t n = 0; n < 320; ++n)
    for (int64_t row = 128; row < 256; ++row) wrong += interpreter::load_code(t, n * t.extents[1] + row) != 0;
  CHECK(wrong == 0);
}

TEST_CASE("B08: a call without rows launches nothing, and the next one runs") {
  const auto kernel = compile_spec(every_store_spec);
  ProblemRun nothing(kernel, made_inputs(kernel, {0, 0, 0, 0}, 0));
  ProblemRun something(kernel, made_inputs(kernel, {3, 0, 0, 130}, 0));
  const WrittenBytes expected = something.written();
  something.poison(0x5A);
  CountingDriver::reset();
  must(nothing.call().bound().launch(something.call().stream()));
  CHECK(CountingDriver::counts().empty());
  must(something.enqueue());
  something.wait();
  CHECK(expected.difference(something.download(), 0x5A) == "");
}

TEST_CASE("B91: addresses aligned as asked for and no better are right, and every other one is refused by name") {
  const auto kernel = compile_spec(every_store_spec);
  const auto loaded = must(engine().load(kernel, gpu().device));
  const Buffers inputs = made_inputs(kernel, {130, 0, 77, 1}, 9);
  const WrittenBytes expected = ProblemRun(kernel, inputs).written();
  Memory memory(32 << 20);
  runtime::Arguments arguments;
  arguments.dims = kernel->dims();
  Buffers outputs = output_shapes(kernel, inputs);
  for (const RecipeTensor& tensor : kernel->image.recipe.tensors) {
    const bool is_output = tensor.role == TensorRole::output;
    const HostTensor& shape = (is_output ? outputs : inputs).at(tensor.name);
    arguments.tensors.push_back(memory.place(tensor.name, shape, static_cast<size_t>(tensor.alignment)));
    memory.put(arguments.tensors.back(), is_output ? std::vector<uint8_t>(shape.bytes.size(), 0x5A) : shape.bytes);
  }
  const auto call = must(runtime::bind_call(loaded.module, arguments));
  must(call.launch(gpu().stream.get()));
  must(call.synchronize(gpu().stream.get()));
  for (const auto& argument : arguments.tensors)
    if (const auto at = outputs.find(argument.name); at != outputs.end()) memory.get(argument, at->second);
  CHECK(expected.difference(outputs, 0x5A) == "");

  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const RecipeTensor& tensor = kernel->image.recipe.tensors[i];
    for (int off = 1; off < 16; ++off) {
      runtime::Arguments moved = arguments;
      moved.tensors[i].pointer += static_cast<uint64_t>(off);
      const auto bound = runtime::bind_call(loaded.module, moved);
      INFO(tensor.name << ", aligned to " << tensor.alignment << ", " << off << " bytes off");
      CHECK(static_cast<bool>(bound) == (off % tensor.alignment == 0));
      if (!bound) CHECK(bound.error().message.find("tensor '" + tensor.name + "' is at") != std::string::npos);
    }
  }
}

TEST_CASE("B131: multiprocessors left to others change no bit") {
  const auto kernel = compile_spec(every_store_spec);
  ProblemRun problem(kernel, made_inputs(kernel, {500, 0, 1211, 3}, 37));
  const WrittenBytes expected = problem.written();
  for (const int margin : {1, 16, gpu().device->info().sm_count / 2, gpu().device->info().sm_count - 1}) {
    INFO("margin " << margin);
    CHECK(expected.difference(problem.run(0x5A, margin), 0x5A) == "");
  }
}
