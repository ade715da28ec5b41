/* The few declarations of the CUDA driver's header that the examples of docs/runtime_library.md use, for machines
 * without a toolkit; libcuda is tests/deploy/fake_libcuda.cpp there. */
#ifndef EPIFUSE_TEST_CUDA_H
#define EPIFUSE_TEST_CUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2

typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;

CUresult cuInit(unsigned flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes);
CUresult cuMemFree(CUdeviceptr pointer);
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);

#ifdef __cplusplus
}
#endif

#endif
