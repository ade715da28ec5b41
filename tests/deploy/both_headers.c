/* deploy/epifuse_runtime.h is C, stands beside jit/epifuse.h in one file, and its structs are those of that header
 * under other names. Compiled with every warning as an error. */
#include "deploy/epifuse_runtime.h"
#include "jit/epifuse.h"

#define SAME(ours, theirs) typedef char same_##ours[sizeof(ours) == sizeof(theirs) ? 1 : -1]
SAME(epifuse_runtime_dim, epifuse_dim);
SAME(epifuse_runtime_buffer_info, epifuse_buffer_info);
SAME(epifuse_runtime_tensor, epifuse_tensor);
SAME(epifuse_runtime_param, epifuse_param);
SAME(epifuse_runtime_arguments, epifuse_arguments);
SAME(epifuse_runtime_launch_options, epifuse_launch_options);

int epifuse_runtime_header_is_c(void);
int epifuse_runtime_header_is_c(void) {
  epifuse_runtime_kernel_options options = {sizeof options, "fc1", 0, 0, 0, 0, 0, 0, EPIFUSE_RUNTIME_DEVICE_NONE, 0};
  return options.device == (int)EPIFUSE_DEVICE_NONE && (int)EPIFUSE_RUNTIME_ERROR_WRONG == (int)EPIFUSE_ERROR_WRONG;
}
