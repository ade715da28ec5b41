// The objects behind the C interface's pointers. Apart from its functions so that a test makes a runtime over a driver
// of its own.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "deploy/c_interface.h"
#include "deploy/epifuse_runtime.h"
#include "deploy/kernel_library.h"

struct epifuse_runtime {
  explicit epifuse_runtime(epifuse::deploy::KernelLibrary::LoadDriver load_driver) : library(std::move(load_driver)) {}

  epifuse::deploy::KernelLibrary library;
  std::mutex mutex;
  std::set<std::string> lists;  // all answers of epifuse_runtime_list: their texts stay
};

struct epifuse_runtime_kernel {
  epifuse::deploy::KernelPtr kernel;
  std::string info;
  std::vector<epifuse::c::ListedBuffer> buffers;  // as in the recipe
};

struct epifuse_runtime_call {
  epifuse::runtime::BoundCall bound;
};
