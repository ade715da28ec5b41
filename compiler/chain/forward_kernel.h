// Internal to chain: what a forward kernel is made of, as far as its backward kernels need to know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/chain/spec_text.h"
#include "compiler/chain/values.h"
#include "compiler/ir/graph.h"
#include "compiler/parser/program.h"

namespace epifuse::chain {

// One gemm(data, weight) of a kernel. Data has the rows; a weight has none of them.
struct Product {
  const ast::Expr* call = nullptr;
  ValueId value = -1;
  const ast::In* data = nullptr;
  const ast::In* weight = nullptr;
  std::string index;     // of data[index]; empty: none
  ir::Shape shape;       // of the product
  ir::Shape data_shape;  // of the operand: with an index the rows are the index's
  ir::Shape weight_shape;
};

struct ForwardKernel {
  const ast::Kernel* tree = nullptr;
  ir::Graph graph;
  Values values;
  std::vector<Product> products;  // one or two, of the same data

  const std::string& name() const { return tree->name.text; }
  const ast::In* input(const std::string& name) const;
  const ast::Out* output(const std::string& name) const;
  const ir::Output* graph_output(const std::string& name) const;
  std::string shape_text(const ir::Shape& shape) const { return graph.shape_text(shape); }

  // The inputs besides the operands that are real numbers, in their order: what may have a gradient.
  std::vector<const ast::In*> other_inputs() const;
};

// Whether a tensor is f32, bf16 or f16 without a scale.
bool is_plain(const ast::Tensor& tensor);

// The kernel of that name, or nothing when it is none that a chain may have; reported.
std::optional<ForwardKernel> read_forward_kernel(const Program& program, const std::string& name,
                                                 Diagnostics& diagnostics);

}  // namespace epifuse::chain
