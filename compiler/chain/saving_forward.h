// Internal to chain: a forward kernel once more, with outputs for the values that the backward pass has to read.
#pragma once

#include <string>

#include "compiler/chain/link_chain.h"

namespace epifuse::chain {

// Gives the missing outputs names, which it writes into link.saved, and returns the kernel with them. `mentioned` gets
// the names that it mentions.
std::string saving_forward(Link& link, Names& names, std::set<std::string>& mentioned);

}  // namespace epifuse::chain
