// Sizes of what lies between the stages, its places in the workspace, and the arguments of each stage.
#include "jit/launch_sequence.h"

#include <algorithm>
#include <fmt/format.h>

namespace epifuse::jit {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Gives stretches of the workspace to what lives from one stage to another.
class Placer {
 public:
  int64_t place(int64_t bytes, int first_stage, int last_stage) {
    bytes = round_up(bytes, workspace_alignment);
    if (bytes == 0) return 0;
    // The lowest offset from which nothing that lives at the same time is in the way.
    int64_t offset = 0;
    std::vector<const Stretch*> others;
    for (const Stretch& other : placed_)
      if (other.first_stage <= last_stage && first_stage <= other.last_stage) others.push_back(&other);
    std::sort(others.begin(), others.end(), [](const Stretch* a, const Stretch* b) { return a->offset < b->offset; });
    for (const Stretch* other : others)
      if (offset + bytes > other->offset) offset = std::max(offset, other->offset + other->bytes);
    placed_.push_back({offset, bytes, first_stage, last_stage});
    used_ = std::max(used_, offset + bytes);
    return offset;
  }
  int64_t used() const { return used_; }

 private:
  struct Stretch {
    int64_t offset, bytes;
    int first_stage, last_stage;
  };
  std::vector<Stretch> placed_;
  int64_t used_ = 0;
};

const runtime::TensorArgument* find(const runtime::Arguments& arguments, const std::string& name) {
  for (const runtime::TensorArgument& tensor : arguments.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

// Each stage checks its own buffers; these are of different ones. An array of pointers is only read.
Status check_overlap(const LaunchRecipe& recipe, const runtime::ResolvedArguments& resolved,
                     const runtime::Arguments& arguments) {
  struct Range {
    std::string name;
    uint64_t begin, end;
    bool written;
  };
  std::vector<Range> ranges;
  for (size_t i = 0; i < recipe.tensors.size(); ++i) {
    const auto& tensor = resolved.tensors[i];
    if (tensor.bytes == 0) continue;
    ranges.push_back({fmt::format("tensor '{}'", recipe.tensors[i].name), tensor.argument->pointer,
                      tensor.argument->pointer + static_cast<uint64_t>(tensor.bytes),
                      recipe.tensors[i].role == TensorRole::output && recipe.tensors[i].pointer_axes == 0});
  }
  const runtime::WorkspaceArgument& workspace = arguments.workspace;
  if (workspace.bytes > 0)
    ranges.push_back(
        {"the workspace", workspace.pointer, workspace.pointer + static_cast<uint64_t>(workspace.bytes), true});
  for (const Range& a : ranges)
    for (const Range& b : ranges)
      if (&a < &b && (a.written || b.written) && a.begin < b.end && b.begin < a.end)
        return user_error(fmt::format("{} ({:#x} to {:#x}) and {} ({:#x} to {:#x}) overlap, and one of them is written",
                                      a.name, a.begin, a.end, b.name, b.begin, b.end));
  return {};
}

}  // namespace

// Of one set of arguments.
struct LaunchSequence::Layout {
  runtime::Arguments outer;  // without the tensors between stages
  struct Between {
    std::vector<int64_t> extents;
    int64_t bytes = 0;
    const runtime::TensorArgument* given = nullptr;
    int64_t offset = 0;  // else, in the workspace
  };
  struct Scratch {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Between> between;
  std::vector<Scratch> scratch;  // of each stage, its own workspace
  int64_t bytes = 0;
};

LaunchSequence::LaunchSequence(LoadedKernel kernel)
    : whole_(kernel.module, &kernel.module->compiled()), dims_(kernel.compiled->dims()) {
  stages_.push_back(std::move(kernel));
}

LaunchSequence::LaunchSequence(LaunchRecipe whole, std::vector<BetweenTensor> between, std::vector<LoadedKernel> stages,
                               std::vector<runtime::NamedInteger> dims)
    : whole_(std::make_shared<runtime::CompiledRecipe>(std::move(whole))),
      between_(std::move(between)),
      stages_(std::move(stages)),
      dims_(std::move(dims)) {}

Result<LaunchSequence::Layout> LaunchSequence::lay_out(const runtime::Arguments& arguments) const {
  Layout layout;
  layout.outer = arguments;
  std::erase_if(layout.outer.tensors, [&](const runtime::TensorArgument& tensor) {
    return std::any_of(between_.begin(), between_.end(), [&](const auto& b) { return b.tensor.name == tensor.name; });
  });
  const auto resolved =
      runtime::resolve_arguments(*whole_, layout.outer, stages_.front().module->device().info().sm_count);
  if (!resolved) return resolved.error();
  const IntExpr::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
    const auto slot = whole_->slot(name);
    return slot ? resolved->slots[static_cast<size_t>(*slot)] : std::nullopt;
  };
  for (const BetweenTensor& between : between_) {
    Layout::Between& made = layout.between.emplace_back();
    int64_t elements = 1;
    for (const IntExpr& extent : between.tensor.extents) {
      const Result<int64_t> value = extent.evaluate(lookup);
      if (!value) return value.error();
      made.extents.push_back(*value);
      if (__builtin_mul_overflow(elements, *value, &elements) || elements > int64_t{1} << 56)
        return user_error(fmt::format("the value '{}' between the stages of kernel '{}' has too many elements",
                                      between.tensor.name, recipe().kernel));
    }
    made.bytes = storage_bytes(between.tensor.storage, elements);
    made.given = find(arguments, between.tensor.name);
  }

  Placer placer;
  size_t next = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const int stage = static_cast<int>(i);
    for (; next < between_.size() && between_[next].made_by == stage; ++next)
      if (!layout.between[next].given)
        layout.between[next].offset = placer.place(layout.between[next].bytes, stage, between_[next].last_read_by);
    const Result<int64_t> own = runtime::workspace_bytes(*stages_[i].module, arguments_of(i, arguments, layout));
    if (!own) return own.error();
    layout.scratch.push_back({placer.place(*own, stage, stage), *own});
  }
  layout.bytes = placer.used();
  return layout;
}

runtime::Arguments LaunchSequence::arguments_of(size_t stage, const runtime::Arguments& arguments,
                                                const Layout& layout) const {
  runtime::Arguments own;
  for (const RecipeTensor& wanted : stages_[stage].module->recipe().tensors) {
    const auto between = std::find_if(between_.begin(), between_.end(),
                                      [&](const BetweenTensor& b) { return b.tensor.name == wanted.name; });
    if (between == between_.end()) {
      if (const runtime::TensorArgument* given = find(arguments, wanted.name)) own.tensors.push_back(*given);
      continue;
    }
    const Layout::Between& placed = layout.between[static_cast<size_t>(between - between_.begin())];
    if (placed.given)
      own.tensors.push_back(*placed.given);
    else
      own.tensors.push_back({wanted.name,
                             arguments.workspace.pointer + static_cast<uint64_t>(placed.offset),
                             placed.extents,
                             {},
                             wanted.storage});
  }
  own.dims = stages_[stage].compiled->dims();
  for (const RecipeParam& param : stages_[stage].module->recipe().params)
    for (const runtime::NamedNumber& given : arguments.params)
      if (given.name == param.name) own.params.push_back(given);
  if (stage < layout.scratch.size()) {
    const Layout::Scratch& scratch = layout.scratch[stage];
    own.workspace = {arguments.workspace.pointer + static_cast<uint64_t>(scratch.offset), scratch.bytes};
  }
  return own;
}

Result<int64_t> LaunchSequence::workspace_bytes(const runtime::Arguments& arguments) const {
  if (is_fused()) return runtime::workspace_bytes(*stages_.front().module, arguments);
  const Result<Layout> layout = lay_out(arguments);
  if (!layout) return layout.error();
  return layout->bytes;
}

Result<BoundSequence> LaunchSequence::bind(const runtime::Arguments& arguments) const {
  std::vector<runtime::BoundCall> calls;
  const auto bind_stage = [&](size_t stage, const runtime::Arguments& own) -> Status {
    Result<runtime::BoundCall> bound = runtime::bind_call(stages_[stage].module, own);
    if (!bound) return bound.error();
    calls.push_back(*std::move(bound));
    return {};
  };
  if (is_fused()) {
    if (Status bound = bind_stage(0, arguments); !bound) return bound.error();
    return BoundSequence(std::move(calls), true);
  }

  const Result<Layout> layout = lay_out(arguments);
  if (!layout) return layout.error();
  const runtime::WorkspaceArgument& workspace = arguments.workspace;
  if (workspace.bytes < layout->bytes)
    return user_error(fmt::format("the workspace of kernel '{}' has {} bytes, wanted {}", recipe().kernel,
                                  workspace.bytes, layout->bytes));
  if (layout->bytes > 0 && (workspace.pointer == 0 || workspace.pointer % workspace_alignment != 0))
    return user_error(fmt::format("the workspace is at {:#x}, wanted an address that is a multiple of {}",
                                  workspace.pointer, workspace_alignment));
  const auto resolved =
      runtime::resolve_arguments(*whole_, layout->outer, stages_.front().module->device().info().sm_count);
  if (!resolved) return resolved.error();
  if (Status apart = check_overlap(recipe(), *resolved, arguments); !apart) return apart.error();
  for (const runtime::NamedNumber& given : arguments.params)
    if (std::none_of(recipe().params.begin(), recipe().params.end(),
                     [&](const RecipeParam& param) { return param.name == given.name; }))
      return user_error(fmt::format("kernel '{}' has no param '{}'", recipe().kernel, given.name));
  for (size_t i = 0; i < stages_.size(); ++i)
    if (Status bound = bind_stage(i, arguments_of(i, arguments, *layout)); !bound) return bound.error();
  return BoundSequence(std::move(calls), false);
}

Status BoundSequence::launch(cuda::Stream stream, const runtime::LaunchOptions& options) const {
  runtime::LaunchOptions own = options;
  for (const runtime::BoundCall& call : calls_) {
    if (Status launched = call.launch(stream, own); !launched) return launched;
    own.overlap_previous = false;  // it was said of what is before the first stage
  }
  return {};
}

Status BoundSequence::rebind(std::span<const cuda::DevicePointer> tensors, cuda::DevicePointer workspace) {
  if (!is_fused_) {
    return user_error(
        fmt::format("kernel '{}' is unfused: bind it anew for other buffers", calls_.front().module().recipe().kernel));
  }
  return calls_.front().rebind(tensors, workspace);
}

Status BoundSequence::synchronize(cuda::Stream stream) const { return calls_.back().synchronize(stream); }

Status BoundSequence::check_group_sizes(cuda::Stream stream) const {
  for (const runtime::BoundCall& call : calls_)
    if (Status sound = call.check_group_sizes(stream); !sound) return sound;
  return {};
}

}  // namespace epifuse::jit
