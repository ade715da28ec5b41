// What must hold of any plan, whoever made it.
#include <algorithm>
#include <fmt/format.h>

#include "compiler/lowering/kernel_plan.h"

namespace epifuse::lowering {
namespace {

void verify_shared(const KernelPlan& plan, std::vector<std::string>& faults) {
  std::vector<SharedBuffer> buffers = plan.shared;
  std::sort(buffers.begin(), buffers.end(),
            [](const SharedBuffer& a, const SharedBuffer& b) { return a.offset < b.offset; });
  int end = 0;
  for (const SharedBuffer& buffer : buffers) {
    // Every role uses its buffers over the whole kernel, so all of them are live together.
    if (buffer.offset < end)
      faults.push_back(fmt::format("shared buffer '{}' overlaps the one before it", buffer.name));
    end = buffer.offset + buffer.bytes;
    if (buffer.swizzled && buffer.offset % 1024 != 0)
      faults.push_back(fmt::format("shared buffer '{}' is not aligned to the swizzle's 1024 bytes", buffer.name));
  }
  if (end > plan.shared_bytes || plan.shared_bytes > plan.target.shared_bytes_per_block)
    faults.push_back(fmt::format("shared memory: {} bytes used, {} planned, {} there", end, plan.shared_bytes,
                                 plan.target.shared_bytes_per_block));
}

void verify_blocks(const KernelPlan& plan, const Sink& sink, std::vector<std::string>& faults) {
  const Quantised& blocks = sink.quantised;
  // Where the rows dimension itself is grouped, the types' rules have seen to it.
  const auto fits = [&](int place) {
    return place == 0 || plan.places[static_cast<size_t>(place)].alignment % blocks.block_rows == 0;
  };
  if (static_cast<size_t>(blocks.scale_place) >= plan.places.size())
    faults.push_back(fmt::format("sink of output {} has no place for scales", sink.output));
  else if (plan.gemm.form == GemmForm::ragged_rows && !(fits(sink.place) && fits(blocks.scale_place)))
    faults.push_back(
        fmt::format("sink of output {}: blocks of {} rows meet two groups", sink.output, blocks.block_rows));
  const int columns = plan.part_tile() * (blocks.of_both_halves() ? 2 : 1) * (blocks.exchanged ? 2 : 1);
  if (blocks.wide() && columns != blocks.block_columns)
    faults.push_back(
        fmt::format("sink of output {}: a tile is not one block of {}", sink.output, blocks.block_columns));
}

void verify_epilogue(const KernelPlan& plan, std::vector<std::string>& faults) {
  const Epilogue& epilogue = plan.epilogue;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = epilogue.nodes[i];
    for (const int argument : node.args)
      if (argument < 0 || static_cast<size_t>(argument) >= i)
        faults.push_back(fmt::format("value %{} uses %{}, which does not come before it", i, argument));
    if (node.kind == EpilogueNode::Kind::accumulator && node.index >= plan.gemm.parts)
      faults.push_back(fmt::format("value %{} reads part {} of {}", i, node.index, plan.gemm.parts));
  }
  for (const Sink& sink : epilogue.sinks) {
    for (const int value : sink.values)
      if (value < 0 || static_cast<size_t>(value) >= epilogue.nodes.size())
        faults.push_back(fmt::format("sink of output {} stores value %{}, which there is not", sink.output, value));
    if (static_cast<size_t>(sink.place) >= plan.places.size())
      faults.push_back(fmt::format("sink of output {} has no place", sink.output));
    else if (sink.kind == SinkKind::mx_transposed && plan.gemm.form == GemmForm::ragged_rows &&
             plan.places[static_cast<size_t>(sink.place)].alignment % block_rows != 0)
      faults.push_back(fmt::format("sink of output {}: blocks of 32 rows meet two groups", sink.output));
    if (sink.kind == SinkKind::quantised) verify_blocks(plan, sink, faults);
  }
}

void verify_parameters(const KernelPlan& plan, std::vector<std::string>& faults) {
  for (const RecipeStep& step : plan.recipe.steps) {
    uint32_t end = 0;
    for (const ParameterField& field : step.fields) {
      const uint32_t align = field.kind == FieldKind::tensor_map ? 64 : std::min<uint32_t>(field.size, 8);
      if (field.offset < end || field.offset % align != 0)
        faults.push_back(fmt::format("parameter '{}' at {} overlaps or is misaligned", field.name, field.offset));
      end = field.offset + field.size;
    }
    if (end > step.parameter_bytes || step.parameter_bytes > most_parameter_bytes)
      faults.push_back(fmt::format("parameter block: {} bytes used, {} planned, {} allowed", end, step.parameter_bytes,
                                   most_parameter_bytes));
  }
}

}  // namespace

std::vector<std::string> verify(const KernelPlan& plan) {
  std::vector<std::string> faults;
  verify_parameters(plan, faults);
  if (plan.gemm.form == GemmForm::none) return faults;
  const Schedule& s = plan.schedule;
  if (plan.part_tile() % block_columns != 0) faults.push_back("a part of the tile is no whole number of blocks");
  const bool pass = s.family == Family::pass;
  if (!pass && s.stages < 2) faults.push_back("fewer than two operand stages");
  if (!pass && 128 * s.registers_producer + 256 * s.registers_consumer > plan.target.registers_per_multiprocessor)
    faults.push_back("more registers than the multiprocessor has");
  if (s.registers_producer % 8 != 0 || s.registers_consumer % 8 != 0)
    faults.push_back("register counts are no multiples of 8");
  verify_shared(plan, faults);
  verify_epilogue(plan, faults);
  return faults;
}

}  // namespace epifuse::lowering
