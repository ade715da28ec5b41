#include "tools/kernel_inputs.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "base/npy.h"
#include "compiler/ir/buffers.h"
#include "compiler/semantics/resolve.h"

namespace epifuse::tools {
namespace {

// The shape of a buffer in the spec's names, for those that name dimensions; scales do not.
const ir::Shape* shape_of(const ir::Graph& graph, const std::string& buffer) {
  for (const ir::Input& input : graph.inputs)
    if (input.tensor.name == buffer) return &input.tensor.shape;
  for (const ir::Output& output : graph.outputs)
    if (output.tensor.name == buffer) return &output.tensor.shape;
  return nullptr;
}

const ir::Dimension* find_dimension(const ir::Graph& graph, const std::string& name) {
  for (const ir::Dimension& dim : graph.dims)
    if (dim.name == name) return &dim;
  return nullptr;
}

class Gatherer {
 public:
  Gatherer(const Program& program, const CommandLine& line, Surroundings& world, Diagnostics& diagnostics)
      : program_(program), line_(line), world_(world), diagnostics_(diagnostics) {}

  Result<std::optional<KernelInputs>> run() {
    // Once without numbers, to learn the names; the extents of the files come in between.
    std::optional<ir::Graph> names = resolve_with({}, false);
    if (!names) return {std::nullopt};
    made_.graph = std::move(*names);
    if (Status status = sort_dims(); !status) return status.error();
    list_buffers();
    if (Status status = read_files(); !status) return status.error();
    if (Status status = check_counts(); !status) return status.error();
    bind_from_extents();
    std::optional<ir::Graph> bound = resolve_with(made_.dims, true);
    if (!bound) return {std::nullopt};
    made_.graph = std::move(*bound);
    if (Status status = check_params(); !status) return status.error();
    made_.data.seed = line_.seed;
    made_.data.threads = line_.jobs;
    made_.data.mode = line_.data;
    made_.data.slack_rows = line_.slack;
    return {std::move(made_)};
  }

 private:
  std::optional<ir::Graph> resolve_with(std::map<std::string, int64_t> dims, bool require_bound) {
    ResolveOptions options;
    options.dims = std::move(dims);
    options.left_out = line_.left_out;
    options.taps = line_.taps;
    options.require_bound = require_bound;
    return resolve(program_, line_.kernel, options, diagnostics_);
  }

  // `--dims` has numbers for `dim`s and, here, also for `dyn`s: one place for all sizes.
  Status sort_dims() {
    for (const auto& [name, value] : line_.dims) {
      const ir::Dimension* dim = find_dimension(made_.graph, name);
      if (!dim || dim->kind == ir::DimKind::fixed) {
        made_.dims[name] = value;  // of an unknown name the resolver says more
      } else if (dim->kind == ir::DimKind::dynamic) {
        made_.data.sizes[name] = value;
      } else {
        return user_error(fmt::format("--dims: '{}' is cut into groups; --counts says how many rows each has", name));
      }
    }
    return {};
  }

  // What may be given: group sizes, inputs, and outputs that are added to.
  void list_buffers() {
    for (ir::Buffer& buffer : ir::buffers(made_.graph)) {
      if (buffer.role == TensorRole::output) {
        const auto adds = [&](const ir::Output& output) {
          return output.tensor.name == buffer.name && output.accumulate;
        };
        if (std::none_of(made_.graph.outputs.begin(), made_.graph.outputs.end(), adds)) continue;
      }
      buffers_.push_back(std::move(buffer));
    }
  }

  Status read_files() {
    if (!line_.inputs.empty()) {
      std::error_code ignored;
      const Status read = std::filesystem::is_directory(line_.inputs, ignored) ? read_directory() : read_archive();
      if (!read) return read;
    }
    for (const auto& [name, path] : line_.input_files) {
      const ir::Buffer* buffer = find_buffer(name);
      if (!buffer) return unknown_input(name);
      if (Status read = read_file(*buffer, path); !read) return read;
    }
    return {};
  }

  // Files of other names are nobody's business; a directory without a single input was named by mistake.
  Status read_directory() {
    size_t found = 0;
    for (const ir::Buffer& buffer : buffers_) {
      const std::string path = fmt::format("{}/{}.npy", line_.inputs, buffer.name);
      if (!world_.disk.status(path).exists) continue;
      if (Status read = read_file(buffer, path); !read) return read;
      ++found;
    }
    if (found == 0) return user_error(fmt::format("--inputs: '{}' holds none of {}", line_.inputs, names()));
    return {};
  }

  Status read_archive() {
    const Result<std::string> bytes = world_.disk.read(line_.inputs);
    if (!bytes) return user_error(bytes.error().message);
    Result<NpzArrays> arrays = read_npz(*bytes, line_.inputs);
    if (!arrays) return arrays.error();
    size_t found = 0;
    for (auto& [name, array] : *arrays) {
      const ir::Buffer* buffer = find_buffer(name);
      if (!buffer) continue;
      if (Status taken = take(*buffer, array, line_.inputs); !taken) return taken;
      ++found;
    }
    if (found == 0) return user_error(fmt::format("--inputs: '{}' holds none of {}", line_.inputs, names()));
    return {};
  }

