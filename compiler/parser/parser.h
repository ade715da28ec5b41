// The parser: LL(1) by recursive descent. Every mistake is reported and parsing goes on at the next line, so the tree
// always comes back, with `Broken` where a statement could not be read.
#pragma once

#include <memory>

#include "base/diagnostics.h"
#include "compiler/parser/ast.h"

namespace epifuse {

// Expressions nested deeper than this are an error: it bounds the stack of everything that walks a tree.
constexpr int max_nesting = 100;

ast::File parse(std::shared_ptr<const SourceFile> file, Diagnostics& diagnostics);

}  // namespace epifuse
