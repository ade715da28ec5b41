// Lets templates of device code be compiled for the host: the words of CUDA that they use, and, in host/ptx and host/atom,
// stand-ins for the files whose instructions a host lacks. To be included before any template.
#pragma once

#include <algorithm>
#include <cstdint>

#define __device__
#define __forceinline__ inline

using std::max;
using std::min;

template <class T>
T __ldg(const T* from) {
  return *from;
}
