/* How much shared memory a block may have on the current device: what launches size pipelines by.
 */
#ifndef LN_BACKEND_CUDA_RUNTIME_SHARED_BYTES_CUH
#define LN_BACKEND_CUDA_RUNTIME_SHARED_BYTES_CUH

#include <cuda_runtime.h>

/* Dynamic and static shared memory together. 0, or the runtime's error. */
static inline int ln_max_shared_bytes(unsigned *bytes) {
    int device, n = 0, code = cudaGetDevice(&device);
    if (code == 0)
        code = cudaDeviceGetAttribute(&n, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    *bytes = (unsigned)n;
    return code;
}

#endif
