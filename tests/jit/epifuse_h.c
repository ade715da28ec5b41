/* jit/epifuse.h is C: this file is compiled by a C compiler, and with every warning as an error. */
#include "jit/epifuse.h"

int epifuse_header_is_c(void);
int epifuse_header_is_c(void) {
  epifuse_kernel_options options = {sizeof options, "a.epi", 0, 0, 0, 0, 0, 0, 0, 0, EPIFUSE_DEVICE_NONE};
  return options.device == EPIFUSE_DEVICE_NONE ? EPIFUSE_OK : EPIFUSE_ERROR_USAGE;
}
