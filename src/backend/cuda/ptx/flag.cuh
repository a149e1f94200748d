/* Flags in global memory by which CTAs hand results to each other: ld.acquire and st.release at GPU
 * scope. What was written before the flag was set is visible once it is seen. */
#ifndef LN_BACKEND_CUDA_PTX_FLAG_CUH
#define LN_BACKEND_CUDA_PTX_FLAG_CUH

#include <cuda_runtime.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

static __device__ __forceinline__ unsigned ln_flag_load(const unsigned *flag) {
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
    return now;
}

static __device__ __forceinline__ void ln_flag_set(unsigned *flag) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}

#endif

#endif
