// The tables of types and operations agree with their enums.
#include "compiler/ir/types.h"

#include "compiler/ir/graph.h"
#include "tests/support/catch.h"

namespace epifuse::ir {
namespace {

TEST_CASE("every format stands at its own place and is found by name") {
  for (size_t i = 0; i < all_formats().size(); ++i) {
    const FormatInfo& info = all_formats()[i];
    CHECK(info.format == static_cast<Format>(i));
    CHECK(parse_format(info.name) == info.format);
    CHECK(&format_info(info.format) == &info);
    CHECK(info.scaled == (info.block_columns > 1));
  }
  CHECK(all_formats().size() == static_cast<size_t>(Format::nvfp4_16x16) + 1);
  CHECK(!parse_format("bf61"));
}

TEST_CASE("rules and layouts go to names and back") {
  for (int i = 0; i <= static_cast<int>(ScaleRule::vllm); ++i)
    CHECK(parse_rule(rule_name(static_cast<ScaleRule>(i))) == static_cast<ScaleRule>(i));
  for (int i = 0; i <= static_cast<int>(ScaleLayout::blocked_128x4); ++i)
    CHECK(parse_layout(layout_name(static_cast<ScaleLayout>(i))) == static_cast<ScaleLayout>(i));
  CHECK(!parse_rule("down"));
  CHECK(!parse_layout("columns"));
}

TEST_CASE("only what differs from the default is printed") {
  TensorType type;
  type.format = Format::mxfp8;
  CHECK(print_type(type) == "mxfp8");
  type.element = Storage::e5m2;
  type.layout = ScaleLayout::blocked_128x4;
  type.rule = ScaleRule::even;
  type.nonfinite = NonFinite::te;
  CHECK(print_type(type) == "mxfp8(elem = e5m2, rule = even, layout = blocked_128x4, nonfinite = te)");
  CHECK(type.storage() == Storage::e5m2);
  TensorType plain;
  plain.format = Format::bf16;
  CHECK(print_type(plain) == "bf16");
  CHECK(plain.storage() == Storage::bf16);
}

TEST_CASE("operations have the names of the list") {
  CHECK(op_info(Op::number).name == "number");
  CHECK(op_info(Op::select).arity == 3);
  CHECK(op_info(Op::gemm).kind == OpKind::product);
  CHECK(op_info(Op::grad).name == "grad");
}

}  // namespace
}  // namespace epifuse::ir
