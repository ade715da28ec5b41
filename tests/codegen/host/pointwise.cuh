// The templates of pointwise kernels, compiled for the host: the words of CUDA that they use, before them; and, by the
// order of include folders, host/ptx in the place of the file whose instructions a host lacks.
#pragma once

#include "tests/codegen/host/device.h"
// Behind the words of CUDA.
#include "pointwise/groups.cuh"
#include "pointwise/quantise.cuh"
#include "pointwise/reduce.cuh"
#include "pointwise/rotate.cuh"
