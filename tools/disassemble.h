// SASS of a cubin, by the toolkit's nvdisasm, which is not part of Epifuse.
#pragma once

#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/result.h"
#include "base/settings.h"

namespace epifuse::tools {

// The path of nvdisasm: of CUDA_HOME, PATH or /usr/local/cuda. An error (environment) says where it was looked for.
Result<std::string> find_nvdisasm(FileSystem& disk, const Settings& settings);

Result<std::string> disassemble(const std::string& nvdisasm, std::string_view cubin);

}  // namespace epifuse::tools
