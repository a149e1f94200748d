/* setmaxnreg: moves registers between a CTA's warpgroups; all warps of a warpgroup call. */
#ifndef LN_BACKEND_CUDA_PTX_SETMAXNREG_CUH
#define LN_BACKEND_CUDA_PTX_SETMAXNREG_CUH

#include <cuda_runtime.h>

template <int N> static __device__ __forceinline__ void ln_setmaxnreg_inc(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void ln_setmaxnreg_dec(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#endif
