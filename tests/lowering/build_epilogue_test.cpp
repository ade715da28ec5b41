// From values over tensors to scalar values, inputs and sinks.
#include "compiler/lowering/build_epilogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/lowering/value_clusters.h"
#include "tests/lowering/lowering_support.h"

using namespace epifuse;
using namespace epifuse::test;
using lowering::Broadcast;
using lowering::EpilogueInput;
using lowering::SinkKind;

namespace {

// The lines of the printed plan that begin with one of these words.
std::string lines(const LoweredText& result, const std::vector<std::string>& words) {
  const std::string text = lowering::print(result.lowered.graph, result.plan());
  std::string picked;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    for (const std::string& word : words)
      if (line.starts_with(word + " ")) picked += line + "\n";
  return picked;
}

// "mx_rows 0 x2; …": kind, place and number of values of each sink.
std::string sinks(const lowering::KernelPlan& plan) {
  std::string text;
  for (const lowering::Sink& sink : plan.epilogue.sinks)
    text += fmt::format("{} {} x{}{}{}{}; ", lowering::sink_name(sink.kind), sink.place, sink.values.size(),
                        sink.per_group ? " of a group" : "", sink.accumulate ? " +=" : "",
                        sink.pointers ? " pointers" : "");
  return text;
}

// The first refusal of a kernel.
std::string refusal(const std::string& spec) {
  const LoweredText result = lower_text(spec);
  INFO(spec);
  CHECK(result.lowered.plans.empty());
  REQUIRE(!result.diagnostics.all().empty());
  const Diagnostic& said = result.diagnostics.all().front();
  return std::string(said.where.text()) + ": " + said.message;
}

// A weight gradient dw, and r over what it is over.
std::string gradient_spec(const std::string& outputs) {
  return "kernel test {\n dim E = 2, N = 64, K = 64\n group M by E\n in d : bf16[M, N]\n in x : bf16[M, K]\n"
         " in r : f32[E, N, K]\n dw = gemm(d, x)\n" +
         outputs + "}\n";
}

}  // namespace

TEST_CASE("what an empty group stores of one value cannot be two things") {
  const std::string joined = " out j : f32[E, N, 2*K] = join(dw, r)\n";
  CHECK(refusal(gradient_spec(joined + " out own : f32[E, N, K] = r\n")) ==
        "own: an output beside one that joins its value to a weight gradient is not lowered yet");
  // The same beside a value of its own, or alone.
  CHECK(!lower_text(gradient_spec(joined)).lowered.plans.empty());
  CHECK(!lower_text(gradient_spec(joined + " out own : f32[E, N, K] = r * 2\n")).lowered.plans.empty());
}

TEST_CASE("every way an input can lie over the tile") {
  const LoweredText result = lower_text(
      ragged_spec("in a : f32\nin b : f32[E]\nin c : f16[M]\nin d : bf16[N]\nin e : bf16[E, N]\nin f : bf16[M, N]\n"
                  "out y : bf16[M, N] = gemm(x, w) + a + b + c + d + e + f"));
  CHECK(lines(result, {"load"}) ==
        "load a as scalar\nload b as group\nload c as row\nload d as column\nload e as column of the group\nload f as "
        "tile\n");
  CHECK(result.plan().slot_bytes == 128 * 32 * 2);
}

TEST_CASE("a split disappears: a value over both halves becomes one for each") {
  for (const char* piece : {"", ", 1", ", 8", ", 32", ", 64"}) {
    INFO(piece);
    const LoweredText result = lower_text(halved_spec(fmt::format(
        "in b : bf16[E, 2*I]\nin p : f32[M]\nh = gemm(x, w) + b\nf, s = split(h{})\nout pre : bf16[M, 2*I] = h\n"
        "out y : bf16[M, I] = f * s * p",
        piece)));
    CHECK(lines(result, {"load", "value", "sink"}) ==
          "load b as column of the group, part 0\nload b as column of the group, part 1\nload p as row\n"
          "value %0 = accumulator part 0\nvalue %1 = input b part 0\nvalue %2 = add %0 %1\n"
          "value %3 = accumulator part 1\nvalue %4 = input b part 1\nvalue %5 = add %3 %4\n"
          "value %6 = mul %2 %5\nvalue %7 = input p\nvalue %8 = mul %6 %7\n"
          "sink rows pre bf16 place 0 from %2 %5\nsink rows y bf16 place 0 from %8\n");
  }
}

