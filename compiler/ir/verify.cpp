// Dimensions, tensors and outputs of a graph; verify_nodes.cpp has the values between them.
#include <fmt/format.h>
#include <numeric>
#include <set>

#include "compiler/ir/graph.h"
#include "compiler/ir/verify_nodes.h"

namespace epifuse::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (const Dimension& dim : graph_.dims) dimension(dim);
    // Everything below reads dimensions through their ids.
    if (!faults_.empty()) return faults_;
    names();
    for (const Input& input : graph_.inputs) {
      tensor("input", input.tensor);
      if (input.left_out && !input.default_value) fault("input {} is left out without a default", input.tensor.name);
    }
    for (const Output& output : graph_.outputs) tensor("output", output.tensor);
    if (!faults_.empty()) return faults_;
    verify_nodes(graph_, faults_);
    if (!faults_.empty()) return faults_;
    for (const Output& output : graph_.outputs) this->output(output);
    return faults_;
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool is_dim(DimId id) const { return id >= 0 && id < static_cast<int>(graph_.dims.size()); }

  void dimension(const Dimension& dim) {
    if (dim.name.empty()) fault("a dimension has no name");
    if (dim.value && *dim.value < 0) fault("dimension {} is negative", dim.name);
    if (dim.kind != DimKind::fixed && dim.value) fault("dimension {} is not fixed and has a value", dim.name);
    if (dim.align < 1) fault("dimension {} has align {}", dim.name, dim.align);
    if (dim.kind == DimKind::grouped) {
      if (!is_dim(dim.cut_by) || graph_.dims[dim.cut_by].kind == DimKind::grouped ||
          graph_.dims[dim.cut_by].kind == DimKind::aligned)
        fault("dimension {} is cut by no dimension that counts groups", dim.name);
      if (dim.sizes_storage != Storage::i32 && dim.sizes_storage != Storage::i64)
        fault("the group sizes of {} are not integers", dim.name);
      if (dim.slot) extent("slot of " + dim.name, *dim.slot);
    }
    if (dim.kind == DimKind::aligned && (!is_dim(dim.base) || graph_.dims[dim.base].kind != DimKind::grouped))
      fault("dimension {} aligns no grouped dimension", dim.name);
  }

  void names() {
    std::set<std::string> dims, params, inputs, outputs;
    for (const Dimension& dim : graph_.dims)
      if (!dims.insert(dim.name).second) fault("two dimensions are called {}", dim.name);
    for (const Param& param : graph_.params)
      if (!params.insert(param.name).second) fault("two params are called {}", param.name);
    for (const Input& input : graph_.inputs)
      if (!inputs.insert(input.tensor.name).second) fault("two inputs are called {}", input.tensor.name);
    for (const Output& output : graph_.outputs)
      if (!outputs.insert(output.tensor.name).second) fault("two outputs are called {}", output.tensor.name);
  }

  void extent(const std::string& where, const Extent& extent) {
    if (extent.dim != -1 && !is_dim(extent.dim)) return fault("{}: no such dimension", where);
    if (extent.times < 1 || extent.over < 1 || (extent.dim == -1 && extent.over != 1))
      return fault("{}: the extent {}*{}/{} is none", where, extent.times, extent.dim, extent.over);
    if (std::gcd(extent.times, extent.over) != 1) fault("{}: the extent is not in lowest terms", where);
  }

  void tensor(std::string_view kind, const Tensor& tensor) {
    const std::string where = fmt::format("{} {}", kind, tensor.name);
    const int rank = static_cast<int>(tensor.shape.size());
    for (const Extent& e : tensor.shape) extent(where, e);
    if (!faults_.empty()) return;
    for (int i = 0; i < rank; ++i)
      for (int j = 0; j < i; ++j)
        // A number is no name: [2, 2] is a legal shape.
        if (tensor.shape[i].dim >= 0 && graph_.same_name(tensor.shape[i], tensor.shape[j]))
          fault("{}: {} stands twice in the shape", where, graph_.extent_text(tensor.shape[i]));
    if (tensor.pointer_axes < 0 || tensor.pointer_axes > rank) fault("{}: pointer axes", where);
    if (!tensor.type.scaled()) return;
    const FormatInfo& info = format_info(tensor.type.format);
    if (rank == 0) fault("{}: a scaled type needs a dimension", where);
    if (tensor.type.along_axis < -1 || tensor.type.along_axis >= rank) fault("{}: along", where);
    if ((info.element == Storage::e2m1) != (tensor.type.element == Storage::e2m1))
      fault("{}: {} has no elements {}", where, info.name, storage_name(tensor.type.element));
    for (const std::string& name : {tensor.type.amax_input, tensor.type.seed_input})
      if (!name.empty() && !has_input(name)) fault("{}: no input {}", where, name);
  }

  bool has_input(const std::string& name) const {
    for (const Input& input : graph_.inputs)
      if (input.tensor.name == name) return true;
    return false;
  }

  void output(const Output& output) {
    const std::string& name = output.tensor.name;
    if (output.value < 0 || output.value >= static_cast<int>(graph_.nodes.size()))
      return fault("output {} stores no value", name);
    const Shape& value = graph_.nodes[output.value].shape;
    const Shape& kept = output.tensor.shape;
    if (output.reduction == Reduction::none) {
      // A value over fewer names is the same along the others: an input that had them may be left out.
      if (!graph_.same_names(kept, graph_.union_of(kept, value)))
        fault("output {} {} stores a value over {}", name, graph_.shape_text(kept), graph_.shape_text(value));
    } else if (graph_.union_of(value, kept).size() != value.size()) {
      // Every name that is kept is one of the value's, or counts the groups of one (per-group reduction).
      fault("output {} {} keeps a dimension that the reduced value {} lacks", name, graph_.shape_text(kept),
            graph_.shape_text(value));
    }
    const Storage storage = output.tensor.type.storage();
    if (output.accumulate && (output.tensor.type.scaled() || output.reduction == Reduction::amax ||
                              (storage != Storage::f32 && storage != Storage::bf16 && storage != Storage::f16)))
      fault("output {} cannot accumulate", name);
    const bool integers = storage == Storage::i32 || storage == Storage::i64;
    if (!output.tensor.type.scaled() && integers != (graph_.nodes[output.value].op == Op::group_ends))
      fault("output {}: integers store where groups end, and only they do", name);
    if (output.contracted) contracted(output);
  }

  void contracted(const Output& output) {
    const std::vector<DimId>& list = *output.contracted;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_dim(list[i]) || graph_.dims[list[i]].kind != DimKind::grouped)
        return fault("output {}: what was contracted is no grouped dimension", output.tensor.name);
      const Dimension& dim = graph_.dims[list[i]];
      if (i > 0 && list[i - 1] >= list[i]) fault("output {}: contracted dimensions out of order", output.tensor.name);
      if (!graph_.has_name(output.tensor.shape, {1, dim.cut_by, 1}))
        fault("output {}: the groups of {}, which was contracted, are not kept", output.tensor.name, dim.name);
    }
  }

  const Graph& graph_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace epifuse::ir
