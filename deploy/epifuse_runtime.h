/* libepifuse_runtime: kernels that were built ahead of time (`epifuse prebuild`), found in their bundles, loaded, and
 * launched with a CUDA driver alone. There is no compiler in it: a kernel that no bundle has is an error that says what
 * the bundles have, what differs, and how to build it.
 *
 * It is jit/epifuse.h where it does the same, with epifuse_runtime_ in place of epifuse_, so that one process may hold
 * both. The library reads no environment variable, opens no file but the bundles, writes none, and prints nothing.
 *
 * Functions that can fail return an epifuse_runtime_status. The text of this thread's last failure is
 * epifuse_runtime_last_error(). No exception leaves the library.
 *
 * Every struct starts with its size, sizeof(struct) of the caller: fields that a caller does not know have the value 0,
 * and fields that the library does not know are ignored. In C: `epifuse_runtime_arguments arguments = {.size = sizeof
 * arguments};`. In an array, the first element's size is the distance between elements. Strings are UTF-8, end with a
 * zero, and are copied; NULL means not given.
 *
 * Objects are released by their owner, in any order: what still needs an object keeps it. All functions may be called
 * from any thread; a call may be launched from several threads at once. After a fork, the child starts anew with a
 * runtime of its own. */
#ifndef EPIFUSE_RUNTIME_H
#define EPIFUSE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EPIFUSE_RUNTIME_API __attribute__((visibility("default")))

typedef int32_t epifuse_runtime_status;
enum {
  EPIFUSE_RUNTIME_OK = 0,
  EPIFUSE_RUNTIME_ERROR_USER = 1,  /* what was given cannot work: a wrong shape, a misaligned pointer, a newer bundle */
  EPIFUSE_RUNTIME_ERROR_USAGE = 2, /* this interface was misused: a null pointer, a struct without its size */
  EPIFUSE_RUNTIME_ERROR_MACHINE = 3, /* something is lacking here: a kernel, a GPU, memory; or the driver failed */
  EPIFUSE_RUNTIME_ERROR_BUG = 4,     /* a bug of Epifuse */
  EPIFUSE_RUNTIME_ERROR_WRONG = 5    /* a bundle is damaged, or is none; group sizes are wrong */
};

typedef struct epifuse_runtime epifuse_runtime;               /* bundles and loaded kernels; one serves a process */
typedef struct epifuse_runtime_kernel epifuse_runtime_kernel; /* one kernel for one GPU */
typedef struct epifuse_runtime_call epifuse_runtime_call;     /* a kernel with its buffers, which it does not own */

EPIFUSE_RUNTIME_API const char* epifuse_runtime_version(void); /* "0.1.0" */
/* Valid until the next function of this library fails on this thread; "" when none has. */
EPIFUSE_RUNTIME_API const char* epifuse_runtime_last_error(void);

typedef struct epifuse_runtime_options {
  size_t size;
  const char* const* bundles; /* files, as epifuse_runtime_add_bundle takes them */
  size_t bundle_count;
} epifuse_runtime_options;

/* options may be NULL. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_create(const epifuse_runtime_options* options,
                                                                  epifuse_runtime** runtime);
EPIFUSE_RUNTIME_API void epifuse_runtime_destroy(epifuse_runtime* runtime); /* NULL is allowed */

/* One more bundle, searched behind the others. Its index is checked here, a kernel's bytes when the kernel is loaded:
 * EPIFUSE_RUNTIME_ERROR_WRONG when it is damaged or none, EPIFUSE_RUNTIME_ERROR_USER when a newer Epifuse wrote it or
 * there is no such file. The file stays mapped, and the driver reads kernels from there; it may be renamed, removed, or
 * replaced by renaming another over it, and must not be written into. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_add_bundle(epifuse_runtime* runtime, const char* path);
/* The same from memory, which is not copied and outlives the runtime and its kernels; `epifuse bundle embed` makes a
 * source for it. `name` is for messages. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_add_bundle_memory(epifuse_runtime* runtime,
                                                                             const void* bytes, size_t size,
                                                                             const char* name);

/* What the bundles have: JSON, [{bundle, kernel, target, dims, without, schedule, request}], in the order in which
 * bundles are searched; schedule is null where none was named, request the digest of the canonical request, as `epifuse
 * bundle list` prints it. *list lives as long as the runtime. Needs no GPU. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_list(epifuse_runtime* runtime, const char** list);

typedef struct epifuse_runtime_dim {
  const char* name;
  int64_t value;
} epifuse_runtime_dim;

enum {
  EPIFUSE_RUNTIME_DEVICE_NONE = -1,   /* load onto no GPU: to look at a kernel where there is none */
  EPIFUSE_RUNTIME_DEVICE_CURRENT = -2 /* that of the thread's current CUDA context, else GPU 0 */
};