TEST_CASE("the order in which a shape's names stand does not matter") {
  const std::string expected =
      "value %0 = input b part 0\nvalue %1 = accumulator part 0\nvalue %2 = add %0 %1\n"
      "value %3 = input b part 1\nvalue %4 = accumulator part 1\nvalue %5 = add %3 %4\n"
      "value %6 = mul %2 %5\n";
  CHECK(lines(lower_text(halved_spec("in b : bf16[E, 2*I]\nf, s = split(b + gemm(x, w))\nout y : bf16[M, I] = f * s")),
              {"value"}) == expected);
  // Halves of an input, and a GEMM whose shape has the columns first.
  CHECK(lines(lower_text(halved_spec("in p : bf16[M, 2*I]\nf, s = split(p)\nh = gemm(w, x)\nout z : bf16[M, 2*I] = h\n"
                                     "out y : bf16[M, I] = f * s")),
              {"sink"}) == "sink rows z bf16 place 0 from %0 %1\nsink rows y bf16 place 0 from %4\n");
}

TEST_CASE("outputs of one value share it") {
  const LoweredText result = lower_text(
      ragged_spec("v = tanh(gemm(x, w))\nout a : bf16[M, N] = v\nout b : mxfp8[M, N] = v\nout c : mxfp8[N, P] = v\n"
                  "out d : e4m3[N, M] = v\nout e : f32[P, N] = v",
                  "E = 3, K = 64, N = 128", "group M by E\n group P = M align 128"));
  CHECK(result.plan().epilogue.nodes.size() == 2);
  std::string kinds;
  for (const lowering::Sink& sink : result.plan().epilogue.sinks) {
    CHECK(sink.values == std::vector<int>{1});
    kinds += fmt::format("{} {}; ", lowering::sink_name(sink.kind), sink.place);
  }
  CHECK(kinds == "rows 0; mx_rows 0; mx_transposed 1; transposed 0; rows 1; ");
  REQUIRE(result.plan().places.size() == 2);
  CHECK(result.plan().places[0].alignment == 1);
  CHECK(result.plan().places[1].alignment == 128);
}

TEST_CASE("an output that is left out has no sink, and its inputs are not loaded") {
  const LoweredText result = lower_text(
      ragged_spec("in r : bf16[M, N]\nh = gemm(x, w)\nout a : bf16[M, N] = h\nout b : bf16[M, N] = h + r"), "", {"b"});
  CHECK(lines(result, {"load", "sink"}) == "sink rows a bf16 place 0 from %0\n");
  CHECK(result.plan().slot_bytes == 0);
}

