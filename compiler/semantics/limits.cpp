#include "compiler/semantics/limits.h"

#include <fmt/format.h>
#include <string_view>

#include "base/launch_recipe.h"
#include "base/recipe_limits.h"
#include "compiler/ir/buffers.h"

namespace epifuse::semantics {
namespace {

// The longest that a recipe makes of names: "kernel_" kernel "_finish_" output.
constexpr size_t longest_name = 100;
static_assert(2 * longest_name + std::string_view("kernel__finish_").size() <= recipe_limits::longest_name);

class LimitChecker {
 public:
  explicit LimitChecker(Reporter& report) : report_(report) {}

  void name(const std::string& text, const Span& where) {
    if (text.size() > longest_name)
      report_.error(where, fmt::format("a name has at most {} characters, this one has {}", longest_name, text.size()));
  }
  void tensor(const ir::Tensor& tensor) {
    name(tensor.name, tensor.where);
    if (tensor.name == workspace_name)
      report_.error(tensor.where, fmt::format("no tensor can be called '{}'", workspace_name),
                    "so is called what a launch is given to work in");
    if (tensor.shape.size() > recipe_limits::most_axes)
      report_.error(tensor.where, fmt::format("'{}' has {} dimensions, and a tensor has at most {}", tensor.name,
                                              tensor.shape.size(), recipe_limits::most_axes));
  }
  void count(size_t number, const Span& where, std::string_view what) {
    if (number > recipe_limits::most_entries)
      report_.error(where, fmt::format("{} {} are more than the {} that a kernel takes", number, what,
                                       recipe_limits::most_entries));
  }

 private:
  Reporter& report_;
};

}  // namespace

void check_limits(KernelContext& context, const ast::Name& kernel) {
  const ir::Graph& graph = context.graph;
  LimitChecker limits(context.report);
  limits.name(kernel.text, kernel.where);
  for (const ir::Dimension& dim : graph.dims) {
    limits.name(dim.name, dim.where);
    if (dim.name == multiprocessors_name)
      context.report.error(dim.where, fmt::format("no dimension can be called '{}'", multiprocessors_name),
                           "so is called what a launch has of multiprocessors");
  }
  for (const ir::Param& param : graph.params) limits.name(param.name, param.where);
  for (const ir::Input& input : graph.inputs) limits.tensor(input.tensor);
  for (const ir::Output& output : graph.outputs) limits.tensor(output.tensor);
  // Of a kernel that is right so far: shapes decide what a tensor's scales are.
  if (!context.report.has_errors()) limits.count(ir::buffers(graph).size(), kernel.where, "buffers");
  limits.count(graph.params.size(), kernel.where, "params");
  limits.count(graph.dims.size(), kernel.where, "dimensions");
}

}  // namespace epifuse::semantics
