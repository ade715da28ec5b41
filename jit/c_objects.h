// The objects behind the C interface's pointers. Apart from its functions so that a test makes an engine over a
// toolchain and a driver of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/c_interface.h"
#include "deploy/device_table.h"
#include "jit/epifuse.h"
#include "jit/unfused.h"

struct epifuse_engine {
  std::shared_ptr<epifuse::jit::Engine> engine;
  epifuse::deploy::DeviceTable devices;
};

struct epifuse_kernel {
  epifuse::LaunchRecipe recipe;  // what is bound; of an unfused kernel without steps
  std::vector<epifuse::runtime::NamedInteger> dims;
  std::optional<epifuse::jit::LaunchSequence> loaded;  // empty: onto no GPU
  std::string info;
  std::vector<epifuse::c::ListedBuffer> buffers;  // as in the recipe
};

struct epifuse_call {
  epifuse::jit::BoundSequence bound;
};
