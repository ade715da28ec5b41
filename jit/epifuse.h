/* Epifuse's C interface: load a kernel from a spec, bind named device buffers, launch on a stream.
 *
 * Functions that can fail return an epifuse_status; the numbers are the exit codes of the epifuse command. The text of
 * this thread's last failure is epifuse_last_error(). No exception leaves the library, and it writes nothing but log
 * lines of its own to stderr (or to the callback, if one is given).
 *
 * Every struct starts with its size, sizeof(struct) of the caller: fields that a caller does not know have the value 0,
 * and fields that the library does not know are ignored. In C: `epifuse_arguments arguments = {.size = sizeof
 * arguments};`. In an array, the first element's size is the distance between elements. Strings are UTF-8, end with a
 * zero, and are copied; NULL means not given.
 *
 * Objects are released by their owner, in any order: what still needs an object keeps it. All functions may be called
 * from any thread; a call may be launched from several threads at once. */
#ifndef EPIFUSE_H
#define EPIFUSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EPIFUSE_API __attribute__((visibility("default")))

typedef int32_t epifuse_status;
enum {
  EPIFUSE_OK = 0,
  EPIFUSE_ERROR_USER = 1,    /* what was given cannot work: a mistake in a spec, a wrong shape, a misaligned pointer */
  EPIFUSE_ERROR_USAGE = 2,   /* this interface was misused: a null pointer, a struct without its size */
  EPIFUSE_ERROR_MACHINE = 3, /* this machine lacks something: no NVRTC, no GPU, no memory; or the driver failed */
  EPIFUSE_ERROR_BUG = 4,     /* a bug of Epifuse */
  EPIFUSE_ERROR_WRONG = 5    /* what was checked is wrong */
};

typedef struct epifuse_engine epifuse_engine; /* settings, kernel cache, loaded kernels; one is enough for a process */
typedef struct epifuse_kernel epifuse_kernel; /* one kernel for one GPU */
typedef struct epifuse_call epifuse_call;     /* a kernel with its buffers, checked; it does not own the buffers */

EPIFUSE_API const char* epifuse_version(void); /* "0.1.0" */
/* Valid until the next function of this library fails on this thread; "" when none has. */
EPIFUSE_API const char* epifuse_last_error(void);

enum { EPIFUSE_LOG_ERROR = 0, EPIFUSE_LOG_WARN = 1, EPIFUSE_LOG_INFO = 2, EPIFUSE_LOG_DEBUG = 3 };

typedef struct epifuse_engine_options {
  size_t size;
  const char* cache_directory; /* of compiled kernels; "" keeps them in memory; NULL: EPIFUSE_CACHE_DIR decides */
  /* Gets every log line, from any thread; NULL: lines of EPIFUSE_LOG's level and above go to stderr. */
  void (*log)(int32_t level, const char* text, void* log_data);
  void* log_data;
  const char* const* bundles; /* files of prebuilt kernels, looked into before those of EPIFUSE_BUNDLES */
  size_t bundle_count;
  int32_t jit; /* EPIFUSE_JIT_…: whether a kernel that is in no bundle and no cache is compiled */
  /* What the cache directory may take on the disk, in bytes; what was used least recently goes. 0: EPIFUSE_CACHE_SIZE
   * decides. EPIFUSE_CACHE_UNLIMITED: any number. */
  int64_t cache_bytes;
  int32_t cache_trust; /* EPIFUSE_CACHE_TRUST_…: which of the directories of EPIFUSE_CACHE_READ are used */
} epifuse_engine_options;

enum {
  EPIFUSE_JIT_DEFAULT = 0, /* as EPIFUSE_JIT says */
  EPIFUSE_JIT_ON = 1,
  EPIFUSE_JIT_OFF = 2 /* it is an error (EPIFUSE_ERROR_MACHINE) that says which kernels there are and what differs */
};

enum { EPIFUSE_CACHE_UNLIMITED = -1 };

/* The directory that is written is always this user's own. */
enum {
  EPIFUSE_CACHE_TRUST_DEFAULT = 0, /* as EPIFUSE_CACHE_TRUST says */
  EPIFUSE_CACHE_TRUST_OWN = 1,     /* those of this user or root that nobody else can write */
  EPIFUSE_CACHE_TRUST_SHARED = 2   /* all: who can write to one decides what runs on the GPU */
};

/* options may be NULL. Everything that is not in them comes from the environment (`epifuse doctor` prints it). */
EPIFUSE_API epifuse_status epifuse_engine_create(const epifuse_engine_options* options, epifuse_engine** engine);
EPIFUSE_API void epifuse_engine_destroy(epifuse_engine* engine); /* NULL is allowed */

