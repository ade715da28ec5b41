// The device's name of a scaled type: one of the policies of templates/formats.
#pragma once

#include <string>

#include "compiler/ir/types.h"

namespace epifuse::codegen {

// "formats::MxFormat<e4m3, formats::MxRule::up, formats::NonFinite::propagate>"
std::string format_policy(const ir::TensorType& type);

// The header that has it: "formats/mx.cuh".
std::string format_header(const ir::TensorType& type);

}  // namespace epifuse::codegen
