/* Copies to shared memory that a thread waits for by itself. */
#ifndef LN_BACKEND_CUDA_PTX_CP_ASYNC_CUH
#define LN_BACKEND_CUDA_PTX_CP_ASYNC_CUH

#include "backend/cuda/ptx/common.cuh"

static __device__ __forceinline__ void ln_cp_async_16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ln_shared_address(shared)),
                 "l"(global));
}

static __device__ __forceinline__ void ln_cp_async_4(void *shared, const void *global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(ln_shared_address(shared)),
                 "l"(global));
}

static __device__ __forceinline__ void ln_cp_async_commit(void) {
    asm volatile("cp.async.commit_group;");
}

/* Waits until at most N groups are under way. */
template <int N> static __device__ __forceinline__ void ln_cp_async_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
