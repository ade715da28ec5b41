// Builds small graphs by hand, in the way a spec would be written:
//
//   GraphBuilder g;
//   g.dim("E", 2), g.dim("K", 64), g.dim("I", 32);
//   g.group("M", "E"), g.align("P", "M", 128);
//   Value h = g.gemm(g.in("x", "bf16", "M, K"), g.in("w", "bf16", "E, 2*I, K"), "K");
//   g.out("y", "mxfp8", "M, I", silu(g.split(h, 0)) * g.split(h, 1));
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace epifuse::test {

class GraphBuilder;

struct Value {
  GraphBuilder* graph;
  ir::NodeId id;
};

class GraphBuilder {
 public:
  ir::Graph graph;

  explicit GraphBuilder(std::string name = "test") { graph.name = std::move(name); }

  void dim(const std::string& name, std::optional<int64_t> value = std::nullopt) {
    ir::Dimension d;
    d.name = name;
    d.value = value;
    graph.dims.push_back(d);
  }
  void dyn(const std::string& name) {
    dim(name);
    graph.dims.back().kind = ir::DimKind::dynamic;
  }
  ir::Dimension& group(const std::string& name, const std::string& by, ir::GroupSizes sizes = ir::GroupSizes::ends,
                       Storage storage = Storage::i32, int64_t align = 1) {
    dim(name);
    ir::Dimension& d = graph.dims.back();
    d.kind = ir::DimKind::grouped;
    d.cut_by = find(by);
    d.sizes = sizes;
    d.sizes_storage = storage;
    d.align = align;
    return d;
  }
  void align(const std::string& name, const std::string& base, int64_t align) {
    dim(name);
    graph.dims.back().kind = ir::DimKind::aligned;
    graph.dims.back().base = find(base);
    graph.dims.back().align = align;
  }

  // "M", "2*I", "K/32" or "7".
  ir::Extent extent(std::string text) const {
    ir::Extent result;
    if (const size_t star = text.find('*'); star != std::string::npos) {
      result.times = std::stoll(text.substr(0, star));
      text = text.substr(star + 1);
    }
    if (const size_t slash = text.find('/'); slash != std::string::npos) {
      result.over = std::stoll(text.substr(slash + 1));
      text = text.substr(0, slash);
    }
    if (text[0] >= '0' && text[0] <= '9')
      result.times = std::stoll(text);
    else
      result.dim = find(text);
    return result;
  }
  // "M, 2*I"; empty for a scalar.
  ir::Shape shape(const std::string& text) const {
    ir::Shape result;
    std::string word;
    for (char c : text + ",") {
      if (c == ',') {
        if (!word.empty()) result.push_back(extent(word));
        word.clear();
      } else if (c != ' ') {
        word += c;
      }
    }
    return result;
  }

  static ir::TensorType type(const std::string& format) {
    ir::TensorType result;
    result.format = ir::parse_format(format).value();
    result.element = ir::format_info(result.format).element;
    return result;
  }

  Value in(const std::string& name, const ir::TensorType& type, const std::string& dims,
           std::optional<double> default_value = std::nullopt) {
    ir::Input input;
    input.tensor = {name, type, shape(dims), 0, {}};
    input.default_value = default_value;
    graph.inputs.push_back(input);
    ir::Node node;
    node.op = ir::Op::input;
    node.index = static_cast<int>(graph.inputs.size()) - 1;
    node.shape = input.tensor.shape;
    return add(node);
  }
  Value in(const std::string& name, const std::string& format, const std::string& dims,
           std::optional<double> default_value = std::nullopt) {
    return in(name, type(format), dims, default_value);
  }

  ir::Output& out(const std::string& name, const ir::TensorType& type, const std::string& dims, Value value,
                  ir::Reduction reduction = ir::Reduction::none, bool accumulate = false) {
    ir::Output output;
    output.tensor = {name, type, shape(dims), 0, {}};
    output.value = value.id;
    output.reduction = reduction;
    output.accumulate = accumulate;
    graph.outputs.push_back(output);
    return graph.outputs.back();
  }
  ir::Output& out(const std::string& name, const std::string& format, const std::string& dims, Value value,
                  ir::Reduction reduction = ir::Reduction::none, bool accumulate = false) {
    return out(name, type(format), dims, value, reduction, accumulate);
  }

  Value number(double number) {
    ir::Node node;
    node.number = number;
    return add(node);
  }
  Value param(const std::string& name, std::optional<double> default_value = std::nullopt) {
    graph.params.push_back({name, default_value, {}});
    ir::Node node;
    node.op = ir::Op::param;
    node.index = static_cast<int>(graph.params.size()) - 1;
    return add(node);
  }
  Value map(ir::Op op, const std::vector<Value>& args) {
    ir::Node node;
    node.op = op;
    for (const Value& arg : args) {
      node.args.push_back(arg.id);
      node.shape = graph.union_of(node.shape, graph.nodes[arg.id].shape);
    }
    return add(node);
  }
  Value cast(Value value, Storage to) {
    Value result = map(ir::Op::cast, {value});
    graph.nodes[result.id].to = to;
    return result;
  }
  Value gemm(Value a, Value b, const std::string& along) {
    ir::Node node;
    node.op = ir::Op::gemm;
    node.args = {a.id, b.id};
    node.along = extent(along);
    const ir::Extent base = graph.base_name(node.along);
    if (base.dim >= 0 && graph.dims[base.dim].kind == ir::DimKind::grouped)
      node.shape.push_back({1, graph.dims[base.dim].cut_by, 1});
    for (const ir::Extent& e : graph.union_of(graph.nodes[a.id].shape, graph.nodes[b.id].shape))
      if (!graph.same_name(e, node.along)) node.shape.push_back(e);
    return add(node);
  }
  Value gather(Value value, Value index, const std::string& along) {
    ir::Node node;
    node.op = ir::Op::gather;
    node.args = {value.id, index.id};
    node.along = extent(along);
    node.shape = graph.nodes[index.id].shape;
    for (const ir::Extent& e : graph.nodes[value.id].shape)
      if (!graph.same_name(e, node.along)) node.shape.push_back(e);
    return add(node);
  }
  Value split(Value value, int part, int64_t piece = 0) {
    ir::Node node;
    node.op = ir::Op::split;
    node.args = {value.id};
    node.index = part;
    node.piece = piece;
    node.shape = graph.nodes[value.id].shape;
    ir::Extent& last = node.shape.back();
    if (last.times % 2 == 0)
      last.times /= 2;
    else
      last.over *= 2;
    return add(node);
  }
  Value join(Value a, Value b, int64_t piece = 0) {
    ir::Node node;
    node.op = ir::Op::join;
    node.args = {a.id, b.id};
    node.piece = piece;
    node.shape = graph.nodes[a.id].shape;
    ir::Extent& last = node.shape.back();
    if (last.over % 2 == 0)
      last.over /= 2;
    else
      last.times *= 2;
    return add(node);
  }
  Value hadamard(Value value, const std::string& along, uint32_t signs = 0) {
    ir::Node node;
    node.op = ir::Op::hadamard;
    node.args = {value.id};
    node.shape = graph.nodes[value.id].shape;
    node.along = graph.base_name(extent(along));
    node.signs = signs;
    return add(node);
  }
  Value group_ends(const std::string& name) {
    ir::Node node;
    node.op = ir::Op::group_ends;
    node.dim = find(name);
    const ir::Dimension& d = graph.dims[node.dim];
    node.shape = {{1, d.kind == ir::DimKind::aligned ? graph.dims[d.base].cut_by : d.cut_by, 1}};
    return add(node);
  }

 private:
  ir::DimId find(const std::string& name) const {
    for (size_t i = 0; i < graph.dims.size(); ++i)
      if (graph.dims[i].name == name) return static_cast<ir::DimId>(i);
    throw std::logic_error("no dimension " + name);
  }
  Value add(const ir::Node& node) {
    graph.nodes.push_back(node);
    return {this, static_cast<ir::NodeId>(graph.nodes.size()) - 1};
  }
};

inline Value operator+(Value a, Value b) { return a.graph->map(ir::Op::add, {a, b}); }
inline Value operator-(Value a, Value b) { return a.graph->map(ir::Op::sub, {a, b}); }
inline Value operator*(Value a, Value b) { return a.graph->map(ir::Op::mul, {a, b}); }
inline Value operator/(Value a, Value b) { return a.graph->map(ir::Op::div, {a, b}); }
inline Value operator*(double a, Value b) { return b.graph->number(a) * b; }
inline Value operator+(double a, Value b) { return b.graph->number(a) + b; }
inline Value max(double a, Value b) { return b.graph->map(ir::Op::max, {b.graph->number(a), b}); }
inline Value min(Value a, Value b) { return a.graph->map(ir::Op::min, {a, b}); }
inline Value clamp(Value a, Value b, Value c) { return a.graph->map(ir::Op::clamp, {a, b, c}); }
inline Value sigmoid(Value a) { return a.graph->map(ir::Op::sigmoid, {a}); }
inline Value erfc(Value a) { return a.graph->map(ir::Op::erfc, {a}); }
inline Value exp(Value a) { return a.graph->map(ir::Op::exp, {a}); }

// The activations of the specs' library.
inline Value silu(Value x) { return x * sigmoid(x); }
inline Value relu(Value x) { return max(0, x); }
inline Value srelu(Value x) {
  const Value r = relu(x);
  return r * r;
}
inline Value quick_gelu(Value x, Value alpha) { return x * sigmoid(alpha * x); }
inline Value gelu_tanh(Value x) { return x * sigmoid(1.5957691216 * (x + 0.044715 * x * x * x)); }
inline Value gelu_erf(Value x) { return 0.5 * x * erfc(-0.7071067811865476 * x); }

}  // namespace epifuse::test
