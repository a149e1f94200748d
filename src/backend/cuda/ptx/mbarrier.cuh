/* A slot of a ring in shared memory: a barrier that one bulk copy at a time ends a phase of.
 * Kernels with rings are compiled for other GPUs, too, where these do nothing and nothing calls
 * them. */
#ifndef LN_BACKEND_CUDA_PTX_MBARRIER_CUH
#define LN_BACKEND_CUDA_PTX_MBARRIER_CUH

#include "backend/cuda/ptx/wgmma.cuh"

/* What createpolicy.fractional.L2::evict_first makes. */
#define LN_RING_EVICT_FIRST 0x12f0000000000000ull

static __device__ __forceinline__ void ln_stage_init_for(uint64_t *barrier, unsigned arrivals) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_init(barrier, arrivals);
    ln_fence_mbarrier_init();
#endif
}

static __device__ __forceinline__ void ln_stage_init(uint64_t *barrier) {
    ln_stage_init_for(barrier, 1);
}

/* For barriers that threads end phases of. */
static __device__ __forceinline__ void ln_stage_arrive(uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_arrive(barrier);
#endif
}

/* Queues the copy of `bytes`, a multiple of 16, after which the barrier's phase ends. What comes
 * once in a step makes room in the L2 cache first, so that norms, the KV cache and rows of x stay
 * there. */
static __device__ __forceinline__ void ln_stage_fetch(void *to, const void *from, unsigned bytes,
                                                     uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_expect_tx(barrier, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(ln_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ln_shared_address(barrier)), "l"(LN_RING_EVICT_FIRST)
                 : "memory");
#endif
}

static __device__ __forceinline__ void ln_stage_wait(uint64_t *barrier, unsigned parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_wait(barrier, parity);
#endif
}

#endif
