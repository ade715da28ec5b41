// Internal to the parser: hints for who writes as in other languages.
#pragma once

#include <string>
#include <string_view>

namespace epifuse {

// The keyword that was probably meant by a word which stands where one would: "in" for "input"; empty: none.
std::string keyword_meant_by(std::string_view word);
std::string hint_for_keyword(std::string_view word);  // in words: "did you mean 'in'?"

// How the operator of that sign is written here; empty: there is none. `**` is '^'.
std::string_view hint_for_sign(char sign);

}  // namespace epifuse
