/* cp.async: copies from global to shared memory that the issuing thread waits for. */
#ifndef LN_BACKEND_CUDA_PTX_CP_ASYNC_CUH
#define LN_BACKEND_CUDA_PTX_CP_ASYNC_CUH

#include "backend/cuda/ptx/shared_address.cuh"

/* cp.async.cg: 16 bytes, cached in L2 alone. */
static __device__ __forceinline__ void ln_cp_async_16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ln_shared_address(shared)),
                 "l"(global));
}

/* cp.async.ca: 4 bytes. */
static __device__ __forceinline__ void ln_cp_async_4(void *shared, const void *global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(ln_shared_address(shared)),
                 "l"(global));
}

/* cp.async.commit_group */
static __device__ __forceinline__ void ln_cp_async_commit(void) {
    asm volatile("cp.async.commit_group;");
}

/* cp.async.wait_group: until at most N of this thread's groups are pending. */
template <int N> static __device__ __forceinline__ void ln_cp_async_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
