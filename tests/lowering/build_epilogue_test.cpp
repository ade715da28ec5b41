// From values over tensors to scalar values, inputs and sinks.
#include "compiler/lowering/build_epilogue.h"

#include <fmt/format.h>

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

// The first refusal of a kernel.
std::string refusal(const std::string& spec) {
  const LoweredText result = lower_text(spec);
  INFO(spec);
  CHECK(result.lowered.plans.empty());
  REQUIRE(!result.diagnostics.all().empty());
  const Diagnostic& said = result.diagnostics.all().front();
  return std::string(said.where.text()) + ": " + said.message;
}

}  // namespace

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
  CHECK(refusal(ragged_spec("in b : bf16[E][N]\nout y : bf16[M, N] = gemm(x, w) + b")) ==
        "b: an epilogue input of one buffer for each group is not lowered yet");
  CHECK(refusal(ragged_spec("out y : fp8_1x128[M, N] = gemm(x, w)")) ==
        "y: an output of type fp8_1x128 is not lowered yet");
  CHECK(refusal(ragged_spec("out y : mxfp8(layout = blocked_128x4)[M, N] = gemm(x, w)")) ==
        "y: an output of type mxfp8(layout = blocked_128x4) is not lowered yet");
  CHECK(refusal(ragged_spec("out y : mxfp8(rule = floor)[M, N] = gemm(x, w)")) ==
        "y: an output of type mxfp8(rule = floor) is not lowered yet");
  CHECK(refusal(
            halved_spec("h = gemm(x, w)\nf, s = split(h, 8)\nout p : mxfp8[M, 2*I] = h\nout y : bf16[M, I] = f * s")) ==
        "p: blocks of 32 over columns dealt out in pieces of 8 is not lowered yet");
  CHECK(refusal(
            halved_spec("h = gemm(x, w)\nf, s = split(h, 1)\nout p : bf16[2*I, M] = h\nout y : bf16[M, I] = f * s")) ==
        "p: a transposed output of alternating columns is not lowered yet");
  CHECK(refusal(halved_spec("h = gemm(x, w)\nf, s = split(h)\nout p : mxfp8[M, 2*I] = h\nout y : bf16[M, I] = f * s",
                            "E = 2, K = 64, I = 40")) ==
        "p: blocks of 32 that lie across both halves is not lowered yet");
  for (const int piece : {1, 8})
    CHECK(refusal(halved_spec(fmt::format(
              "in r : bf16[M, 2*I]\nf, s = split(gemm(x, w) + r, {})\nout y : bf16[M, I] = f * s", piece))) ==
          fmt::format("r: a full-tile input over columns dealt out in pieces of {} is not lowered yet", piece));
}