TEST_CASE("what an epilogue cannot do yet is refused at the tensor") {
  const std::string aligned = "group M by E\n group P = M align 32";
  const std::string dims = "E = 3, K = 64, N = 128";
  CHECK(refusal(ragged_spec("in r : mxfp8[M, N]\nout y : bf16[M, N] = gemm(x, w) + r")) ==
        "r: an epilogue input of type mxfp8 is not lowered yet");
  CHECK(refusal(ragged_spec("in r : bf16[N, M]\nout y : bf16[M, N] = gemm(x, w) + r")) ==
        "r: an epilogue input of shape [N, M] is not lowered yet");
  CHECK(refusal(ragged_spec("in r : bf16[P, N]\nout y : bf16[M, N] = gemm(x, w) + r", dims, aligned)) ==
        "r: an epilogue input of shape [P, N] is not lowered yet");
  CHECK(refusal("kernel test {\n dim B = 2, S = 64, N = 64, K = 64\n in x : bf16[B, S, K]\n in w : bf16[B, N, K]\n"
                " in r : bf16[B][S, N]\n out y : bf16[B, S, N] = gemm(x, w) + r\n}") ==
        "r: an epilogue input of one buffer for each group is not lowered yet");
  CHECK(refusal("kernel test {\n dyn B, S\n dim N = 64, K = 64\n in x : bf16[B, S, K]\n in w : bf16[B, N, K]\n"
                " in r : bf16[S, N]\n out y : bf16[B, S, N] = gemm(x, w) + r\n}") ==
        "r: an epilogue input of shape [S, N] is not lowered yet");
  for (const int piece : {16, 48})
    CHECK(refusal(halved_spec(
              fmt::format("h = gemm(x, w)\nf, s = split(h, {})\nout p : mxfp8[M, 2*I] = h\nout y : bf16[M, I] = f * s",
                          piece),
              "E = 2, K = 64, I = 96")) ==
          fmt::format("p: blocks of 32 over columns dealt out in pieces of {} is not lowered yet", piece));
  CHECK(refusal(halved_spec("h = gemm(x, w)\nf, s = split(h)\nout p : mxfp8[M, 2*I] = h\nout y : bf16[M, I] = f * s",
                            "E = 2, K = 64, I = 40")) ==
        "p: blocks of 32 that lie across both halves is not lowered yet");
  for (const int piece : {1, 8})
    CHECK(refusal(halved_spec(fmt::format(
              "in r : f32[M, 2*I]\nf, s = split(gemm(x, w) + r, {})\nout y : bf16[M, I] = f * s", piece))) ==
          fmt::format("r: a full-tile input of type f32 over columns dealt out in pieces of {} is not lowered yet",
                      piece));
  CHECK(refusal(halved_spec("in r : bf16[M, 2*I]\nf, s = split(gemm(x, w) + r, 16)\nout y : bf16[M, I] = f * s")) ==
        "r: a full-tile input of type bf16 over columns dealt out in pieces of 16 is not lowered yet");
  CHECK(refusal(ragged_spec("in q : f32[M]\nout y : bf16[M, N] = gemm(x, w)\nout s : f32 = sum(q)")) ==
        "s: a reduction of what does not lie over the rows and columns of gemm is not lowered yet");
}

TEST_CASE("the backward of a gated activation: columns of the gemm, inputs and outputs twice as wide") {
  for (const int64_t piece : {0, 1, 8, 32, 64}) {
    INFO(piece);
    const std::string deal = piece == 0 ? "" : fmt::format(", {}", piece);
    const LoweredText result = lower_text(backward_spec(deal));
    CHECK(lines(result, {"gemm", "place", "load"}) ==
          "gemm ragged_rows bf16: rows M, columns I, contracts K, groups E\nplace 0 M align 1\nplace 1 P align 128\n"
          "load prob as row\nload pre as tile, part 1\nload pre as tile, part 0\n");
    const lowering::KernelPlan& plan = result.plan();
    CHECK(plan.gemm.parts == 1);
    CHECK(plan.gemm.piece == piece);
    // One accumulator, both halves of the input, and the gradient of each half.
    const lowering::Sink& rows = plan.epilogue.sinks[0];
    REQUIRE(rows.values.size() == 2);
    CHECK(rows.values[0] != rows.values[1]);
    CHECK(sinks(plan) == "mx_rows 0 x2; mx_transposed 1 x2; reduce_rows 0 x1; reduce_columns 0 x2 of a group; ");
    CHECK(std::count_if(plan.epilogue.nodes.begin(), plan.epilogue.nodes.end(), [](const lowering::EpilogueNode& node) {
            return node.kind == lowering::EpilogueNode::Kind::accumulator;
          }) == 1);
    // What alternates by less than a block comes in one box of both halves.
    CHECK(plan.slot_bytes == 2 * 128 * 32 * 2);
    const auto boxes =
        std::count_if(plan.epilogue.inputs.begin(), plan.epilogue.inputs.end(),
                      [&](const EpilogueInput& in) { return in.broadcast == Broadcast::tile && plan.brings_box(in); });
    CHECK(boxes == (piece == 1 || piece == 8 ? 1 : 2));
  }
}

