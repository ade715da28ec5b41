// Operations and bytes of a launch, counted by hand.
#include "compiler/ir/work.h"

#include "tests/support/catch.h"
#include "tests/support/graph_builder.h"

namespace epifuse::ir {
namespace {

using test::GraphBuilder;
using test::Value;

const BufferWork& buffer(const Work& work, const std::string& name) {
  for (const BufferWork& made : work.buffers)
    if (made.buffer.name == name) return made;
  FAIL("there is no buffer " << name);
  return work.buffers.front();
}

Work work_of(const GraphBuilder& g, const LaunchSizes& sizes) {
  Result<Work> work = least_work(g.graph, sizes);
  if (!work) FAIL(work.error().message);
  return *std::move(work);
}

GraphBuilder grouped() {
  GraphBuilder g;
  g.dim("E", 4), g.dim("K", 64), g.dim("I", 32);
  g.group("M", "E");
  g.align("P", "M", 128);
  return g;
}

TEST_CASE("a grouped product reads the weights of groups that have rows") {
  GraphBuilder g = grouped();
  g.out("y", "bf16", "M, I", g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, I, K"), "K"));
  const Work work = work_of(g, {{{"M", {5, 0, 1, 10}}}, {}});
  CHECK(work.flop_16 == 2.0 * 16 * 32 * 64);
  CHECK(work.flop_8 == 0);
  CHECK(buffer(work, "x").extents == std::vector<int64_t>{16, 64});
  CHECK(buffer(work, "x").read == 16 * 64 * 2);
  CHECK(buffer(work, "w").bytes == 4 * 32 * 64 * 2);
  CHECK(buffer(work, "w").read == 3 * 32 * 64 * 2);
  CHECK(buffer(work, "M.ends").read == 4 * 4);
  CHECK(buffer(work, "y").written == 16 * 32 * 2);
  CHECK(work.read == 16 * 64 * 2 + 3 * 32 * 64 * 2 + 16);
  CHECK(work.written == 16 * 32 * 2);
  // There is nothing to do behind the product.
  CHECK(work.pass_bytes == 0);
  CHECK(work.product_bytes == work.bytes() - 16);
}

TEST_CASE("gaps of aligned groups are written, and the pass behind a product reads what it left") {
  GraphBuilder g = grouped();
  const Value h = g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, 2*I, K"), "K");
  const Value prob = g.in("prob", "f32", "M", 1.0);
  const Value act = g.map(Op::mul, {g.map(Op::mul, {g.split(h, 0), g.split(h, 1)}), prob});
  g.out("y", "mxfp8", "M, I", act);
  g.out("yt", "mxfp8", "I, P", act);
  const std::vector<int64_t> counts = {5, 0, 1, 250};
  Work work = work_of(g, {{{"M", counts}}, {}});
  CHECK(work.flop() == 2.0 * 256 * 64 * 64);
  CHECK(buffer(work, "prob").read == 256 * 4);
  CHECK(buffer(work, "y").written == 256 * 32);
  CHECK(buffer(work, "y.scale").written == 256);
  const int64_t places = (256 + 4 * 127) / 128 * 128;
  CHECK(buffer(work, "yt").extents == std::vector<int64_t>{32, places});
  CHECK(buffer(work, "yt").written == static_cast<double>(32 * places));
  CHECK(buffer(work, "yt.scale").written == static_cast<double>(32 * places) / 32);
  const double h_bytes = 256 * 64 * 2, operands = 256 * 64 * 2 + 3 * 64 * 64 * 2;
  CHECK(work.product_bytes == operands + h_bytes);
  CHECK(work.pass_bytes == h_bytes + 256 * 4 + work.written);

  // What is stored anyway is not written twice.
  g.out("pre", "f32", "M, 2*I", h);
  const Work saved = work_of(g, {{{"M", counts}}, {}});
  CHECK(saved.product_bytes == operands + 2 * h_bytes);
  CHECK(saved.pass_bytes == 2 * h_bytes + 256 * 4 + work.written);
  CHECK(saved.written == work.written + 2 * h_bytes);
}

TEST_CASE("a contraction of ragged groups: one matrix for each, added to or stored") {
  const LaunchSizes sizes{{{"M", {5, 0, 1, 10}}}, {}};
  for (const bool accumulate : {false, true}) {
    CAPTURE(accumulate);
    GraphBuilder g = grouped();
    g.out("dw", "f32", "E, I, K", g.gemm(g.in("dy", "bf16", "M, I"), g.in("x", "bf16", "M, K"), "M"), Reduction::none,
          accumulate);
    const Work work = work_of(g, sizes);
    CHECK(work.flop() == 2.0 * 16 * 32 * 64);
    const double matrix = 32 * 64 * 4;
    CHECK(work.written == (accumulate ? 3 : 4) * matrix);  // a group without rows adds nothing, but is stored
    CHECK(buffer(work, "dw").read == (accumulate ? 3 * matrix : 0));
    CHECK((work.pass_bytes > 0) == accumulate);
  }
}

TEST_CASE("parts of inputs") {
  GraphBuilder g = grouped();
  g.dim("T", 100);
  const Value pre = g.in("pre", "bf16", "M, 2*I");
  const Value table = g.in("table", "bf16", "T, I"), index = g.in("index", "i32", "M");
  g.in("unused", "f32", "M, I");
  g.out("y", "f32", "M, I", g.map(Op::add, {g.split(pre, 1), g.gather(table, index, "T")}));
  const Work few = work_of(g, {{{"M", {5, 0, 1, 10}}}, {}});
  CHECK(few.flop() == 0);
  CHECK(buffer(few, "pre").read == 16 * 32 * 2);  // one half
  CHECK(buffer(few, "table").read == 16 * 32 * 2);
  CHECK(buffer(few, "index").read == 16 * 4);
  CHECK(buffer(few, "unused").read == 0);
  CHECK(few.product_bytes == 0);
  CHECK(few.pass_bytes == 0);
  // More rows than the table has are no more bytes.
  const Work many = work_of(g, {{{"M", {500, 0, 1, 10}}}, {}});
  CHECK(buffer(many, "table").read == 100 * 32 * 2);

  g.out("z", "f32", "M, I", g.split(pre, 0));
  CHECK(buffer(work_of(g, {{{"M", {5, 0, 1, 10}}}, {}}), "pre").read == 16 * 64 * 2);
}

TEST_CASE("operands of 8 bits count apart") {
  GraphBuilder g = grouped();
  g.out("y", "bf16", "M, I", g.gemm(g.in("x", "e4m3", "M, K"), g.in("w", "mxfp8", "E, I, K"), "K"));
  const Work work = work_of(g, {{{"M", {4, 4, 4, 4}}}, {}});
  CHECK(work.flop_8 == 2.0 * 16 * 32 * 64);
  CHECK(work.flop_16 == 0);
  CHECK(buffer(work, "w.scale").read == 4 * 32 * 2);
}

TEST_CASE("a size that nothing says is an error") {
  GraphBuilder g = grouped();
  g.dyn("T");
  g.out("y", "bf16", "M, I", g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, I, K"), "K"));
  const auto refused = [&](const LaunchSizes& sizes) {
    const Result<Work> work = least_work(g.graph, sizes);
    return work ? "" : work.error().message;
  };
  CHECK(refused({{{"M", {4, 4, 4, 4}}}, {}}) == "the size of 'T' is not known");
  CHECK(refused({{}, {{"T", 4}}}) == "how many rows the groups of 'M' have is not known");
  CHECK(refused({{{"M", {4, 4}}}, {{"T", 4}}}) == "2 counts are given for the 4 groups of 'M' (dimension 'E')");
  CHECK(refused({{{"M", {4, 4, -1, 0}}}, {{"T", 4}}}) == "the count -1 of 'M' is no number of rows");
  CHECK(refused({{{"M", {4, 4, 4, 4}}}, {{"T", 4}}}).empty());
}

TEST_CASE("sizes beyond 64 bits are an error, and no other number") {
  const auto refused = [](GraphBuilder& g, const LaunchSizes& sizes) {
    const Result<Work> work = least_work(g.graph, sizes);
    return work ? "" : work.error().message;
  };
  constexpr int64_t huge = int64_t{1} << 62;
  GraphBuilder wide;
  wide.dim("E", 2), wide.dim("K", huge);
  wide.group("M", "E");
  wide.out("y", "f32", "M, 4*K", wide.in("x", "f32", "M, 4*K"));
  CHECK(!refused(wide, {{{"M", {1, 1}}}, {}}).empty());
  GraphBuilder aligned;
  aligned.dim("E", 2);
  aligned.group("M", "E");
  aligned.align("P", "M", huge);
  aligned.out("y", "f32", "P", aligned.in("x", "f32", "M"));
  CHECK(refused(aligned, {{{"M", {int64_t{1} << 40, 1}}}, {}}) == "'P' would have more rows than any memory");
}

TEST_CASE("floors: cycles of the tensor cores, bytes of the bus") {
  Work work;
  work.flop_16 = 4096.0 * 132 * 2e6;  // 2e6 cycles
  work.flop_8 = 8192.0 * 132 * 1e6;   // 1e6 cycles
  work.read = 3e9, work.written = 1.3e9;
  work.product_bytes = 4.3e9, work.pass_bytes = 8.6e9;
  const TargetFigures figures;
  const Floor floor = floor_of(work, figures, 132, 1500);
  CHECK(floor.tensor_ms == 2);
  CHECK(floor.memory_ms == 1);
  CHECK(floor.ms() == 2);
  CHECK(floor.two_launches_ms == 2 + 2);
  CHECK(floor_of(work, figures, 66, 1500).tensor_ms == 4);
  work.pass_bytes = 0;
  CHECK(floor_of(work, figures, 132, 1500).two_launches_ms == 2);
  work.flop_16 = work.flop_8 = 0;
  CHECK(floor_of(work, figures, 132, 1500).ms() == 1);
}

}  // namespace
}  // namespace epifuse::ir
