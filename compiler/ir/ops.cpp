// The table of operations, from ops.def.
#include <array>

#include "compiler/ir/graph.h"

namespace epifuse::ir {
namespace {

constexpr OpInfo table[] = {
#define EPIFUSE_OP(name, arity, kind, meaning) {#name, arity, OpKind::kind, meaning},
#include "compiler/ir/ops.def"
#undef EPIFUSE_OP
};

}  // namespace

const OpInfo& op_info(Op op) { return table[static_cast<size_t>(op)]; }

}  // namespace epifuse::ir