/* One more bundle of prebuilt kernels (`epifuse prebuild`), looked into behind the others and before the cache. It is
 * checked here: EPIFUSE_ERROR_WRONG when it is damaged or none, EPIFUSE_ERROR_USER when a newer Epifuse wrote it or
 * there is no such file. The file stays mapped; it may be renamed, removed, or replaced by renaming another over it,
 * and must not be written into. */
EPIFUSE_API epifuse_status epifuse_engine_add_bundle(epifuse_engine* engine, const char* path);
/* The same from memory, which is not copied and outlives the engine and its kernels; `epifuse bundle embed` makes a
 * source for it. `name` is for messages. */
EPIFUSE_API epifuse_status epifuse_engine_add_bundle_memory(epifuse_engine* engine, const void* bytes, size_t size,
                                                            const char* name);

enum {
  EPIFUSE_DEVICE_NONE = -1,   /* compile, and load onto no GPU */
  EPIFUSE_DEVICE_CURRENT = -2 /* that of the thread's current CUDA context, else GPU 0 */
};

/* Loads onto this GPU every kernel of the bundles that is for it, and every kernel that this engine has compiled or
 * taken from the cache, so that nothing is loaded later: loading may wait for the GPU, and so hang beside a
 * communication kernel that waits for this process, and it breaks a capture. *count (may be NULL): how many. One that
 * cannot be loaded is an error, and so is there being none. */
EPIFUSE_API epifuse_status epifuse_engine_prepare(epifuse_engine* engine, int32_t device, size_t* count);
/* From here on a kernel that would have to be compiled, or is not loaded onto its GPU, is an error
 * (EPIFUSE_ERROR_MACHINE) that names it, and no bundle is added. */
EPIFUSE_API epifuse_status epifuse_engine_seal(epifuse_engine* engine);

/* How often the engine has called the CUDA compiler: 0 where every kernel was found in the cache. */
EPIFUSE_API int64_t epifuse_engine_toolchain_calls(const epifuse_engine* engine);

typedef struct epifuse_dim {
  const char* name;
  int64_t value;
} epifuse_dim;

typedef struct epifuse_kernel_options {
  size_t size;
  const char* spec_path;   /* a file, or the name of spec_text for messages */
  const char* spec_text;   /* the spec itself; NULL: read spec_path */
  const char* kernel;      /* NULL: the only one of the spec */
  const epifuse_dim* dims; /* they win over the defaults of the spec */
  size_t dim_count;
  const char* const* left_out; /* optional inputs and outputs that will not be bound */
  size_t left_out_count;
  const char* schedule; /* "pingpong 128x192"; NULL: the planner's choice */
  const char* target;   /* "sm_90a"; NULL: the device's, or sm_90a without one */
  int32_t device;       /* ordinal, EPIFUSE_DEVICE_NONE or EPIFUSE_DEVICE_CURRENT */
  /* 1: each operation of the kernel as a kernel of its own, with f32 tensors between them in the workspace: slow, and
   * what to compare with or to fall back on. It is bound and launched as the fused kernel is, and takes no schedule. */
  int32_t unfused;
} epifuse_kernel_options;

/* Finds the kernel in the cache or compiles it, and loads it. */
EPIFUSE_API epifuse_status epifuse_kernel_load(epifuse_engine* engine, const epifuse_kernel_options* options,
                                               epifuse_kernel** kernel);
EPIFUSE_API void epifuse_kernel_destroy(epifuse_kernel* kernel); /* NULL is allowed */

/* JSON: kernel, target, key, compiled, from ("memory", "disk", "toolchain", "bundle"), toolchain_calls (of this load),
 * ms, dims, schedule, registers, spill_bytes, wgmma_serialized, workspace_bytes (a number; or a text over sizes that
 * only a call has, see epifuse_workspace_bytes), refused ([{schedule, reason}]), warnings; of an unfused kernel kernel,
 * target, unfused, compiled, toolchain_calls, ms, dims, workspace_bytes (null: only epifuse_workspace_bytes has it),
 * stages ([{kernel, key, from, registers, spill_bytes}]). Lives as long as the kernel. */
EPIFUSE_API const char* epifuse_kernel_info(const epifuse_kernel* kernel);

typedef struct epifuse_buffer_info {
  size_t size;
  const char* name;    /* "y", "y.scale", "M.ends" */
  const char* storage; /* "bf16", "e4m3", "e8m0", "i32", … */
  const char* role;    /* "input", "output", "group_sizes" */
  int32_t rank;
  int32_t alignment;          /* bytes, of the pointer and of strides */
  const char* const* extents; /* rank texts over the names of dimensions: "M", "I * 2", "ceil_div(I, 128)"; their
                                 grammar is in deploy/epifuse_runtime.h */
  int32_t strided;            /* 1: axes but the last may have any stride; 0: must be contiguous */
  /* 0: one buffer. p > 0 (`bf16[E][N, K]` in the spec has 1): as many buffers as the first p extents have indices,
   * given as an array of pointers; alignment and strided are then those of each buffer, over the other extents. */
  int32_t pointer_axes;
} epifuse_buffer_info;

