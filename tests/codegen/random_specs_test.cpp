// Three hundred random specs go from text to CUDA text under every schedule, and the same way twice.
#include <map>

#include "compiler/codegen/emit_kernel.h"
#include "tests/lowering/lowering_support.h"
#include "tests/support/random_spec.h"
#include "tests/support/refusals.h"

using namespace epifuse;
using namespace epifuse::test;

namespace {

constexpr uint64_t seeds = 300;

// What the specs cover between them, by name, and how often.
void count_parts(const lowering::KernelPlan& plan, std::map<std::string, int>& seen) {
  if (plan.gemm.nodes.empty()) {
    ++seen["no gemm"];
    return;
  }
  ++seen[std::string(lowering::form_name(plan.gemm.form))];
  if (plan.gemm.parts == 2) ++seen["deal " + std::string(lowering::deal_name(plan.deal))];
  if (plan.gemm.weights == 2) ++seen["two weights"];
  if (plan.gemm.segments == 2) ++seen["sum of two gemms"];
  if (plan.checked_pairs) ++seen["checked pairs"];
  if (plan.places.size() > 1) ++seen["aligned place"];
  for (const lowering::EpilogueInput& in : plan.epilogue.inputs)
    ++seen["broadcast " + std::to_string(static_cast<int>(in.broadcast)) + (in.doubled ? " doubled" : "")];
  for (const lowering::Sink& sink : plan.epilogue.sinks) {
    ++seen[std::string(lowering::sink_name(sink.kind)) + (sink.values.size() == 2 ? " doubled" : "")];
    if (sink.accumulate) ++seen["added to"];
  }
  for (const lowering::EpilogueNode& node : plan.epilogue.nodes)
    if (node.kind == lowering::EpilogueNode::Kind::map) ++seen["op " + std::string(ir::op_info(node.op).name)];
}

}  // namespace

TEST_CASE("random specs are parsed, resolved, lowered, planned and emitted") {
  std::map<std::string, int> seen;
  Refusals refusals;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const RandomSpec spec = random_spec(seed);
    INFO(spec.describe());
    CHECK(spec.text == random_spec(seed).text);
    const LoweredText result = lower_text(spec.text, "", spec.left_out);
    INFO(result.diagnostics.print());
    if (result.lowered.plans.empty()) {
      REQUIRE(!result.diagnostics.all().empty());
      for (const Diagnostic& one : result.diagnostics.all())
        CHECK(one.message.find("not lowered yet") != std::string::npos);
      refusals.add(result.diagnostics.all().front().message);
      continue;
    }
    CHECK(result.diagnostics.all().empty());
    const LoweredText again = lower_text(spec.text, "", spec.left_out);
    REQUIRE(again.lowered.plans.size() == result.lowered.plans.size());
    for (size_t i = 0; i < result.lowered.plans.size(); ++i) {
      const lowering::KernelPlan& plan = result.lowered.plans[i];
      CHECK(plan.recipe.validate());
      const std::string cuda = codegen::emit_kernel(result.lowered.graph, plan);
      CHECK(cuda.find("kernel_random_" + std::to_string(seed)) != std::string::npos);
      CHECK(cuda == codegen::emit_kernel(again.lowered.graph, again.lowered.plans[i]));
    }
    count_parts(result.lowered.plans.front(), seen);
  }
  std::string missing;
  auto need = [&](const std::string& what) {
    if (seen[what] < 3) missing += what + "; ";
  };
  for (const char* what : {"dense",
                           "ragged_rows",
                           "batched",
                           "ragged_depth",
                           "no gemm",
                           "two weights",
                           "sum of two gemms",
                           "deal halves",
                           "deal alternating",
                           "deal eights",
                           "deal blocks",
                           "deal pieces",
                           "checked pairs",
                           "aligned place",
                           "rows",
                           "transposed",
                           "mx_rows",
                           "mx_transposed",
                           "reduce_rows",
                           "reduce_columns",
                           "reduce_tiles",
                           "added to",
                           "rows doubled",
                           "transposed doubled",
                           "mx_rows doubled",
                           "reduce_columns doubled"})
    need(what);
  for (int broadcast = 0; broadcast < 5; ++broadcast) need("broadcast " + std::to_string(broadcast));
  need("broadcast 3 doubled");
  need("broadcast 4 doubled");
#define EPIFUSE_OP(name, arity, kind, meaning) \
  if (ir::OpKind::kind == ir::OpKind::map) need("op " #name);
#include "compiler/ir/ops.def"
#undef EPIFUSE_OP
  CHECK(missing == "");
  refusals.print(seeds);
}
