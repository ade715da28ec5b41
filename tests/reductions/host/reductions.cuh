// The templates of reductions and sinks, compiled for the host: behind the words of CUDA that they use; and, by the
// order of include folders, host/ptx in the place of the files whose instructions a host lacks.
#pragma once

#include "tests/reductions/host/cuda.h"
// Behind the words of CUDA.
#include "epilogue/reduce.cuh"
#include "epilogue/store.cuh"
#include "kernels/finish.cuh"
#include "pipeline/tile_walk.cuh"
