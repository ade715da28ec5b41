// From the options as they were written to what they mean.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/command_line.h"
#include "tools/written_options.h"

namespace epifuse::tools {

// The error (user) names the option.
Result<CommandLine> understand(const Written& written, const std::string& command);

}  // namespace epifuse::tools
