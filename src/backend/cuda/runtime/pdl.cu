/* Which of this library's code a device runs. It is asked at every launch, so the answer is kept:
 * it stays the same for the life of the process. */
#include "backend/cuda/runtime/pdl.cuh"

#include "backend/cuda/runtime/device.h"

enum { THREADS_OF_ANY = 32, THREADS_OF_HOPPER = 64, MAX_DEVICES = 64 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
enum { THREADS = THREADS_OF_HOPPER };
#else
enum { THREADS = THREADS_OF_ANY };
#endif

/* Its launch bounds tell which code was loaded. */
static __global__ void __launch_bounds__(THREADS) which_code(void) {}

bool ln_has_sm90a_code(void) {
    enum { UNKNOWN, NO, YES };
    static signed char known[MAX_DEVICES];
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES)
        return false;
    int is = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (is == UNKNOWN) {
        cudaFuncAttributes code;
        if (cudaFuncGetAttributes(&code, which_code) != cudaSuccess) {
            (void)cudaGetLastError(); /* the next launch has nothing to do with it */
            return false;
        }
        is = code.maxThreadsPerBlock == THREADS_OF_HOPPER ? YES : NO;
        __atomic_store_n(&known[device], (signed char)is, __ATOMIC_RELAXED);
    }
    return is == YES;
}

bool ln_cuda_has_sm90a_code(void) {
    return ln_has_sm90a_code();
}
