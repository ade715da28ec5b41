#include "compiler/interpreter/interpreter.h"

#include <algorithm>

#include "base/ensure.h"
#include "base/numbers.h"
#include "compiler/interpreter/parallel.h"
#include "compiler/interpreter/quantiser.h"
#include "compiler/interpreter/stored_ranges.h"

namespace epifuse::interpreter {
namespace {

// All gemm nodes that a computed output needs. What a gemm is made of is none of this.
void collect_gemms(const ir::Graph& graph, ir::NodeId id, std::vector<bool>& seen, std::vector<ir::NodeId>& into) {
  std::vector<ir::NodeId> open = {id};
  while (!open.empty()) {
    const ir::NodeId at = open.back();
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    if (graph.nodes[at].op == ir::Op::gemm)
      into.push_back(at);
    else
      open.insert(open.end(), graph.nodes[at].args.rbegin(), graph.nodes[at].args.rend());
  }
}

void store_plain(const OutputWalk& walk, const Tile& tile, bool accumulate, HostTensor& tensor) {
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t c = 0; c < tile.cols; ++c) {
      const int64_t at = walk.position(tile, r, c);
      const double value = tile.value[r * Tile::pitch + c];
      store_one(tensor, at, accumulate ? load_one(tensor, at) + value : value);
    }
}

void store_scaled(const OutputWalk& walk, const Tile& tile, HostTensor& codes, HostTensor& scales) {
  const Quantiser& quantiser = walk.scaled()->quantiser();
  std::vector<double> values;
  for_each_block(walk, tile, [&](const TileBlock& block) {
    values.clear();
    block.for_each_element([&](int64_t, int64_t, int64_t index) { values.push_back(tile.value[index]); });
    const double amax = quantiser.amax(values.data(), static_cast<int64_t>(values.size()));
    const BlockScale scale = quantiser.block_scale(amax, block.maximum);
    store_code(scales, block.scale, scale.code);
    block.for_each_element([&](int64_t r, int64_t c, int64_t index) {
      store_code(codes, walk.position(tile, r, c),
                 quantiser.element(tile.value[index], scale.factor, random_of(walk, tile, r, c)));
    });
  });
}

void zero_gaps(const OutputWalk& walk, HostTensor& tensor) {
  for (const OutputWalk::CutAxis& cut : walk.cut_axes())
    for (const StoredRange& range : cut.ranges)
      if (range.kind == StoredRange::Kind::gap)
        for_each_stretch(tensor, cut.axis, range, [&](int64_t first, int64_t count) {
          for (int64_t i = 0; i < count; ++i) store_code(tensor, first + i, 0);
        });
}

void zero_scales(const OutputWalk& walk, HostTensor& scales) {
  const std::vector<StoredRange::Kind> kinds = walk.scaled()->places().kinds();
  for (size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == StoredRange::Kind::gap) store_code(scales, static_cast<int64_t>(i), 0);
}

// Tiles may be stored at once, unless elements of different tiles share a byte.
int threads_for(const HostTensor& tensor, int threads) {
  const bool shares = storage_bits(tensor.storage) < 8 && !tensor.extents.empty() && tensor.extents.back() % 2 != 0;
  return shares ? 1 : threads;
}

}  // namespace

Result<Reference> Reference::make(const ir::Graph& graph, const Buffers& buffers, const Params& params,
                                  GemmProvider& gemm, int threads) {
  Result<Problem> problem = Problem::bind(graph, buffers, params);
  if (!problem) return problem.error();
  Reference reference;
  reference.problem_ = *std::move(problem);
  reference.threads_ = threads;
  std::vector<bool> seen(graph.nodes.size());
  std::vector<ir::NodeId> nodes;
  for (const ir::Output& output : graph.outputs)
    if (!output.left_out) collect_gemms(graph, output.value, seen, nodes);
  for (ir::NodeId node : nodes) {
    Result<GemmResult> result = run_gemm(reference.problem_, node, gemm, threads);
    if (!result) return result.error();
    reference.gemms_.emplace(node, *std::move(result));
  }
  return reference;
}

Result<OutputWalk> Reference::walk(const ir::Output& output, bool bounds) const {
  return OutputWalk::make(problem_, gemms_, output, bounds, threads_);
}

std::vector<int64_t> group_ends(const Problem& problem, const ir::Node& node) {
  return problem.groups(node.dim)->gap_end;
}

Status Reference::store(const ir::Output& output, Buffers& buffers) const {
  const auto found = buffers.find(output.tensor.name);
  EPIFUSE_ENSURE(found != buffers.end(), "an output without a buffer");
  HostTensor& tensor = found->second;
  const ir::Node& node = problem_.graph().nodes[output.value];
  if (node.op == ir::Op::group_ends) {
    const std::vector<int64_t> ends = group_ends(problem_, node);
    for (size_t e = 0; e < ends.size(); ++e) store_one(tensor, static_cast<int64_t>(e), static_cast<double>(ends[e]));
    return {};
  }
  const Result<OutputWalk> walk = this->walk(output, false);
  if (!walk) return walk.error();
  const int threads = threads_for(tensor, threads_);
  if (!output.tensor.type.scaled()) {
    parallel_for(walk->tiles(), threads,
                 [&](int64_t i) { store_plain(*walk, walk->tile(i), output.accumulate, tensor); });
    zero_gaps(*walk, tensor);
    return {};
  }
  HostTensor& scales = buffers.at(output.tensor.name + ".scale");
  parallel_for(walk->tiles(), threads, [&](int64_t i) { store_scaled(*walk, walk->tile(i), tensor, scales); });
  zero_gaps(*walk, tensor);
  zero_scales(*walk, scales);
  return {};
}

Result<Buffers> run(const ir::Graph& graph, const Buffers& buffers, const Params& params, GemmProvider* gemm,
                    int threads) {
  const std::unique_ptr<GemmProvider> own = gemm ? nullptr : cpu_gemm(threads);
  const Result<Reference> reference = Reference::make(graph, buffers, params, gemm ? *gemm : *own, threads);
  if (!reference) return reference.error();
  Result<Buffers> outputs = make_outputs(reference->problem());
  if (!outputs) return outputs.error();
  for (auto& [name, tensor] : *outputs)
    if (const auto given = buffers.find(name); given != buffers.end()) tensor = given->second;
  for (const ir::Output& output : graph.outputs)
    if (!output.left_out)
      if (Status status = reference->store(output, *outputs); !status) return status.error();
  return outputs;
}

}  // namespace epifuse::interpreter
