// run: one kernel on given and made inputs, on the GPU or on the interpreter; its outputs as files and as a table.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/json.h"
#include "base/npy.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/buffers.h"
#include "compiler/lowering/differentiate.h"
#include "jit/inputs.h"
#include "jit/run.h"
#include "tools/commands.h"
#include "tools/compile_kernel.h"
#include "tools/files_read.h"
#include "tools/find_gpu.h"
#include "tools/kernel_inputs.h"
#include "tools/output_file.h"
#include "tools/spec_file.h"
#include "tools/summary.h"

namespace epifuse::tools {
namespace {

using interpreter::Buffers;
using interpreter::HostTensor;
using Json = nlohmann::ordered_json;

std::string shape_text(const HostTensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.extents, ", ")); }

// Where the outputs go: nowhere, into files of a directory, or into one archive.
class Destination {
 public:
  static Result<Destination> choose(FileSystem& disk, const std::string& path) {
    Destination destination;
    destination.path_ = path;
    destination.archive_ = path.ends_with(".npz");
    if (destination.archive_) {
      Result<std::string> file = output_file(disk, path);
      if (!file) return file.error();
      destination.path_ = *std::move(file);
    } else if (!path.empty()) {
      if (Status status = check_output_directory(path); !status) return status.error();
    }
    return destination;
  }

  bool nowhere() const { return path_.empty(); }
  std::string file_of(const std::string& buffer) const {
    return archive_ ? path_ : fmt::format("{}/{}.npy", path_, buffer);
  }

  // Whether every output of the kernel can get its file, as far as that shows before the directory is made, and none
  // that is read.
  Status check(FileSystem& disk, const ir::Graph& graph, const std::vector<FileRead>& files) const {
    std::error_code failed;
    if (archive_ || nowhere() || !std::filesystem::is_directory(path_, failed)) return {};
    for (const ir::Buffer& buffer : ir::buffers(graph)) {
      if (buffer.role != TensorRole::output) continue;
      const Result<std::string> file = output_file(disk, file_of(buffer.name));
      if (!file) return file.error();
      // What an output is added to may become that output.
      std::vector<FileRead> others = files;
      std::erase_if(others, [&](const FileRead& read) { return read.buffer == buffer.name; });
      if (Status other = check_not_replaced(file_of(buffer.name), others); !other) return other;
    }
    return {};
  }

  Status write(FileSystem& disk, const Buffers& outputs) const {
    if (nowhere()) return {};
    NpzArrays arrays;
    for (const auto& [name, tensor] : outputs) {
      const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      arrays.emplace_back(name, npy_from_storage(tensor.storage, tensor.extents, bytes));
    }
    if (archive_) {
      const Result<std::string> bytes = write_npz(arrays);
      return bytes ? write_output(disk, path_, *bytes) : Status(bytes.error());
    }
    if (Status made = make_output_directory(path_); !made) return made;
    for (const auto& [name, array] : arrays) {
      const Result<std::string> file = output_file(disk, file_of(name));
      if (!file) return file.error();
      if (Status written = write_output(disk, *file, write_npy(array)); !written) return written;
    }
    return {};
  }

 private:
  std::string path_;  // empty: nowhere
  bool archive_ = false;
};

struct Ran {
  Buffers inputs, outputs;
  double seconds = 0;        // of the kernel or the interpreter, copies included
  std::string compile_json;  // of the kernel or kernels, on a GPU
  std::string device_name;
};

Result<Ran> run_on_interpreter(const KernelInputs& inputs, const CommandLine& line) {
  Ran ran;
  Result<Buffers> made = jit::make_inputs(inputs.graph, inputs.data);
  if (!made) return made.error();
  ran.inputs = *std::move(made);
  const auto start = std::chrono::steady_clock::now();
  const ir::Graph graph = lowering::differentiate(inputs.graph);
  Result<Buffers> outputs = interpreter::run(graph, ran.inputs, line.params, nullptr, line.jobs);
  if (!outputs) return outputs.error();
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ran.outputs = *std::move(outputs);
  ran.device_name = "the interpreter";
  return ran;
}

