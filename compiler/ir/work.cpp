// Numbers of every dimension first, then the buffers one by one.
#include "compiler/ir/work.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <optional>

namespace epifuse::ir {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// How the operations of a graph read an input.
struct Use {
  bool by_product = false, by_rest = false;
  // The share of its rows that is read: of the whole, and of one half alone.
  double whole = 0;
  double halves[2] = {0, 0};

  double share() const { return std::max(whole, (std::max(whole, halves[0]) + std::max(whole, halves[1])) / 2); }
};

class WorkCounter {
 public:
  WorkCounter(const Graph& graph, const LaunchSizes& sizes)
      : graph_(graph), sizes_(sizes), dims_(graph.dims.size()), uses_(graph.inputs.size()) {}

  Result<Work> run() {
    for (size_t i = 0; i < dims_.size(); ++i)
      if (Status found = find_size(static_cast<DimId>(i)); !found) return found.error();
    for (const Dimension& dim : graph_.dims) note_empty_groups(dim);
    find_uses();
    for (const Buffer& buffer : buffers(graph_))
      if (Status added = add(buffer); !added) return added.error();
    count_products();
    split_in_two();
    return std::move(work_);
  }

 private:
  struct Size {
    std::optional<int64_t> allocated;  // capacity
    double live = 0;                   // places that hold something
  };

  // Dimensions refer to earlier ones only.
  Status find_size(DimId id) {
    const Dimension& dim = graph_.dims[static_cast<size_t>(id)];
    Size& size = dims_[static_cast<size_t>(id)];
    switch (dim.kind) {
      case DimKind::fixed: size.allocated = dim.value; break;
      case DimKind::dynamic: {
        const auto given = sizes_.sizes.find(dim.name);
        if (given == sizes_.sizes.end()) return user_error(fmt::format("the size of '{}' is not known", dim.name));
        size.allocated = given->second;
        break;
      }
      case DimKind::grouped: return find_rows(dim, size);
      case DimKind::aligned: {
        const Size& base = dims_[static_cast<size_t>(dim.base)];
        const int64_t groups = *allocated(graph_.dims[static_cast<size_t>(dim.base)].cut_by);
        int64_t rows = 0;
        if (__builtin_mul_overflow(groups, dim.align - 1, &rows) ||
            __builtin_add_overflow(rows, *base.allocated, &rows))
          return too_large(dim);
        size.allocated = rows / dim.align * dim.align;
        size.live = base.live;
        return {};
      }
    }
    if (!size.allocated) return user_error(fmt::format("dimension '{}' has no number", dim.name));
    size.live = static_cast<double>(*size.allocated);
    return {};
  }

  Status find_rows(const Dimension& dim, Size& size) {
    const auto given = sizes_.counts.find(dim.name);
    if (given == sizes_.counts.end())
      return user_error(fmt::format("how many rows the groups of '{}' have is not known", dim.name));
    const std::vector<int64_t>& counts = given->second;
    const int64_t groups = *allocated(dim.cut_by);
    if (static_cast<int64_t>(counts.size()) != groups)
      return user_error(fmt::format("{} counts are given for the {} groups of '{}' (dimension '{}')", counts.size(),
                                    groups, dim.name, graph_.dims[static_cast<size_t>(dim.cut_by)].name));
    int64_t end = 0, rows = 0;
    for (const int64_t count : counts) {
      if (count < 0 || count > int64_t{1} << 40)
        return user_error(fmt::format("the count {} of '{}' is no number of rows", count, dim.name));
      end += round_up(count, dim.align);
      rows += count;
    }
    size.allocated = end;
    if (dim.slot && __builtin_mul_overflow(groups, *extent_size(*dim.slot), &*size.allocated)) return too_large(dim);
    size.live = static_cast<double>(rows);
    return {};
  }

  static Status too_large(const Dimension& dim) {
    return user_error(fmt::format("'{}' would have more rows than any memory", dim.name));
  }

