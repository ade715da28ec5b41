#include "tests/codegen/host_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fstream>

#include "base/numbers.h"
#include "compiler/codegen/emit_pointwise.h"
#include "tests/support/catch.h"

namespace epifuse::test {

using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

uint32_t encode_number(int storage, double value) { return encode(static_cast<Storage>(storage), value); }
double decode_code(int storage, uint32_t code) { return decode(static_cast<Storage>(storage), code); }

// The number of a recipe's symbol: of the machine, a stride of a contiguous buffer, or a size.
std::optional<int64_t> symbol(std::string_view name, const interpreter::Problem& problem, const Buffers& buffers,
                              int multiprocessors) {
  if (name == "sm_count") return multiprocessors;
  if (const size_t dot = name.rfind(".stride"); dot != std::string_view::npos) {
    const auto axis = static_cast<size_t>(std::stoi(std::string(name.substr(dot + 7))));
    return buffers.at(std::string(name.substr(0, dot))).strides()[axis];
  }
  const ir::Graph& graph = problem.graph();
  for (size_t i = 0; i < graph.dims.size(); ++i)
    if (graph.dims[i].name == name) return problem.size({1, static_cast<ir::DimId>(i), 1});
  return std::nullopt;
}

}  // namespace

void HostKernels::add(const ir::Graph& graph, const lowering::KernelPlan& plan) {
  std::string text = codegen::emit_pointwise(graph, plan);
  const size_t include = text.find("#include");
  text.erase(include, text.find('\n', include) - include);
  source_ += fmt::format("namespace case_{} {{\nint shared_words[1 << 14];\n{}", plans_.size(), text);
  for (size_t i = 0; i < plan.recipe.steps.size(); ++i) {
    const RecipeStep& step = plan.recipe.steps[i];
    const std::string parameters = "Parameters" + (plan.recipe.steps.size() == 1 ? "" : std::to_string(i));
    source_ += fmt::format("static_assert(sizeof({}) == {});\n", parameters, step.parameter_bytes);
    for (const ParameterField& field : step.fields)
      source_ +=
          fmt::format("static_assert(__builtin_offsetof({}, {}) == {});\n", parameters, field.name, field.offset);
    source_ += fmt::format(
        "extern \"C\" void run_{0}(unsigned grid, const void* bytes) {{\n  {1} p;\n  std::memcpy(&p, bytes, sizeof "
        "p);\n"
        "  host::launch(grid, {2}, [&] {{ {0}(p); }});\n}}\n",
        step.entry, parameters, step.block);
  }
  source_ += "}\n";
  plans_.push_back(plan);
}

void HostKernels::compile() {
  const std::string root = EPIFUSE_SOURCE_DIR, file = scratch_ / "kernels.cpp", library = scratch_ / "kernels.so";
  std::ofstream(file) << "#include \"device.h\"\n#include \"kernels/pointwise.cuh\"\n" << source_;
  // Errors reach the test's own output.
  const std::string command = fmt::format(
      "\"{0}\" -std=c++20 -O1 -w -shared -fPIC -I \"{1}/tests/codegen/host\" -I \"{1}/templates\" \"{2}\" -o \"{3}\"",
      EPIFUSE_HOST_COMPILER, root, file, library);
  REQUIRE(std::system(command.c_str()) == 0);
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library_);
  using UseConversions = void (*)(decltype(&encode_number), decltype(&decode_code));
  reinterpret_cast<UseConversions>(dlsym(library_, "use_conversions"))(encode_number, decode_code);
}

HostKernels::~HostKernels() {
  if (library_) dlclose(library_);
}

void HostKernels::run(size_t kernel, const interpreter::Problem& problem, const Buffers& inputs,
                      const interpreter::Params& params, Buffers& outputs, int multiprocessors) const {
  const lowering::KernelPlan& plan = plans_[kernel];
  Buffers all = inputs;
  all.insert(outputs.begin(), outputs.end());
  const auto value = [&](const IntExpr& e) {
    const auto result = e.evaluate([&](std::string_view name) { return symbol(name, problem, all, multiprocessors); });
    INFO(e.text());
    REQUIRE(result);
    return *result;
  };
  // Memory that the kernel may touch, aligned as device memory is, with zeros behind each buffer.
  std::map<std::string, std::vector<std::max_align_t>> memory;
  std::map<std::string, std::vector<const void*>> pointers;
  for (const RecipeTensor& tensor : plan.recipe.tensors) {
    const HostTensor& host = all.at(tensor.name);
    auto& words = memory[tensor.name];
    words.resize(host.bytes.size() / sizeof(std::max_align_t) + 2);
    std::memset(words.data(), 0, words.size() * sizeof words[0]);
    std::memcpy(words.data(), host.bytes.data(), host.bytes.size());
    if (tensor.pointer_axes == 0) continue;
    const size_t bytes = host.bytes.size() / static_cast<size_t>(host.extents[0]);
    for (int64_t i = 0; i < host.extents[0]; ++i)
      pointers[tensor.name].push_back(reinterpret_cast<const char*>(words.data()) + static_cast<size_t>(i) * bytes);
  }
  std::vector<std::max_align_t> workspace(static_cast<size_t>(value(plan.recipe.workspace_bytes)) / 16 + 1);
  std::memset(workspace.data(), 0xFF, workspace.size() * sizeof(std::max_align_t));  // NaN where nothing is written

  for (const RecipeStep& step : plan.recipe.steps) {
    std::vector<char> block(step.parameter_bytes);
    for (const ParameterField& field : step.fields) {
      char* at = block.data() + field.offset;
      const auto put = [&](auto number) { std::memcpy(at, &number, sizeof number); };
      switch (field.kind) {
        case FieldKind::address:
          if (field.tensor == workspace_name)
            put(reinterpret_cast<const char*>(workspace.data()) + value(field.value));
          else if (const auto found = pointers.find(field.tensor); found != pointers.end())
            put(static_cast<const void*>(found->second.data()));
          else
            put(static_cast<const void*>(memory.at(field.tensor).data()));
          break;
        case FieldKind::integer32: put(static_cast<int32_t>(value(field.value))); break;
        case FieldKind::integer64: put(value(field.value)); break;
        case FieldKind::param: {
          const RecipeParam& param = plan.recipe.params[static_cast<size_t>(field.index)];
          const auto given = params.find(param.name);
          put(static_cast<float>(given == params.end() ? *param.default_value : given->second));
          break;
        }
        case FieldKind::tensor_map: FAIL("a tensor map");
      }
    }
    const int64_t grid = value(step.grid);
    if (grid < 1) continue;
    const auto launch =
        reinterpret_cast<void (*)(unsigned, const void*)>(dlsym(library_, ("run_" + step.entry).c_str()));
    REQUIRE(launch);
    launch(static_cast<unsigned>(grid), block.data());
  }
  for (const RecipeTensor& tensor : plan.recipe.tensors) {
    INFO(tensor.name);
    const std::vector<uint8_t>& host = all.at(tensor.name).bytes;
    const auto& words = memory.at(tensor.name);
    const auto* now = reinterpret_cast<const uint8_t*>(words.data());
    const bool behind =
        std::any_of(now + host.size(), now + words.size() * sizeof words[0], [](uint8_t b) { return b; });
    CHECK(!behind);  // written behind the buffer
    if (tensor.role != TensorRole::output) CHECK(std::equal(host.begin(), host.end(), now));
  }
  for (auto& [name, tensor] : outputs) std::memcpy(tensor.bytes.data(), memory.at(name).data(), tensor.bytes.size());
}

}  // namespace epifuse::test
