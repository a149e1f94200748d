/* The number of SMs of the current device: what launches divide work among. */
#ifndef LN_BACKEND_CUDA_RUNTIME_SM_COUNT_CUH
#define LN_BACKEND_CUDA_RUNTIME_SM_COUNT_CUH

#include <cuda_runtime.h>

/* 0, or the runtime's error. */
static inline int ln_count_sms(unsigned *n) {
    int device, n_cores = 0, code = cudaGetDevice(&device);
    if (code == 0)
        code = cudaDeviceGetAttribute(&n_cores, cudaDevAttrMultiProcessorCount, device);
    *n = (unsigned)n_cores;
    return code;
}

#endif