  // A count of groups is as good as the groups that have rows.
  void note_empty_groups(const Dimension& dim) {
    if (dim.kind != DimKind::grouped || dim.cut_by < 0) return;
    const std::vector<int64_t>& counts = sizes_.counts.at(dim.name);
    dims_[static_cast<size_t>(dim.cut_by)].live =
        static_cast<double>(std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; }));
  }

  std::optional<int64_t> allocated(DimId dim) const {
    return dim < 0 ? std::optional<int64_t>(1) : dims_[static_cast<size_t>(dim)].allocated;
  }
  std::optional<int64_t> extent_size(const Extent& extent) const {
    const std::optional<int64_t> size = allocated(extent.dim);
    if (!size) return std::nullopt;
    // At most what 64 bits hold.
    const __int128 whole = static_cast<__int128>(*size) * extent.times / extent.over;
    return static_cast<int64_t>(std::min<__int128>(whole, std::numeric_limits<int64_t>::max()));
  }
  double live(const Extent& extent) const {
    const double size = extent.dim < 0 ? 1 : dims_[static_cast<size_t>(extent.dim)].live;
    return size * static_cast<double>(extent.times) / static_cast<double>(extent.over);
  }
  double live(const Shape& shape) const {
    return std::accumulate(shape.begin(), shape.end(), 1.0, [&](double n, const Extent& e) { return n * live(e); });
  }

  const Node& node(NodeId id) const { return graph_.nodes[static_cast<size_t>(id)]; }

  std::vector<bool> reached_nodes() const {
    std::vector<bool> reached(graph_.nodes.size());
    for (const Output& output : graph_.outputs)
      if (!output.left_out) reached[static_cast<size_t>(output.value)] = true;
    for (size_t i = graph_.nodes.size(); i-- > 0;)
      if (reached[i])
        for (const NodeId arg : graph_.nodes[i].args) reached[static_cast<size_t>(arg)] = true;
    return reached;
  }

  void find_uses() {
    const std::vector<bool> reached = reached_nodes();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!reached[i]) continue;
      const Node& user = graph_.nodes[i];
      // A half, or picked rows, of an input are read where they are used.
      const bool selects = user.op == Op::split || user.op == Op::gather;
      if (!selects)
        for (const NodeId arg : user.args) note_use(arg, user.op == Op::gemm);
      if (user.op == Op::gather) note_use(user.args[1], false);
    }
    for (const Output& output : graph_.outputs) {
      if (output.left_out) continue;
      note_use(output.value, false);
      for (size_t i = 0; i < graph_.inputs.size(); ++i) {
        const std::string& name = graph_.inputs[i].tensor.name;
        if (name != output.tensor.type.amax_input && name != output.tensor.type.seed_input) continue;
        uses_[i].by_rest = true;
        uses_[i].whole = 1;
      }
    }
  }

  // Nothing where `id` is no input, nor a half or rows of one.
  void note_use(NodeId id, bool by_product) {
    const Node* value = &node(id);
    const Node *split = nullptr, *gather = nullptr;
    for (; value->op == Op::split || value->op == Op::gather; value = &node(value->args[0]))
      (value->op == Op::split ? split : gather) = value;
    if (value->op != Op::input) return;
    Use& use = uses_[static_cast<size_t>(value->index)];
    (by_product ? use.by_product : use.by_rest) = true;
    double share = 1;
    if (gather) share = std::min(1.0, live(node(gather->args[1]).shape) / std::max(1.0, live(gather->along)));
    double& known = split ? use.halves[split->index] : use.whole;
    known = std::max(known, share);
  }

  Status add(const Buffer& buffer) {
    BufferWork made;
    made.buffer = buffer;
    const IntExpr::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
      for (size_t i = 0; i < dims_.size(); ++i)
        if (graph_.dims[i].name == name) return dims_[i].allocated;
      return std::nullopt;
    };
    int64_t elements = 1;
    for (const IntExpr& extent : buffer.extents) {
      const Result<int64_t> size = extent.evaluate(lookup);
      if (!size) return size.error();
      made.extents.push_back(*size);
      if (__builtin_mul_overflow(elements, std::max<int64_t>(*size, 0), &elements) || elements > int64_t{1} << 56)
        return user_error(fmt::format("'{}' would be larger than any memory; see its dimensions", buffer.name));
    }
    made.bytes = storage_bytes(buffer.storage, elements);
    if (buffer.role == TensorRole::group_sizes) {
      made.read = static_cast<double>(made.bytes);
    } else if (buffer.role == TensorRole::input) {
      const auto input = std::find_if(graph_.inputs.begin(), graph_.inputs.end(),
                                      [&](const Input& i) { return i.tensor.name == buffer.tensor; });
      made.read = held(made, input->tensor) * uses_[static_cast<size_t>(input - graph_.inputs.begin())].share();
    } else {
      const auto output = std::find_if(graph_.outputs.begin(), graph_.outputs.end(),
                                       [&](const Output& o) { return o.tensor.name == buffer.tensor; });
      made.written = stored(made, *output);
      if (output->accumulate) made.read = made.written;
    }
    work_.read += made.read;
    work_.written += made.written;
    work_.buffers.push_back(std::move(made));
    return {};
  }

  // Bytes of a buffer that belong to rows and groups that there are.
  double held(const BufferWork& made, const Tensor& tensor) const {
    double part = 1;
    for (const Extent& extent : tensor.shape)
      part *= live(extent) / std::max(1.0, static_cast<double>(*extent_size(extent)));
    return static_cast<double>(made.bytes) * part;
  }

  // The gaps of aligned groups are stored too; rows behind the last group are not. A sum over a group that has no rows
  // is stored as zero, but adds nothing.
  double stored(const BufferWork& made, const Output& output) const {
    double part = 1;
    for (const Extent& extent : output.tensor.shape) {
      if (extent.dim < 0) continue;
      const Dimension& dim = graph_.dims[static_cast<size_t>(extent.dim)];
      const bool is_count = dim.kind == DimKind::fixed;
      if (dim.kind == DimKind::aligned || dim.align > 1 || (is_count && !output.accumulate)) continue;
      part *= live(extent) / std::max(1.0, static_cast<double>(*extent_size(extent)));
    }
    return static_cast<double>(made.bytes) * part;
  }

  const Tensor& operand(NodeId id) const {
    const Node* value = &node(id);
    while (value->op != Op::input) value = &node(value->args[0]);
    return graph_.inputs[static_cast<size_t>(value->index)].tensor;
  }

  // The elements of a product: groups that contract rows of their own have one matrix each, and their rows together are
  // the contraction.
  void count_products() {
    const std::vector<bool> reached = reached_nodes();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& product = graph_.nodes[i];
      if (product.op != Op::gemm || !reached[i]) continue;
      double flop = 2 * live(product.along);
      const Extent along = graph_.base_name(product.along);
      const DimId groups = along.dim < 0 ? -1 : graph_.dims[static_cast<size_t>(along.dim)].cut_by;
      for (const Extent& extent : product.shape)
        if (groups < 0 || extent.dim != groups) flop *= live(extent);
      const int widest = std::max(storage_bits(operand(product.args[0]).type.storage()),
                                  storage_bits(operand(product.args[1]).type.storage()));
      (widest > 8 ? work_.flop_16 : work_.flop_8) += flop;
    }
  }

  // Of a tensor and its scales.
  double bytes_of(const std::string& tensor, double BufferWork::*direction) const {
    double bytes = 0;
    for (const BufferWork& made : work_.buffers)
      if (made.buffer.tensor == tensor && made.buffer.role != TensorRole::group_sizes) bytes += made.*direction;
    return bytes;
  }

  // Whether an output holds a product as it is.
  bool is_plain_product(const Output& output) const {
    return !output.left_out && node(output.value).op == Op::gemm && output.reduction == Reduction::none &&
           !output.accumulate && !output.tensor.type.scaled();
  }

  void split_in_two() {
    const std::vector<bool> reached = reached_nodes();
    bool any = false;
    double left = 0;  // by the products, for the pass
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op != Op::gemm || !reached[i]) continue;
      any = true;
      const auto stores = std::find_if(graph_.outputs.begin(), graph_.outputs.end(), [&](const Output& output) {
        return is_plain_product(output) && output.value == static_cast<NodeId>(i);
      });
      constexpr double bf16_bytes = 2;
      left += stores == graph_.outputs.end() ? bf16_bytes * live(graph_.nodes[i].shape)
                                             : bytes_of(stores->tensor.name, &BufferWork::written);
    }
    if (!any) return;

    double operands = 0, pass = 0;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const double read = bytes_of(graph_.inputs[i].tensor.name, &BufferWork::read);
      if (uses_[i].by_product) operands += read;
      if (uses_[i].by_rest) pass += read;
    }
    bool has_pass = false;
    for (const Output& output : graph_.outputs) {
      if (output.left_out || is_plain_product(output)) continue;
      has_pass = true;
      pass += bytes_of(output.tensor.name, &BufferWork::read) + bytes_of(output.tensor.name, &BufferWork::written);
    }
    work_.product_bytes = operands + left;
    work_.pass_bytes = has_pass ? left + pass : 0;
  }

  const Graph& graph_;
  const LaunchSizes& sizes_;
  std::vector<Size> dims_;
  std::vector<Use> uses_;
  Work work_;
};

}  // namespace

Result<Work> least_work(const Graph& graph, const LaunchSizes& sizes) { return WorkCounter(graph, sizes).run(); }

Floor floor_of(const Work& work, const TargetFigures& figures, int multiprocessors, double clock_mhz) {
  const double cycles = work.flop_16 / figures.flop_per_clock_16 + work.flop_8 / figures.flop_per_clock_8;
  const auto memory_ms = [&](double bytes) { return 1e3 * bytes / figures.copy_bytes_per_second; };
  Floor floor;
  floor.tensor_ms = cycles / multiprocessors / (clock_mhz * 1e3);
  floor.memory_ms = memory_ms(work.bytes());
  floor.two_launches_ms = work.pass_bytes == 0
                              ? floor.ms()
                              : std::max(floor.tensor_ms, memory_ms(work.product_bytes)) + memory_ms(work.pass_bytes);
  return floor;
}

}  // namespace epifuse::ir