TEST_CASE("a half of a join may be a number") {
  // The activation ignores one half, whose gradient is 0.
  for (const int ignored : {0, 1}) {
    const char* used = ignored == 0 ? "s" : "f";
    const LoweredText result = lower_text(ragged_spec(fmt::format(
        "in p : bf16[M, 2*N]\nf, s = split(p)\nd = grad({0} * {0}, gemm(x, w), p)\nout y : bf16[M, 2*N] = d", used)));
    const lowering::KernelPlan& plan = result.plan();
    REQUIRE(sinks(plan) == "rows 0 x2; ");
    const auto half = [&](int part) -> const lowering::EpilogueNode& {
      return plan.epilogue.nodes[static_cast<size_t>(plan.epilogue.sinks[0].values[static_cast<size_t>(part)])];
    };
    CHECK(half(1 - ignored).kind == lowering::EpilogueNode::Kind::map);
    CHECK(half(ignored).kind == lowering::EpilogueNode::Kind::number);
    CHECK(half(ignored).number == 0);
  }
}

TEST_CASE("both results of two weights, and their join") {
  const LoweredText result = lower_text(
      "kernel test {\n dim E = 2, K = 64, I = 64\n group M by E\n in x : bf16[M, K]\n in v : bf16[E, I, K]\n"
      " in w : bf16[E, I, K]\n in b : bf16[E, 2*I]\n a = gemm(x, v)\n c = gemm(x, w)\n h = join(a, c) + b\n"
      " f, s = split(h)\n out h : bf16[M, 2*I] = h\n out y : bf16[M, I] = f * s\n}");
  CHECK(lines(result, {"value", "sink"}) ==
        "value %0 = accumulator part 0\nvalue %1 = input b part 0\nvalue %2 = add %0 %1\n"
        "value %3 = accumulator part 1\nvalue %4 = input b part 1\nvalue %5 = add %3 %4\nvalue %6 = mul %2 %5\n"
        "sink rows h bf16 place 0 from %2 %5\nsink rows y bf16 place 0 from %6\n");
}

TEST_CASE("the sum of two gemms is one accumulator") {
  const LoweredText result = lower_text(
      ragged_spec("in z : bf16[M, K]\nin v : bf16[E, N, K]\nh = gemm(x, w) + gemm(z, v)\nout y : bf16[M, N] = 2 * h"));
  CHECK(lines(result, {"value"}) == "value %0 = number 2\nvalue %1 = accumulator part 0\nvalue %2 = mul %0 %1\n");
}

TEST_CASE("every way a value is reduced") {
  const LoweredText result = lower_text(ragged_spec(
      "v = gemm(x, w)\nout a : f32[M] = sum(v)\nout b : f32[P] = amax(v)\nout c : f32[N] = sum(v)\n"
      "out d : f32[E, N] += sum(v)\nout e : f32 = amax(v)\nout f : f32[E] = amax(v)\nout g : f32[E][N] += sum(v)",
      "E = 3, K = 64, N = 128", "group M by E\n group P = M align 128"));
  CHECK(
      sinks(result.plan()) ==
      "reduce_rows 0 x1; reduce_rows 1 x1; reduce_columns 0 x1; reduce_columns 0 x1 of a group +=; reduce_tiles 0 x1; "
      "reduce_tiles 0 x1 of a group; reduce_columns 0 x1 of a group += pointers; ");
  const LoweredText batched = lower_text(
      "kernel test {\n dyn B, S\n dim N = 64, K = 64\n in x : bf16[B, S, K]\n in w : bf16[B, N, K]\n v = gemm(x, w)\n"
      " out a : f32[B, S] = sum(v)\n out b : f32[B, N] = sum(v)\n out c : f32[B] = amax(v)\n}");
  CHECK(sinks(batched.plan()) ==
        "reduce_rows 0 x1 of a group; reduce_columns 0 x1 of a group; reduce_tiles 0 x1 of a group; ");
}