/* Loads every kernel that is for this GPU, so that nothing is loaded later: loading may wait for the GPU, and so hang
 * beside a communication kernel that waits for this process, and it breaks a capture. *count (may be NULL): how many.
 * One that cannot be loaded is an error, and so is there being none for this GPU. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_prepare(epifuse_runtime* runtime, int32_t device,
                                                                   size_t* count);
/* From here on a kernel that is not loaded is an error (EPIFUSE_RUNTIME_ERROR_MACHINE), and no bundle is added. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_seal(epifuse_runtime* runtime);

typedef struct epifuse_runtime_kernel_options {
  size_t size;
  const char* kernel;              /* its name in the spec */
  const epifuse_runtime_dim* dims; /* a number for each `dim` of the kernel, in any order */
  size_t dim_count;
  const char* const* left_out; /* the optional inputs and outputs that it was built without */
  size_t left_out_count;
  const char* schedule; /* what --schedule of prebuild named; NULL: nothing */
  const char* target;   /* "sm_90a"; NULL: the device's, or sm_90a without one */
  int32_t device;       /* ordinal, EPIFUSE_RUNTIME_DEVICE_NONE or EPIFUSE_RUNTIME_DEVICE_CURRENT */
  /* The canonical request (`epifuse bundle extract` writes it) in place of all above but the device. It is needed only
   * where a bundle has kernels of one name, target and dims that differ in their text. */
  const char* request;
} epifuse_runtime_kernel_options;

/* Finds the kernel in the first bundle that has it, and loads it if that has not been done. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_kernel_load(epifuse_runtime* runtime,
                                                                       const epifuse_runtime_kernel_options* options,
                                                                       epifuse_runtime_kernel** kernel);
EPIFUSE_RUNTIME_API void epifuse_runtime_kernel_destroy(epifuse_runtime_kernel* kernel); /* NULL is allowed */

/* JSON: kernel, target, bundle, dims, without, schedule, registers, spill_bytes, wgmma_serialized, workspace_bytes (a
 * number; or a text over sizes that only a call has, see epifuse_runtime_workspace_bytes), warnings, made (what the
 * bundle says of its making: epifuse, toolchain, key, plan, tuned, …). Lives as long as the kernel. */
EPIFUSE_RUNTIME_API const char* epifuse_runtime_kernel_info(const epifuse_runtime_kernel* kernel);

typedef struct epifuse_runtime_buffer_info {
  size_t size;
  const char* name;    /* "y", "y.scale", "M.ends" */
  const char* storage; /* "bf16", "e4m3", "e8m0", "i32", … */
  const char* role;    /* "input", "output", "group_sizes" */
  int32_t rank;
  int32_t alignment;          /* bytes, of the pointer and of strides */
  const char* const* extents; /* rank texts over the names of dimensions: "M", "I * 2", "ceil_div(I, 128)"; below */
  int32_t strided;            /* 1: axes but the last may have any stride; 0: must be contiguous */
  /* 0: one buffer. p > 0 (`bf16[E][N, K]` in the spec has 1): as many buffers as the first p extents have indices,
   * given as an array of pointers; alignment and strided are then those of each buffer, over the other extents. */
  int32_t pointer_axes;
} epifuse_runtime_buffer_info;

/* What must be bound. Strings live as long as the kernel; info->size must be set.
 *
 * An extent is a whole number of 64 bits, in this grammar, with the bonds of C and exact at every step:
 *   sum     = product { ("+" | "-") product }
 *   product = value { "*" value }
 *   value   = NUMBER | NAME | "(" sum ")" | FUNCTION "(" sum "," sum ")"
 *   FUNCTION: ceil_div, round_up (to a multiple of the second), exact_div (without remainder), min, max
 * A NAME is a `dim` (its number is in epifuse_runtime_kernel_info) or a size of the call (a `dyn`, the rows of a
 * `group`), which is read off the buffers that are bound: "round_up(M + (E - 1) * 127, 128)". */
