// A sound plan has no fault; each kind of damage is found.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/version.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::KernelPlan;

namespace {

KernelPlan sound() {
  static const LoweredText result = lower_text(
      halved_spec(
          "in r : bf16[M, I]\nf, s = split(gemm(x, w))\nv = f * s + r\nout y : bf16[M, I] = v\nout t : mxfp8[I, P] = v",
          "E = 3, K = 64, I = 128", "group M by E\n group P = M align 128"),
      "pingpong 128x128");
  return result.plan();
}

template <class Damage>
void check_fault(const char* said, Damage damage) {
  KernelPlan plan = sound();
  damage(plan);
  const std::vector<std::string> faults = lowering::verify(plan);
  INFO(said << ": " << fmt::format("{}", fmt::join(faults, "; ")));
  CHECK(std::any_of(faults.begin(), faults.end(),
                    [&](const std::string& f) { return f.find(said) != std::string::npos; }));
}

lowering::SharedBuffer& buffer(KernelPlan& plan, std::string_view name) {
  for (lowering::SharedBuffer& b : plan.shared)
    if (b.name == name) return b;
  throw std::logic_error("no buffer");
}

}  // namespace

TEST_CASE("a sound plan has no fault") { CHECK(lowering::verify(sound()).empty()); }

TEST_CASE("every fault of a plan is found") {
  check_fault("overlaps the one before it", [](KernelPlan& p) { buffer(p, "operand barriers").offset -= 8; });
  check_fault("overlaps the one before it",
              [](KernelPlan& p) { buffer(p, "tile inputs of consumer 0").bytes += 1024; });
  check_fault("shared memory:", [](KernelPlan& p) { p.shared_bytes -= 8; });
  check_fault("shared memory:", [](KernelPlan& p) { p.target.shared_bytes_per_block = p.shared_bytes - 1; });
  check_fault("no whole number of blocks", [](KernelPlan& p) { p.schedule.tile_columns = 96; });
  check_fault("fewer than two operand stages", [](KernelPlan& p) { p.schedule.stages = 1; });
  check_fault("more registers than the multiprocessor has", [](KernelPlan& p) { p.schedule.registers_consumer = 248; });
  check_fault("no multiples of 8", [](KernelPlan& p) { p.schedule.registers_producer = 28; });
  check_fault("does not come before it", [](KernelPlan& p) {
    for (lowering::EpilogueNode& node : p.epilogue.nodes)
      if (!node.args.empty()) node.args[0] = static_cast<int>(p.epilogue.nodes.size());
  });
  check_fault("does not come before it", [](KernelPlan& p) { p.epilogue.nodes.back().args[0] = -1; });
  check_fault("reads part 2 of 2", [](KernelPlan& p) {
    for (lowering::EpilogueNode& node : p.epilogue.nodes)
      if (node.kind == lowering::EpilogueNode::Kind::accumulator) node.index = 2;
  });
  check_fault("which there is not", [](KernelPlan& p) { p.epilogue.sinks[0].values[0] = 99; });
  check_fault("has no place", [](KernelPlan& p) { p.epilogue.sinks[1].place = 2; });
  check_fault("blocks of 32 rows meet two groups", [](KernelPlan& p) { p.places[1].alignment = 16; });
  check_fault("overlaps or is misaligned", [](KernelPlan& p) { p.recipe.steps[0].fields[1].offset -= 64; });
  check_fault("overlaps or is misaligned", [](KernelPlan& p) { p.recipe.steps[0].fields.back().offset += 2; });
  check_fault("parameter block:", [](KernelPlan& p) { p.recipe.steps[0].parameter_bytes = 64; });
}

TEST_CASE("a plan prints every decision") {
  const LoweredText result = lower_text(
      halved_spec("param a = 2\nin r : bf16[M, I]\nf, s = split(gemm(x, w), 32)\nv = cast(f * a, bf16) * s + r\n"
                  "out y : bf16[M, I] = v\nout t : mxfp8[I, P] = v",
                  "E = 3, K = 64, I = 128", "group M by E\n group P = M align 128"),
      "cooperative 128x256");
  const lowering::Schedule& schedule = result.plan().schedule;
  const std::string text = lowering::print(result.lowered.graph, result.plan());
  CHECK(text.substr(0, text.find("shared ")) == fmt::format(R"(plan {} test for sm_90a
gemm ragged_rows bf16: rows M, columns I, contracts K, groups E
operand rows of x, k-major
operand columns of w, k-major
parts 2, blocks
schedule cooperative 128x256, stages {}, band {}, registers {} + {}, loop over blocks {}
place 0 M align 1
place 1 P align 128
load r as tile
value %0 = accumulator part 0
value %1 = param a
value %2 = mul %0 %1
value %3 = cast bf16 %2
value %4 = accumulator part 1
value %5 = mul %3 %4
value %6 = input r
value %7 = add %5 %6
sink rows y bf16 place 0 from %7
sink mx_transposed t mxfp8 place 1 from %7, 4 scales at once
)",
                                                            plan_text_version, schedule.stages, schedule.band,
                                                            schedule.registers_producer, schedule.registers_consumer,
                                                            schedule.rolled ? "rolled" : "unrolled"));
  for (const lowering::SharedBuffer& buffer : result.plan().shared)
    CHECK(text.find(fmt::format("shared {} + {} {}\n", buffer.offset, buffer.bytes, buffer.name)) != std::string::npos);
  for (const ParameterField& field : result.plan().recipe.steps[0].fields)
    CHECK(text.find(fmt::format("\n  {} {} = ", field.offset, field.name)) != std::string::npos);
  CHECK(text.find("\nmap 0 of x from byte 0: extents [K, 8, M, 4, 2]") != std::string::npos);
  CHECK(text.find("\nbuffer t e4m3[I, ") != std::string::npos);
}

TEST_CASE("a plan prints how operands lie, two gemms, and where outputs are added to") {
  const LoweredText result = lower_text(
      "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in h : bf16[M, 2*N]\n in x : bf16[M, K]\n"
      " f, s = split(h)\n out a : f32[E, N, K] += gemm(f, x)\n out b : f32[E][N, K] += gemm(s, x)\n"
      " out c : f32[E, N] = sum(gemm(f, x))\n}",
      "pingpong 128x128");
  const std::string text = lowering::print(result.lowered.graph, result.plan());
  for (const char* line :
       {"gemm ragged_depth bf16: rows K, columns N, contracts M, groups E\n", "operand rows of x, mn-major\n",
        "operand columns of h half 0, mn-major\noperand columns of h half 1, mn-major\nparts 2\n",
        "place 0 K align 1\nplace 1 K align 1, from each group's start\n",
        "sink transposed a f32 place 1 from %0, added\n", "sink transposed b f32 place 1 from %1, added\n",
        "sink reduce_columns c f32 place 0 from %0, sum of each group\n"}) {
    INFO(line << text);
    CHECK(text.find(line) != std::string::npos);
  }
  const LoweredText sum =
      lower_text(ragged_spec("in z : bf16[M, K]\nin v : bf16[E, N, K]\nout y : bf16[M, N] = gemm(x, w) + gemm(z, v)"));
  CHECK(lowering::print(sum.lowered.graph, sum.plan()).find("\nparts 1, two segments\n") != std::string::npos);
}
