// The options of scaled types (language.md S9) and what each may be: the one list that the resolver, the messages, the
// reference in docs/ and the editor grammar agree with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/types.h"

namespace epifuse::semantics {

struct TypeOption {
  std::string_view name;
  bool of_stores;  // says how to quantise, so it belongs to an out
};
const std::vector<TypeOption>& type_options();
std::vector<std::string> option_names();

// The words that an option of this type takes, the default first. Empty: the option does not belong to the type, or
// names something of the kernel (`along`, `amax`, `seed`). For plain types all are empty.
std::vector<std::string> option_words(ir::Format format, std::string_view option);

}  // namespace epifuse::semantics