TEST_CASE("transposed outputs of batches, and buffers of their own, count rows from 0") {
  const LoweredText batched = lower_text(
      "kernel test {\n dyn B, S\n dim N = 64, K = 64\n in x : bf16[B, S, K]\n in w : bf16[B, N, K]\n v = gemm(x, w)\n"
      " out a : bf16[B, S, N] = v\n out b : bf16[B, N, S] = v\n}");
  CHECK(sinks(batched.plan()) == "rows 0 x1; transposed 1 x1; ");
  REQUIRE(batched.plan().places.size() == 2);
  CHECK(!batched.plan().places[0].local);
  CHECK(batched.plan().places[1].local);
  const LoweredText wgrad = lower_text(
      "kernel test {\n dim E = 2, K = 64, N = 64\n group M by E\n in g : bf16[M, N]\n in x : bf16[M, K]\n"
      " v = gemm(g, x)\n out a : f32[E, N, K] += v\n out b : f32[E][N, K] += v\n out c : bf16[E, K, N] = v\n}");
  CHECK(sinks(wgrad.plan()) == "rows 0 x1 +=; rows 1 x1 += pointers; transposed 1 x1; ");
  REQUIRE(wgrad.plan().places.size() == 2);
  CHECK(wgrad.plan().places[1].local);
}

TEST_CASE("rows that are called like doubled columns are rows") {
  const LoweredText result = lower_text(
      "kernel test {\n dim E = 2, I = 64\n group M by E\n in g : bf16[M, 2*I]\n in x : bf16[M, I]\n"
      " out w : f32[E, 2*I, I] += gemm(g, x)\n}");
  CHECK(sinks(result.plan()) == "rows 0 x1 +=; ");
}

TEST_CASE("a rotation is a leaf of the values behind it, one for each half") {
  const LoweredText result =
      lower_text(halved_spec("h = gemm(x, w)\nf, s = split(h, 32)\nout p : bf16[M, 2*I] = hadamard(h, 2*I, 0xD7E8)\n"
                             "out y : bf16[M, I] = 4 * hadamard(f * s, M) + hadamard(f * s, M)"));
  CHECK(lines(result, {"value", "sink"}) ==
        "value %0 = accumulator part 0\nvalue %1 = hadamard along columns signs 0xd7e8 %0\n"
        "value %2 = accumulator part 1\nvalue %3 = hadamard along columns signs 0xd7e8 %2\nvalue %4 = number 4\n"
        "value %5 = mul %0 %2\nvalue %6 = hadamard along rows signs 0x0000 %5\nvalue %7 = mul %4 %6\n"
        "value %8 = add %7 %6\nsink rows p bf16 place 0 from %1 %3\nsink rows y bf16 place 0 from %8\n");
  // Along the rows, how the columns are dealt out does not matter; nor do short blocks of columns.
  for (const char* body : {"h = gemm(x, w)\nf, s = split(h, 8)\nout p : bf16[M, 2*I] = hadamard(h, M)\n"
                           "out y : bf16[M, I] = f * s",
                           "f, s = split(gemm(x, w))\nout y : bf16[M, I] = hadamard(f * s, I)"})
    CHECK(!lower_text(halved_spec(body, "E = 3, K = 64, I = 96")).lowered.plans.empty());
}