EPIFUSE_RUNTIME_API size_t epifuse_runtime_kernel_buffer_count(const epifuse_runtime_kernel* kernel);
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_kernel_buffer(const epifuse_runtime_kernel* kernel,
                                                                         size_t index,
                                                                         epifuse_runtime_buffer_info* info);

/* A buffer with pointer axes is given by the address of an array in device memory, aligned to 8 bytes, of 8-byte device
 * pointers: one for each index of the pointer axes, row-major, to a buffer of the other extents. All buffers have the
 * same strides. The array is read by each launch; the pointers in it are checked by nobody: each must be a multiple of
 * the alignment, and one whose buffer is never used may be NULL. */
typedef struct epifuse_runtime_tensor {
  size_t size;
  const char* name;
  void* pointer;       /* device memory; NULL only for a tensor without elements */
  const char* storage; /* of the elements; compared with the kernel's; NULL: taken on trust */
  int32_t rank;
  const int64_t* extents; /* elements, memory order; all of them, the pointer axes too: {E, N, K} */
  const int64_t* strides; /* elements, rank of them, those of pointer axes without meaning; NULL: contiguous */
} epifuse_runtime_tensor;

typedef struct epifuse_runtime_param {
  const char* name;
  double value;
} epifuse_runtime_param;

typedef struct epifuse_runtime_arguments {
  size_t size;
  const epifuse_runtime_tensor* tensors; /* one for each buffer, in any order */
  size_t tensor_count;
  const epifuse_runtime_param* params; /* those with a default may be missing */
  size_t param_count;
  void* workspace;         /* device memory, a multiple of 256, of any contents; serves one launch in flight */
  int64_t workspace_bytes; /* what it has: at least what epifuse_runtime_workspace_bytes says */
} epifuse_runtime_arguments;

/* Bytes of workspace that a call of these sizes needs; 0: none. Looks at no pointer; but it depends on the GPU, so the
 * kernel must be loaded onto one: EPIFUSE_RUNTIME_DEVICE_NONE is EPIFUSE_RUNTIME_ERROR_USAGE. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_workspace_bytes(const epifuse_runtime_kernel* kernel,
                                                                           const epifuse_runtime_arguments* arguments,
                                                                           int64_t* bytes);
/* Checks everything that the host can check, and prepares the launch. Buffers must outlive their last launch. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_bind(const epifuse_runtime_kernel* kernel,
                                                                const epifuse_runtime_arguments* arguments,
                                                                epifuse_runtime_call** call);
EPIFUSE_RUNTIME_API void epifuse_runtime_call_destroy(epifuse_runtime_call* call); /* NULL is allowed */
/* Other buffers for a call, at a fraction of what a bind costs: the sizes, strides, dims and params stay. pointers has
 * one for each buffer, in the order of epifuse_runtime_kernel_buffer; the workspace is as large as the one that was
 * bound. Launches that are enqueued already keep their buffers; none may be enqueued at the same time. Null pointers,
 * alignment and overlaps are checked, and that the memory is this GPU's is not. After an error the call is what it was.
 */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_rebind(epifuse_runtime_call* call, void* const* pointers,
                                                                  size_t pointer_count, void* workspace);

/* Enqueues the kernel on a CUstream (cudaStream_t) of its GPU and returns; it can be captured. Allocates nothing and
 * takes no lock. sm_margin multiprocessors are left to others. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_launch(const epifuse_runtime_call* call, void* stream,
                                                                  int32_t sm_margin);

typedef struct epifuse_runtime_launch_options {
  size_t size;
  int32_t sm_margin;
  /* 1: the kernel may start while what is before it in the stream still runs (programmatic dependent launch), and waits
   * itself before it touches memory. A kernel before it that lets it start early (every kernel of Epifuse does) must
   * have waited for what is before that one. Without effect where the driver cannot. */
  int32_t overlap_previous;
} epifuse_runtime_launch_options;

/* The same with more to say; options may be NULL. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_launch_with(const epifuse_runtime_call* call, void* stream,
                                                                       const epifuse_runtime_launch_options* options);
/* Waits for the stream; an error names this kernel. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_synchronize(const epifuse_runtime_call* call, void* stream);
/* Waits for the stream and checks the group sizes on the device: monotone, and not past the capacity. For debugging. */
EPIFUSE_RUNTIME_API epifuse_runtime_status epifuse_runtime_check_group_sizes(const epifuse_runtime_call* call,
                                                                             void* stream);

#ifdef __cplusplus
}
#endif

#endif