// An empty optional: the diagnostics say why.
Result<std::optional<Ran>> run_on_device(const Gpu& gpu, const Program& program, const KernelInputs& inputs,
                                         const CommandLine& line, Surroundings& world, Diagnostics& diagnostics) {
  const std::unique_ptr<jit::Engine> engine = make_engine(world, true);
  CompilerOptions options = compiler_options(line);
  options.dims = inputs.dims;
  options.target = gpu.target;
  Ran ran;
  std::optional<jit::LaunchSequence> kernel;
  if (line.unfused) {
    auto compiled = jit::compile_unfused(*engine, program, line.kernel, options, diagnostics, line.jobs);
    if (!compiled) return compiled.error();
    if (!*compiled) return {std::nullopt};
    Result<jit::LaunchSequence> loaded = jit::load_unfused(*engine, **compiled, gpu.device);
    if (!loaded) return loaded.error();
    ran.compile_json = unfused_json(***compiled);
    kernel = *std::move(loaded);
  } else {
    auto compiled = engine->compile(program, line.kernel, options, diagnostics);
    if (!compiled) return compiled.error();
    if (!*compiled) return {std::nullopt};
    Result<jit::LoadedKernel> loaded = engine->load(**compiled, gpu.device);
    if (!loaded) return loaded.error();
    ran.compile_json = kernel_json(***compiled);
    kernel = *std::move(loaded);
  }
  ran.device_name = gpu.device->info().name;
  Result<Buffers> made = jit::make_inputs(inputs.graph, inputs.data);
  if (!made) return made.error();
  ran.inputs = *std::move(made);
  jit::RunOptions run_options;
  run_options.params = line.params;
  const auto start = std::chrono::steady_clock::now();
  Result<Buffers> outputs = jit::run_on_gpu(lowering::differentiate(inputs.graph), *kernel, ran.inputs, run_options);
  if (!outputs) return outputs.error();
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ran.outputs = *std::move(outputs);
  return {std::move(ran)};
}

// The interpreter has no schedules, but a command means the same with and without a GPU: one that asks for a plan that
// there is not is refused on both.
bool schedule_exists(const Program& program, const KernelInputs& inputs, const CommandLine& line,
                     Diagnostics& diagnostics) {
  if (line.schedule.empty()) return true;
  CompilerOptions options = compiler_options(line);
  options.dims = inputs.dims;
  Diagnostics refusals;
  if (plan_kernel(program, line.kernel, options, refusals)) return true;
  diagnostics = std::move(refusals);
  return false;
}

// A NaN without its sign, which says nothing.
std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.5g}", value); }

Json buffer_json(const std::string& name, const HostTensor& tensor) {
  return {{"name", name}, {"storage", storage_name(tensor.storage)}, {"shape", tensor.extents}};
}

