/* The L2 cache policy of what is read once in a step, weights above all: it leaves the cache before
 * activations, norms, the KV cache and the code of kernels do. */
#ifndef LN_BACKEND_CUDA_PTX_EVICT_FIRST_CUH
#define LN_BACKEND_CUDA_PTX_EVICT_FIRST_CUH

#include "backend/cuda/ptx/shared_address.cuh"

/* What createpolicy.fractional.L2::evict_first makes. */
#define LN_L2_EVICT_FIRST 0x12f0000000000000ull

/* 16 bytes that no kernel writes while this one runs. */
static __device__ __forceinline__ uint4 ln_load_evict_first(const uint4 *from) {
    uint4 four;
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
        : "l"(from), "l"(LN_L2_EVICT_FIRST));
    return four;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* cp.async.bulk: `bytes`, a multiple of 16, from global to shared memory; completes on the barrier.
 */
static __device__ __forceinline__ void
ln_cp_async_bulk_evict_first(void *to, const void *from, unsigned bytes, uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(ln_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ln_shared_address(barrier)), "l"(LN_L2_EVICT_FIRST)
                 : "memory");
}

#endif

#endif
