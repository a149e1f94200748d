/* Bulk copies from shared to global memory (sm_90). The thread that issues them waits for them. */
#ifndef LN_BACKEND_CUDA_PTX_BULK_STORE_CUH
#define LN_BACKEND_CUDA_PTX_BULK_STORE_CUH

#include <cuda.h>

#include "backend/cuda/ptx/shared_address.cuh"

/* fence.proxy.async: what this thread has stored to shared memory is seen by bulk copies and WGMMA.
 */
static __device__ __forceinline__ void ln_fence_proxy_async(void) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* cp.async.bulk: `bytes`, a multiple of 16, as a group of its own. */
static __device__ __forceinline__ void ln_bulk_store(void *to, const void *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"(ln_shared_address(from)), "r"(bytes)
                 : "memory");
}

/* cp.async.bulk.tensor: to the box at these coordinates, as a group of its own. */
static __device__ __forceinline__ void ln_tma_store(const CUtensorMap *map, int column, int row,
                                                    const void *from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(column), "r"(row), "r"(ln_shared_address(from))
                 : "memory");
}

/* cp.reduce.async.bulk.tensor.add: adds to the box at these coordinates, as a group of its own.
 * Sums are rounded to nearest; subnormal numbers may be taken for zeros (an H200 keeps them). */
static __device__ __forceinline__ void ln_tma_add(const CUtensorMap *map, int column, int row,
                                                  const void *from) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];\n"
        "cp.async.bulk.commit_group;" ::"l"(map),
        "r"(column), "r"(row), "r"(ln_shared_address(from))
        : "memory");
}

/* cp.async.bulk.wait_group.read: until all but N of this thread's copies have read shared memory.
 */
template <int N> static __device__ __forceinline__ void ln_bulk_store_wait_read(void) {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* cp.async.bulk.wait_group: until they have been written. */
static __device__ __forceinline__ void ln_bulk_store_wait(void) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#endif
