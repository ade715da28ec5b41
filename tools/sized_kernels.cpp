#include "tools/sized_kernels.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <set>

#include "compiler/semantics/resolve.h"
#include "tools/compile_kernel.h"

namespace epifuse::tools {
namespace {

bool has_groups(const ir::Graph& graph) {
  return std::any_of(graph.dims.begin(), graph.dims.end(),
                     [](const ir::Dimension& dim) { return dim.kind == ir::DimKind::grouped; });
}

// What of a command line for several kernels concerns one of them. `used` collects what has found its kernel.
CommandLine line_for(const ir::Graph& graph, const CommandLine& line, std::set<std::string>& used) {
  CommandLine own = line;
  own.kernel = graph.name;
  const auto keep = [&](bool known, const std::string& name) {
    if (known) used.insert(name);
    return known;
  };
  std::erase_if(own.dims, [&](const auto& given) {
    return !keep(std::any_of(graph.dims.begin(), graph.dims.end(),
                             [&](const ir::Dimension& dim) { return dim.name == given.first; }),
                 given.first);
  });
  std::erase_if(own.left_out, [&](const std::string& name) {
    const auto same = [&](const auto& slot) { return slot.tensor.name == name; };
    return !keep(std::any_of(graph.inputs.begin(), graph.inputs.end(), same) ||
                     std::any_of(graph.outputs.begin(), graph.outputs.end(), same),
                 name);
  });
  std::erase_if(own.params, [&](const auto& given) {
    return !keep(std::any_of(graph.params.begin(), graph.params.end(),
                             [&](const ir::Param& param) { return param.name == given.first; }),
                 given.first);
  });
  if (!has_groups(graph)) own.counts.reset();
  return own;
}

// Names of the command line that belong to no kernel of the file.
Status check_all_used(const CommandLine& line, const std::set<std::string>& used) {
  const auto unknown = [&](std::string_view option, const std::string& name) {
    return user_error(fmt::format("{}: no kernel of the file has '{}'", option, name));
  };
  for (const auto& [name, value] : line.dims)
    if (!used.contains(name)) return unknown("--dims", name);
  for (const std::string& name : line.left_out)
    if (!used.contains(name)) return unknown("--without", name);
  for (const auto& [name, value] : line.params)
    if (!used.contains(name)) return unknown("--param", name);
  return {};
}

// At most what 64 bits hold.
int64_t size_of(const ir::Graph& graph, const jit::InputOptions& data, const ir::Extent& extent) {
  if (extent.dim < 0) return extent.times;
  const ir::Dimension& dim = graph.dims[static_cast<size_t>(extent.dim)];
  const int64_t size = dim.kind == ir::DimKind::dynamic ? data.sizes.at(dim.name) : dim.value.value_or(0);
  const __int128 whole = static_cast<__int128>(size) * extent.times / extent.over;
  return static_cast<int64_t>(std::min<__int128>(whole, std::numeric_limits<int64_t>::max()));
}

// Sizes of what the command line leaves open: so many rows, of the first group alone or of each.
Status choose_sizes(SizedKernel& kernel, int64_t rows, bool first_alone) {
  const ir::Graph& graph = kernel.inputs.graph;
  jit::InputOptions& data = kernel.inputs.data;
  for (const ir::Dimension& dim : graph.dims)
    if (dim.kind == ir::DimKind::dynamic) data.sizes.emplace(dim.name, rows);
  for (const ir::Dimension& dim : graph.dims) {
    if (dim.kind != ir::DimKind::grouped || dim.cut_by < 0) continue;
    if (!data.counts) {
      const int64_t of_each = dim.slot ? std::min(rows, size_of(graph, data, *dim.slot)) : rows;
      const int64_t groups = size_of(graph, data, {1, dim.cut_by, 1});
      if (Status few = jit::check_made_groups(dim.name, groups); !few) return few;
      data.counts = std::vector<int64_t>(static_cast<size_t>(groups), first_alone ? 0 : of_each);
      if (groups > 0) data.counts->front() = of_each;
    }
    kernel.sizes.counts[dim.name] = *data.counts;
  }
  kernel.sizes.sizes = data.sizes;
  return {};
}

}  // namespace

CompilerOptions SizedKernel::compiler_options(const CommandLine& line) const {
  CompilerOptions options = tools::compiler_options(line);
  options.dims = inputs.dims;
  options.left_out = left_out;
  return options;
}

Result<std::optional<std::vector<SizedKernel>>> sized_kernels(const Program& program, const CommandLine& line,
                                                              Surroundings& world, Diagnostics& diagnostics) {
  std::vector<std::string> names = kernel_names(program);
  const bool several = line.kernel.empty() && names.size() > 1;
  if (!several) names = {line.kernel};
  std::set<std::string> used;
  std::vector<SizedKernel> kernels;
  for (const std::string& name : names) {
    CommandLine own = line;
    if (several) {
      ResolveOptions without_numbers;
      const std::optional<ir::Graph> graph = resolve(program, name, without_numbers, diagnostics);
      if (!graph) return {std::nullopt};
      own = line_for(*graph, line, used);
    }
    Result<std::optional<KernelInputs>> inputs = gather_inputs(program, own, world, diagnostics);
    if (!inputs) return inputs.error();
    if (!*inputs) return {std::nullopt};
    SizedKernel kernel;
    kernel.inputs = **std::move(inputs);
    kernel.name = kernel.inputs.graph.name;
    kernel.left_out = own.left_out;
    kernel.params = own.params;
    // What a launch costs the host does not depend on rows, and the GPU has to keep up with the host.
    const int64_t rows = line.expected_rows.value_or(line.host ? 1 : usual_rows);
    if (Status chosen = choose_sizes(kernel, rows, line.host && !line.expected_rows); !chosen) {
      // Sizes that no launch can have are said to be that, as by commands that make up none.
      if (!plan_kernel(program, name, kernel.compiler_options(line), diagnostics)) return {std::nullopt};
      return chosen.error();
    }
    if (const Result<ir::Work> work = ir::least_work(kernel.inputs.graph, kernel.sizes); !work) return work.error();
    kernels.push_back(std::move(kernel));
  }
  if (several)
    if (Status known = check_all_used(line, used); !known) return known.error();
  return {std::move(kernels)};
}

}  // namespace epifuse::tools
