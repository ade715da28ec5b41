// The small languages inside option values: "E=8,K=7168", "0,1,127", "limit=7.0". Errors name the part that is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace epifuse::tools {

// "NAME=VALUE" at the first '='. Both sides must be there, and NAME a name of the language with '.' allowed in it.
Result<std::pair<std::string, std::string>> parse_assignment(std::string_view text);

// Adds "E=8,K=7168" to `dims`. A name given twice is an error.
Status parse_dims(std::string_view text, std::map<std::string, int64_t>& dims);

Status parse_params(std::string_view text, std::map<std::string, double>& params);

Result<std::vector<int64_t>> parse_counts(std::string_view text);

// "fc1,fc2".
Result<std::vector<std::string>> parse_names(std::string_view text);

// "0.5" as a number in [least, most].
Result<double> parse_number(std::string_view text, double least, double most);

// "7" as a whole number in [least, most].
Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most);

}  // namespace epifuse::tools