  Status read_file(const ir::Buffer& buffer, const std::string& path) {
    const Result<std::string> bytes = world_.disk.read(path);
    if (!bytes) return user_error(bytes.error().message);
    const Result<NpyArray> array = read_npy(*bytes, path);
    if (!array) return array.error();
    return take(buffer, *array, path);
  }

  Status take(const ir::Buffer& buffer, const NpyArray& array, const std::string& from) {
    interpreter::HostTensor tensor;
    tensor.storage = buffer.storage;
    tensor.extents = npy_extents(array, buffer.storage);
    Result<std::string> bytes =
        npy_to_storage(array, buffer.storage, tensor.extents, fmt::format("{} ({})", from, buffer.name));
    if (!bytes) return bytes.error();
    tensor.bytes.assign(bytes->begin(), bytes->end());
    made_.data.given[buffer.name] = std::move(tensor);
    made_.origin[buffer.name] = from;
    return {};
  }

  const ir::Buffer* find_buffer(const std::string& name) const {
    const auto same = [&](const ir::Buffer& buffer) { return buffer.name == name; };
    const auto found = std::find_if(buffers_.begin(), buffers_.end(), same);
    return found == buffers_.end() ? nullptr : &*found;
  }

  std::string names() const {
    std::vector<std::string> list;
    for (const ir::Buffer& buffer : buffers_) list.push_back(buffer.name);
    return fmt::format("{}", fmt::join(list, ", "));
  }

  Error unknown_input(const std::string& name) const {
    if (line_.left_out.count(name)) return user_error(fmt::format("'{}' is given and left out at once", name));
    for (const ir::Output& output : made_.graph.outputs)
      if (output.tensor.name == name || output.tensor.name + ".scale" == name)
        return user_error(fmt::format("'{}' is an output of {}; it is not read", name, made_.graph.name));
    return user_error(fmt::format("{} has no input '{}'; it has {}", made_.graph.name, name, names()));
  }

  Status check_counts() {
    if (!line_.counts) return {};
    bool any = false;
    for (const ir::Buffer& buffer : buffers_) {
      if (buffer.role != TensorRole::group_sizes) continue;
      if (made_.data.given.count(buffer.name))
        return user_error(fmt::format("--counts and a file both say how large the groups of '{}' are", buffer.tensor));
      any = true;
    }
    if (!any) return user_error(fmt::format("--counts: {} has no groups", made_.graph.name));
    made_.data.counts = line_.counts;
    return {};
  }

  void bind(const ir::Extent& extent, int64_t value) {
    if (extent.dim < 0 || extent.over != 1 || extent.times < 1 || value % extent.times != 0) return;
    const ir::Dimension& dim = made_.graph.dims[static_cast<size_t>(extent.dim)];
    if (dim.kind == ir::DimKind::fixed) made_.dims.emplace(dim.name, value / extent.times);
  }

  // emplace keeps the first: the command line, then the buffers in the spec's order. What contradicts it later is found
  // when the buffers are bound, with a message that names the buffer.
  void bind_from_extents() {
    for (const ir::Dimension& dim : made_.graph.dims) {
      if (dim.kind != ir::DimKind::grouped || dim.cut_by < 0) continue;
      const auto sizes = made_.data.given.find(dim.name + (dim.sizes == ir::GroupSizes::ends ? ".ends" : ".counts"));
      const ir::Extent groups{1, dim.cut_by, 1};
      if (sizes != made_.data.given.end() && sizes->second.extents.size() == 1) bind(groups, sizes->second.extents[0]);
      if (line_.counts) bind(groups, static_cast<int64_t>(line_.counts->size()));
    }
    for (const ir::Buffer& buffer : buffers_) {
      const auto given = made_.data.given.find(buffer.name);
      const ir::Shape* shape = shape_of(made_.graph, buffer.name);
      if (given == made_.data.given.end() || !shape || shape->size() != given->second.extents.size()) continue;
      for (size_t i = 0; i < shape->size(); ++i) bind((*shape)[i], given->second.extents[i]);
    }
  }

  Status check_params() const {
    for (const auto& [name, value] : line_.params) {
      std::vector<std::string> known;
      for (const ir::Param& param : made_.graph.params) known.push_back(param.name);
      if (std::find(known.begin(), known.end(), name) == known.end())
        return user_error(fmt::format("--param: {} has no param '{}'{}", made_.graph.name, name,
                                      known.empty() ? "" : fmt::format("; it has {}", fmt::join(known, ", "))));
    }
    for (const ir::Param& param : made_.graph.params)
      if (!param.default_value && !line_.params.contains(param.name))
        return user_error(fmt::format("param '{0}' is not given, and has no default: --param {0}=…", param.name));
    return {};
  }

  const Program& program_;
  const CommandLine& line_;
  Surroundings& world_;
  Diagnostics& diagnostics_;
  KernelInputs made_;
  std::vector<ir::Buffer> buffers_;
};

}  // namespace

Result<std::optional<KernelInputs>> gather_inputs(const Program& program, const CommandLine& line, Surroundings& world,
                                                  Diagnostics& diagnostics) {
  return Gatherer(program, line, world, diagnostics).run();
}

}  // namespace epifuse::tools