Report describe(const KernelInputs& inputs, const Ran& ran, const CommandLine& line, const Destination& destination) {
  Report report;
  Json given = Json::array(), outputs = Json::array(), dims = Json::object();
  for (const ir::Dimension& dim : inputs.graph.dims)
    if (dim.kind == ir::DimKind::fixed && dim.value) dims[dim.name] = *dim.value;
  for (const auto& [name, tensor] : ran.inputs) {
    Json row = buffer_json(name, tensor);
    const auto origin = inputs.origin.find(name);
    row["from"] = origin == inputs.origin.end() ? Json() : Json(origin->second);
    given.push_back(std::move(row));
  }
  report.text = fmt::format("{} on {}, {:.2f} s\n", inputs.graph.name, ran.device_name, ran.seconds);
  report.text += fmt::format("  {:12} {:5} {:20} {:>12} {:>12} {:>12} {:>8} {:>8}  {}\n", "output", "type", "shape",
                             "least", "most", "mean", "NaNs", "infs", "digest");
  for (const auto& [name, tensor] : ran.outputs) {
    const Summary summary = summarize(tensor, line.jobs);
    const auto& range = summary.range;
    report.text +=
        fmt::format("  {:12} {:5} {:20} {:>12} {:>12} {:>12} {:8} {:8}  {}\n", name, storage_name(tensor.storage),
                    shape_text(tensor), range ? number_text(range->least) : "-", range ? number_text(range->most) : "-",
                    range ? number_text(range->mean) : "-", summary.nans, summary.infinities, summary.digest);
    Json row = buffer_json(name, tensor);
    row.update({{"least", range ? Json(range->least) : Json()},
                {"most", range ? Json(range->most) : Json()},
                {"mean", range ? Json(range->mean) : Json()},
                {"nans", summary.nans},
                {"infinities", summary.infinities},
                {"digest", summary.digest},
                {"file", destination.nowhere() ? Json() : Json(destination.file_of(name))}});
    outputs.push_back(std::move(row));
  }
  if (!destination.nowhere()) report.text += fmt::format("  written to {}\n", line.output);
  Json fields = {{"kernel", inputs.graph.name},
                 {"device", ran.compile_json.empty() ? "cpu" : "gpu"},
                 {"device_name", ran.device_name},
                 {"seconds", ran.seconds},
                 {"seed", line.seed},
                 {"dims", std::move(dims)},
                 {"inputs", std::move(given)},
                 {"outputs", std::move(outputs)}};
  if (!ran.compile_json.empty()) fields["compile"] = *read_json(ran.compile_json);
  report.fields = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  return report;
}

// The GPU to run on; nothing means the interpreter.
Result<std::optional<Gpu>> choose_device(DeviceChoice choice) {
  if (choice == DeviceChoice::cpu) return {std::nullopt};
  Result<Gpu> gpu = find_gpu();
  if (gpu) return {*std::move(gpu)};
  if (choice == DeviceChoice::gpu) return gpu.error();
  note(fmt::format("no usable GPU, so the interpreter runs it: {}", gpu.error().message));
  return {std::nullopt};
}

}  // namespace

Report run(const CommandLine& line, Surroundings& world) {
  const Result<Destination> destination = Destination::choose(world.disk, line.output);
  if (!destination) return failure(destination.error());
  Diagnostics diagnostics;
  const Result<Program> program = read_spec(line.specs.front(), world.disk, diagnostics, line.output);
  if (!program) return failure(program.error());
  const Result<std::optional<KernelInputs>> inputs = gather_inputs(*program, line, world, diagnostics);
  if (!inputs) return failure(inputs.error());
  if (!*inputs) return failure(std::move(diagnostics));
  if (Status writable = destination->check(world.disk, (*inputs)->graph, files_read(line, world.settings)); !writable)
    return failure(writable.error());
  const Result<std::optional<Gpu>> gpu = choose_device(line.device);
  if (!gpu) return failure(gpu.error());

  std::optional<Ran> ran;
  if (*gpu) {
    Result<std::optional<Ran>> done = run_on_device(**gpu, *program, **inputs, line, world, diagnostics);
    if (!done) return failure(done.error());
    if (!*done) return failure(std::move(diagnostics));
    ran = *std::move(done);
  } else {
    if (!schedule_exists(*program, **inputs, line, diagnostics)) return failure(std::move(diagnostics));
    if (!world.settings.record.empty())
      note(
          fmt::format("warning: nothing is recorded in {}: the interpreter asks for no kernel", world.settings.record));
    Result<Ran> done = run_on_interpreter(**inputs, line);
    if (!done) return failure(done.error());
    ran = *std::move(done);
  }
  if (Status written = destination->write(world.disk, ran->outputs); !written) return failure(written.error());
  Report report = describe(**inputs, *ran, line, *destination);
  report.diagnostics = std::move(diagnostics);
  return report;
}

}  // namespace epifuse::tools
