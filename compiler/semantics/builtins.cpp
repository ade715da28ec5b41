// The tables derive from compiler/ir/ops.def, so that a new pointwise operation is callable without a line here.
#include "compiler/semantics/builtins.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"

namespace epifuse::semantics {
namespace {

using ir::Op;

// Operations that are written as operators, or as a function with an argument that is no value.
bool is_operator(Op op) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::neg:
    case Op::less:
    case Op::less_equal:
    case Op::equal:
    case Op::not_equal:
    case Op::cast: return true;
    default: return false;
  }
}

struct OpRow {
  Op op;
  std::string_view name;
  int arity;
  ir::OpKind kind;
};

constexpr OpRow ops[] = {
#define EPIFUSE_OP(name, arity, kind, meaning) {Op::name, #name, arity, ir::OpKind::kind},
#include "compiler/ir/ops.def"
#undef EPIFUSE_OP
};

constexpr SpecialFunction specials[] = {
    {"gemm", 2, 3, "gemm(a, b) or gemm(a, b, n)"},
    {"split", 1, 2, "split(v) or split(v, n)"},
    {"join", 2, 3, "join(a, b) or join(a, b, n)"},
    {"grad", 3, 1000, "grad(f, seed, x, ...)"},
    {"hadamard", 2, 3, "hadamard(v, D) or hadamard(v, D, signs)"},
    {"cast", 2, 2, "cast(v, T)"},
    {"sum", 1, 1, "sum(v)"},
    {"amax", 1, 1, "amax(v)"},
};

struct ForeignWord {
  std::string_view word, hint;
};

constexpr std::string_view mean = "a mean is a sum of parts: const part = 1 / 128, out m : f32[M] = sum(v * part)";
constexpr std::string_view product = "the product that contracts a name is gemm(a, b)";
constexpr std::string_view choice = "select(c, a, b) is a where c is not 0, else b";
constexpr std::string_view halves = "join(a, b) is the value of which a and b are the halves";
constexpr std::string_view stored = "the type of an out rounds and quantises: out q : mxfp8[M, N] = v";
constexpr std::string_view turned = "an out lists its dimensions in memory order: out t : bf16[N, M] = v";
constexpr ForeignWord foreign_words[] = {
    {"mean", mean},
    {"avg", mean},
    {"average", mean},
    {"pow", "a power is a product: v * v, or square(v) of activations.epi"},
    {"matmul", product},
    {"mm", product},
    {"dot", product},
    {"linear", product},
    {"where", choice},
    {"cat", halves},
    {"concat", halves},
    {"chunk", "split(v) gives the two halves of the last dimension"},
    {"transpose", turned},
    {"permute", turned},
    {"quantize", stored},
    {"quantise", stored},
    {"absmax", "the largest magnitude is amax(v), directly behind the '=' of an out"},
};

double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

}  // namespace

std::optional<MapFunction> map_function(std::string_view name) {
  for (const OpRow& row : ops)
    if (row.name == name && row.kind == ir::OpKind::map && !is_operator(row.op)) return MapFunction{row.op, row.arity};
  return std::nullopt;
}

const SpecialFunction* special_function(std::string_view name) {
  for (const SpecialFunction& row : specials)
    if (row.name == name) return &row;
  return nullptr;
}

bool is_builtin_function(std::string_view name) { return map_function(name) || special_function(name); }

std::vector<std::string> builtin_functions() {
  std::vector<std::string> names;
  for (const OpRow& row : ops)
    if (map_function(row.name)) names.emplace_back(row.name);
  for (const SpecialFunction& row : specials) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const ir::FormatInfo& info : ir::all_formats()) names.emplace_back(info.name);
  return names;
}

std::string_view hint_for_foreign_word(std::string_view word) {
  for (const ForeignWord& row : foreign_words)
    if (row.word == word) return row.hint;
  return "";
}

double evaluate(Op op, const std::vector<double>& args) {
  const double a = args[0];
  const double b = args.size() > 1 ? args[1] : 0;
  const double c = args.size() > 2 ? args[2] : 0;
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::neg: return -a;
    case Op::less: return a < b;
    case Op::less_equal: return a <= b;
    case Op::equal: return a == b;
    case Op::not_equal: return a != b;
    case Op::select: return a != 0 ? b : c;
    case Op::min: return smaller(a, b);
    case Op::max: return larger(a, b);
    case Op::clamp: return smaller(larger(a, b), c);
    case Op::abs: return std::fabs(a);
    case Op::exp: return std::exp(a);
    case Op::log: return std::log(a);
    case Op::tanh: return std::tanh(a);
    case Op::sigmoid: return 1 / (1 + std::exp(-a));
    case Op::erf: return std::erf(a);
    case Op::erfc: return std::erfc(a);
    case Op::sqrt: return std::sqrt(a);
    case Op::rsqrt: return 1 / std::sqrt(a);
    default: break;
  }
  EPIFUSE_ENSURE(false, "an operation that is no function of numbers");
  return 0;
}

}  // namespace epifuse::semantics