TEST_CASE("what is rotated is computed before what needs it, after what does not, and once") {
  auto clusters = [](const std::string& body) {
    const LoweredText result = lower_text(ragged_spec(body));
    const lowering::Epilogue& epilogue = result.plan().epilogue;
    const std::vector<lowering::ValueCluster> all = lowering::value_clusters(epilogue);
    const std::vector<int> waiting = lowering::waiting_blocks(epilogue, all);
    std::string text;
    for (size_t i = 0; i < all.size(); ++i) {
      text += fmt::format("{} [{}]{} ", waiting[i], fmt::join(all[i].roots, " "),
                          all[i].at_once(epilogue) ? " at once" : "");
      for (const lowering::SinkGroup& group : all[i].groups)
        text += fmt::format("({}: {}, {}) ", fmt::join(group.values, " "), group.sinks.size(),
                            fmt::join(group.hadamards, " "));
    }
    return text;
  };
  const std::string h = "h = gemm(x, w)\n";
  // The block that a sink has seen is rotated.
  CHECK(clusters(h + "e = exp(h)\nout a : bf16[M, N] = cast(hadamard(e, M), bf16)\nout b : bf16[M, N] = e\n"
                     "out c : bf16[M, N] = h") == "0 [0] (0: 1, ) 0 [1] (1: 1, 2) 0 [3] (3: 1, ) ");
  // What lies on both sides of the rotation does not bring them together, but waits.
  CHECK(clusters(h + "e = exp(h)\nout a : bf16[M, N] = e * hadamard(e, M)") == "0 [1] (1: 0, 2) 1 [3] (3: 1, ) ");
  // Two of one value, and one of another that shares operations.
  CHECK(clusters(h + "e = exp(h)\nout a : bf16[M, N] = hadamard(e, M) * hadamard(e, N)\n"
                     "out b : f32[M] = sum(hadamard(e * 2, N))") ==
        "0 [1 6] at once (1: 0, 2 3) (6: 0, 7) 1 [4] (4: 1, ) 0 [7] (7: 1, ) ");
  // One behind the other; the first waits beside the second.
  CHECK(clusters(h + "r = hadamard(h, M)\nout a : bf16[M, N] = r * hadamard(r * r, N)") ==
        "0 [0] (0: 0, 1) 1 [2] (2: 0, 3) 0 [4] (4: 1, ) ");
}

TEST_CASE("values that share operations are computed together, others where they are stored") {
  auto clusters = [](const std::string& body) {
    const LoweredText result = lower_text(ragged_spec(body));
    std::string text;
    for (const lowering::ValueCluster& cluster : lowering::value_clusters(result.plan().epilogue)) {
      text += fmt::format("[{}]{} ", fmt::join(cluster.roots, " "),
                          cluster.at_once(result.plan().epilogue) ? " at once" : "");
      for (const lowering::SinkGroup& group : cluster.groups)
        text += fmt::format("({}: {}) ", fmt::join(group.values, " "), group.sinks.size());
    }
    return text;
  };
  const std::string h = "h = gemm(x, w)\n";
  CHECK(clusters(h + "out a : bf16[M, N] = h\nout b : f32[M, N] = h") == "[0] (0: 2) ");
  CHECK(clusters(h + "out a : bf16[M, N] = exp(h)\nout b : f32[M, N] = tanh(h)") == "[1] (1: 1) [2] (2: 1) ");
  // One value is an argument of the other.
  CHECK(clusters(h + "e = exp(h)\nout a : bf16[M, N] = e\nout b : f32[M, N] = e * 2\nout c : f16[M, N] = h") ==
        "[1 3] at once (1: 1) (3: 1) [0] (0: 1) ");
  // The last one brings two together that had nothing in common, at the place of the first.
  CHECK(clusters(h + "e = exp(h)\nt = tanh(h)\nout a : bf16[M, N] = e\nout b : f32[M, N] = h\nout c : f16[M, N] = t\n"
                     "out d : f16[M, N] = e * t") == "[1 2 3] at once (1: 1) (2: 1) (3: 1) [0] (0: 1) ");
  // Both halves of an output, and what shares them.
  CHECK(clusters("in p : bf16[M, 2*N]\nf, s = split(p)\nd = grad(f * s, gemm(x, w), p)\nout a : bf16[M, 2*N] = d\n"
                 "out b : f32[E, 2*N] = sum(d)") == "[2 4] at once (2 4: 2) ");
}

TEST_CASE("a gemm with more buffers than a launch has room for is refused by name") {
  std::string outputs = "v = gemm(x, w)";
  for (int i = 0; i < 160; ++i) outputs += fmt::format("\nout y{} : mxfp8[M, N] = v", i);
  CHECK(refusal(ragged_spec(outputs)) == "y159: a kernel of 162 buffers is not lowered yet");
}