/* What must be bound. Strings live as long as the kernel; info->size must be set. */
EPIFUSE_API size_t epifuse_kernel_buffer_count(const epifuse_kernel* kernel);
EPIFUSE_API epifuse_status epifuse_kernel_buffer(const epifuse_kernel* kernel, size_t index, epifuse_buffer_info* info);

/* A buffer with pointer axes is given by the address of an array in device memory, aligned to 8 bytes, of 8-byte device
 * pointers: one for each index of the pointer axes, row-major, to a buffer of the other extents. All buffers have the
 * same strides. The array is read by each launch; the pointers in it are checked by nobody: each must be a multiple of
 * the alignment, and one whose buffer is never used may be NULL. */
typedef struct epifuse_tensor {
  size_t size;
  const char* name;
  void* pointer;       /* device memory; NULL only for a tensor without elements */
  const char* storage; /* of the elements; compared with the kernel's; NULL: taken on trust */
  int32_t rank;
  const int64_t* extents; /* elements, memory order; all of them, the pointer axes too: {E, N, K} */
  const int64_t* strides; /* elements, rank of them, those of pointer axes without meaning; NULL: contiguous */
} epifuse_tensor;

typedef struct epifuse_param {
  const char* name;
  double value;
} epifuse_param;

typedef struct epifuse_arguments {
  size_t size;
  const epifuse_tensor* tensors; /* one for each buffer, in any order */
  size_t tensor_count;
  const epifuse_param* params; /* those with a default may be missing */
  size_t param_count;
  void* workspace;         /* device memory, a multiple of 256, of any contents; serves one launch in flight */
  int64_t workspace_bytes; /* what it has: at least what epifuse_workspace_bytes says */
} epifuse_arguments;

/* Bytes of workspace that a call of these sizes needs; 0: none. Looks at no pointer. */
EPIFUSE_API epifuse_status epifuse_workspace_bytes(const epifuse_kernel* kernel, const epifuse_arguments* arguments,
                                                   int64_t* bytes);
/* Checks everything that the host can check, and prepares the launch. Buffers must outlive their last launch. */
EPIFUSE_API epifuse_status epifuse_bind(const epifuse_kernel* kernel, const epifuse_arguments* arguments,
                                        epifuse_call** call);
EPIFUSE_API void epifuse_call_destroy(epifuse_call* call); /* NULL is allowed */
/* Other buffers for a call, at a fraction of what a bind costs: the sizes, strides, dims and params stay. pointers has
 * one for each buffer, in the order of epifuse_kernel_buffer; the workspace is as large as the one that was bound.
 * Launches that are enqueued already keep their buffers; none may be enqueued at the same time. Null pointers,
 * alignment and overlaps are checked, and that the memory is this GPU's is not. After an error the call is what it was.
 * An unfused kernel cannot be rebound. */
EPIFUSE_API epifuse_status epifuse_rebind(epifuse_call* call, void* const* pointers, size_t pointer_count,
                                          void* workspace);

/* Enqueues the kernel on a CUstream (cudaStream_t) of its GPU and returns; it can be captured. sm_margin
 * multiprocessors are left to others. */
EPIFUSE_API epifuse_status epifuse_launch(const epifuse_call* call, void* stream, int32_t sm_margin);

typedef struct epifuse_launch_options {
  size_t size;
  int32_t sm_margin;
  /* 1: the kernel may start while what is before it in the stream still runs (programmatic dependent launch), and waits
   * itself before it touches memory. A kernel before it that lets it start early (every kernel of Epifuse does) must
   * have waited for what is before that one. Without effect where the driver cannot. */
  int32_t overlap_previous;
} epifuse_launch_options;

/* The same with more to say; options may be NULL. */
EPIFUSE_API epifuse_status epifuse_launch_with(const epifuse_call* call, void* stream,
                                               const epifuse_launch_options* options);
/* Waits for the stream; an error names this kernel. */
EPIFUSE_API epifuse_status epifuse_synchronize(const epifuse_call* call, void* stream);
/* Waits for the stream and checks the group sizes on the device: monotone, and not past the capacity. For debugging. */
EPIFUSE_API epifuse_status epifuse_check_group_sizes(const epifuse_call* call, void* stream);

#ifdef __cplusplus
}
#endif

#endif
