#include "compiler/codegen/expression.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "base/ensure.h"

namespace epifuse::codegen {

using ir::Op;
using lowering::Epilogue;
using lowering::EpilogueNode;
using Kind = lowering::EpilogueNode::Kind;

std::string spell_number(double number) {
  const float value = static_cast<float>(number);
  if (!std::isfinite(value)) return fmt::format("__uint_as_float(0x{:08x})", std::bit_cast<uint32_t>(value));
  std::string text = fmt::format("{:.9g}", value);  // nine digits tell every f32 apart
  if (text.find_first_of(".e") == std::string::npos) text += ".";
  text += "f";
  return value < 0 || std::signbit(value) ? "(" + text + ")" : text;
}

std::string spell_map(const EpilogueNode& node, const std::vector<std::string>& a) {
  switch (node.op) {
    case Op::add: return fmt::format("{} + {}", a[0], a[1]);
    case Op::sub: return fmt::format("{} - {}", a[0], a[1]);
    case Op::mul: return fmt::format("{} * {}", a[0], a[1]);
    case Op::div: return fmt::format("{} / {}", a[0], a[1]);
    case Op::neg: return fmt::format("-{}", a[0]);
    case Op::less: return fmt::format("math::truth({} < {})", a[0], a[1]);
    case Op::less_equal: return fmt::format("math::truth({} <= {})", a[0], a[1]);
    case Op::equal: return fmt::format("math::truth({} == {})", a[0], a[1]);
    case Op::not_equal: return fmt::format("math::truth({} != {})", a[0], a[1]);
    case Op::select: return fmt::format("math::select({}, {}, {})", a[0], a[1], a[2]);
    case Op::min: return fmt::format("math::minimum({}, {})", a[0], a[1]);
    case Op::max: return fmt::format("math::maximum({}, {})", a[0], a[1]);
    case Op::clamp: return fmt::format("math::clamp({}, {}, {})", a[0], a[1], a[2]);
    case Op::abs: return fmt::format("fabsf({})", a[0]);
    case Op::exp: return fmt::format("expf({})", a[0]);
    case Op::log: return fmt::format("logf({})", a[0]);
    case Op::tanh: return fmt::format("tanhf({})", a[0]);
    case Op::sigmoid: return fmt::format("math::sigmoid({})", a[0]);
    case Op::erf: return fmt::format("erff({})", a[0]);
    case Op::erfc: return fmt::format("erfcf({})", a[0]);
    case Op::sqrt: return fmt::format("sqrtf({})", a[0]);
    case Op::rsqrt: return fmt::format("rsqrtf({})", a[0]);
    case Op::cast:
      return node.to == Storage::f32 ? a[0] : fmt::format("math::round_{}({})", storage_name(node.to), a[0]);
    default: break;
  }
  EPIFUSE_ENSURE(false, fmt::format("no spelling for '{}'", ir::op_info(node.op).name));
}

namespace {

std::vector<bool> needed_by(const Epilogue& epilogue, const std::vector<int>& roots) {
  std::vector<bool> needed(epilogue.nodes.size());
  for (const int root : roots) needed[static_cast<size_t>(root)] = true;
  for (size_t i = epilogue.nodes.size(); i-- > 0;)
    if (needed[i] && epilogue.nodes[i].kind != Kind::hadamard)
      for (const int argument : epilogue.nodes[i].args) needed[static_cast<size_t>(argument)] = true;
  return needed;
}

}  // namespace

std::vector<int> leaves_of(const Epilogue& epilogue, const std::vector<int>& roots) {
  const std::vector<bool> needed = needed_by(epilogue, roots);
  std::vector<int> leaves;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const Kind kind = epilogue.nodes[i].kind;
    if (needed[i] && kind != Kind::map && kind != Kind::number) leaves.push_back(static_cast<int>(i));
  }
  return leaves;
}

std::string leaf_name(const ir::Graph& graph, const Epilogue& epilogue, int leaf) {
  const EpilogueNode& node = epilogue.nodes[static_cast<size_t>(leaf)];
  switch (node.kind) {
    case Kind::accumulator: return fmt::format("sum_{}", node.index);
    case Kind::param: return "param_" + graph.params[static_cast<size_t>(node.index)].name;
    case Kind::hadamard: return fmt::format("hadamard_{}", leaf);
    default: break;
  }
  const lowering::EpilogueInput& in = epilogue.inputs[static_cast<size_t>(node.index)];
  const std::string& name = graph.inputs[static_cast<size_t>(in.input)].tensor.name;
  return in.doubled ? fmt::format("in{}_{}", in.part, name) : "in_" + name;
}

std::string spell_values(const ir::Graph& graph, const Epilogue& epilogue, const std::vector<int>& roots,
                         const std::string& name, const std::set<int>& products) {
  std::vector<std::pair<std::string, int>> results;  // reference, node
  std::vector<int> nodes;
  const auto wants = [&](const char* what, int root, int node) {
    results.push_back({fmt::format("{}_{}", what, root), node});
    nodes.push_back(node);
  };
  for (const int root : roots) {
    if (products.count(root) == 0) {
      wants("value", root, root);
      continue;
    }
    const std::vector<int>& factors = epilogue.nodes[static_cast<size_t>(root)].args;
    wants("first", root, factors[0]);
    wants("second", root, factors[1]);
  }
  const bool several = results.size() > 1;
  std::vector<std::string> spelled(epilogue.nodes.size());
  std::string parameters;
  if (several)
    for (const auto& [reference, node] : results)
      parameters += fmt::format("{}float& {}", parameters.empty() ? "" : ", ", reference);
  for (const int leaf : leaves_of(epilogue, nodes)) {
    spelled[static_cast<size_t>(leaf)] = leaf_name(graph, epilogue, leaf);
    parameters += (parameters.empty() ? "float " : ", float ") + spelled[static_cast<size_t>(leaf)];
  }
  const std::vector<bool> needed = needed_by(epilogue, nodes);
  std::string body;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = epilogue.nodes[i];
    if (!needed[i]) continue;
    if (node.kind == Kind::number) spelled[i] = spell_number(node.number);
    if (node.kind != Kind::map) continue;
    std::vector<std::string> arguments;
    for (const int argument : node.args) arguments.push_back(spelled[static_cast<size_t>(argument)]);
    spelled[i] = fmt::format("v{}", i);
    body += fmt::format("    const float {} = {};\n", spelled[i], spell_map(node, arguments));
  }
  if (several)
    for (const auto& [reference, node] : results)
      body += fmt::format("    {} = {};\n", reference, spelled[static_cast<size_t>(node)]);
  else
    body += fmt::format("    return {};\n", spelled[static_cast<size_t>(nodes[0])]);
  return fmt::format("  static EPIFUSE_DEVICE {} {}({}) {{\n{}  }}\n", several ? "void" : "float", name, parameters,
                     body);
}

}  // namespace epifuse::codegen
