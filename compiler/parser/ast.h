// The syntax tree: what was written, and where. Nothing here is checked beyond the grammar of docs/language.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/diagnostics.h"

namespace epifuse::ast {

struct Name {
  std::string text;
  Span where;
};

enum class Operator { add, sub, mul, div, less, less_equal, greater, greater_equal, equal, not_equal };
std::string_view operator_text(Operator op);

struct Expr {
  enum class Kind {
    number,  // 7.0: number, name.text as written
    name,    // x: name
    negate,  // -a: args[0]
    chain,   // a + b - c, a * b / c, a < b: args and the operators between them, from the left. One node however long
             // the chain, so that the depth of a tree is the nesting that was written.
    call,    // f(a, b): name, args
    index,   // x[i]: name, second
    member,  // P.ends: name, second
  };
  Kind kind = Kind::number;
  Span where;
  double number = 0;
  Name name, second;
  std::vector<Expr> args;
  std::vector<Operator> operators;
};

// times * name / over; without a name the number `times`.
struct Size {
  int64_t times = 1;
  std::optional<Name> name;
  int64_t over = 1;
  Span where;
};

struct Option {
  Name name;
  Name value;  // a name or a number, as written
};

struct Tensor {
  Name type;
  std::vector<Option> options;
  std::vector<Size> pointers;  // of bf16[E][N, K] the [E]
  std::vector<Size> shape;
  Span where;
};

struct Dim {
  struct Item {
    Name name;
    std::optional<int64_t> value;
    Span value_where;
  };
  bool dynamic = false;  // dyn
  std::vector<Item> items;
};

struct Group {  // group M by E
  Name name, by;
  std::optional<Name> sizes;    // ends, counts
  std::optional<Name> storage;  // i32, i64
  std::optional<int64_t> align;
  Span align_where;
  std::optional<Size> slot;
};

struct Aligned {  // group P = M align 128
  Name name, base;
  int64_t align = 1;
  Span align_where;
};

struct Param {
  Name name;
  std::optional<Expr> value;
};

struct Const {
  Name name;
  Expr value;
};

struct In {
  Name name;
  Tensor tensor;
  std::optional<double> default_value;
  Span default_where;
};

struct Out {
  Name name;
  Tensor tensor;
  bool accumulate = false;
  Span assign_where;  // of = or +=
  Expr value;
};

struct Let {
  std::vector<Name> names;
  Expr value;
};

// A statement that could not be read. The names that it was about to define are known, but nothing about them: they
// silence the errors that would only follow from this one.
struct Broken {
  std::vector<Name> names;
};

using Statement = std::variant<Dim, Group, Aligned, Param, Const, In, Out, Let, Broken>;

struct Kernel {
  Name name;
  std::vector<Statement> statements;
};

struct Function {
  Name name;
  std::vector<Name> params;
  Expr body;
};

struct Use {
  std::string path;
  Span where;
};

struct File {
  std::shared_ptr<const SourceFile> source;
  std::vector<Use> uses;
  std::vector<Const> constants;
  std::vector<Function> functions;
  std::vector<Kernel> kernels;
  std::vector<Name> broken;  // names of functions and constants that could not be read
};

// The tree as a spec again, fully parenthesised, without comments: the form of --emit=ast. It parses back to a tree
// that prints the same.
std::string print(const File& file);

}  // namespace epifuse::ast
