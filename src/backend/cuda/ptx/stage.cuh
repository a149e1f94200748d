/* A stage of a pipeline: an mbarrier whose phase one bulk copy at a time completes. Kernels with
 * such pipelines are compiled for every GPU; before sm_90 the bodies are empty, and nothing calls
 * them. */
#ifndef LN_BACKEND_CUDA_PTX_STAGE_CUH
#define LN_BACKEND_CUDA_PTX_STAGE_CUH

#include "backend/cuda/ptx/evict_first.cuh"
#include "backend/cuda/ptx/mbarrier.cuh"

static __device__ __forceinline__ void ln_stage_init_for(uint64_t *barrier, unsigned arrivals) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_init(barrier, arrivals);
    ln_fence_mbarrier_init();
#endif
}

static __device__ __forceinline__ void ln_stage_init(uint64_t *barrier) {
    ln_stage_init_for(barrier, 1);
}

/* For barriers whose phases threads complete. */
static __device__ __forceinline__ void ln_stage_arrive(uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_arrive(barrier);
#endif
}

/* cp.async.bulk with the policy evict_first: `bytes`, a multiple of 16, whose arrival completes the
 * barrier's phase. */
static __device__ __forceinline__ void ln_stage_fetch(void *to, const void *from, unsigned bytes,
                                                      uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_expect_tx(barrier, bytes);
    ln_cp_async_bulk_evict_first(to, from, bytes, barrier);
#endif
}

static __device__ __forceinline__ void ln_stage_wait(uint64_t *barrier, unsigned parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_mbarrier_wait(barrier, parity);
#endif
}

#endif
