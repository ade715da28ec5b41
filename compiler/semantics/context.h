// Internal to the resolver: what is known of the kernel while its statements are walked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/parser/program.h"
#include "compiler/semantics/definitions.h"
#include "compiler/semantics/reporter.h"
#include "compiler/semantics/resolve.h"

namespace epifuse::semantics {

// A value whose mistake is reported; everything made of it is unknown too, silently.
constexpr ir::NodeId unknown_value = -1;

enum class Meaning { dimension, param, constant, input, value, unknown };

struct Symbol {
  Meaning meaning = Meaning::unknown;  // unknown: its definition is wrong, and reported
  int id = -1;                         // DimId, ParamId, InputId or NodeId
  double number = 0;                   // constant
  Span where;
};

class KernelContext {
 public:
  KernelContext(const Definitions& definitions, const ResolveOptions& options, Reporter& report)
      : definitions(definitions), options(options), report(report) {}

  const Definitions& definitions;
  const ResolveOptions& options;
  Reporter& report;
  ir::Graph graph;
  std::map<std::string, Span, std::less<>> defined_below;  // values whose line comes later
  int64_t inlined_calls = 0;
  bool gave_up = false;  // too large: reported, nothing more is resolved
  // About how many nodes each grad node becomes, and all of them: a gradient differentiates those in its way as well.
  std::map<ir::NodeId, int64_t> gradient_sizes;
  int64_t gradient_nodes = 0;

  // Gives a name its one meaning in the kernel (N3), or reports why it cannot have it.
  bool define(const ast::Name& name, Symbol symbol);
  const Symbol* find(std::string_view name) const;
  ConstantLookup constants() const;

  // An output's name may also be that of the value it stores, which is looked at when all is known.
  struct OutputName {
    ast::Name name;
    std::string stored;  // the name of the value, if the output stores a named one
  };
  std::vector<OutputName> output_names;

  // The error for a name that means no value, with what it means instead or the name that was meant.
  void report_unknown_name(const ast::Name& name) const;

  // The node, which is shared when an equal one exists: equal operands make equal gemms.
  ir::NodeId add(ir::Node node);
  const ir::Node& node(ir::NodeId id) const { return graph.nodes[id]; }
  std::string shape_text(ir::NodeId id) const { return graph.shape_text(node(id).shape); }

 private:
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::map<std::vector<int64_t>, ir::NodeId> known_nodes_;
};

}  // namespace epifuse::semantics
