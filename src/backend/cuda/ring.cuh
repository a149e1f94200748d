/* A slot of a ring in shared memory: a barrier that one bulk copy at a time ends a phase of.
 * Kernels with rings are compiled for other GPUs, too, where these do nothing and nothing calls
 * them. */
#ifndef LN_BACKEND_CUDA_RING_CUH
#define LN_BACKEND_CUDA_RING_CUH

#include "backend/cuda/wgmma.cuh"

static __device__ __forceinline__ void ln_ring_init(uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_barrier_init(barrier, 1);
    ln_barriers_ready();
#endif
}

/* Queues the copy of `bytes`, a multiple of 16, after which the barrier's phase ends. */
static __device__ __forceinline__ void ln_ring_fetch(void *to, const void *from, unsigned bytes,
                                                     uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_barrier_expect(barrier, bytes);
    ln_bulk_copy(to, from, bytes, barrier);
#endif
}

static __device__ __forceinline__ void ln_ring_wait(uint64_t *barrier, unsigned parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    ln_barrier_wait(barrier, parity);
#endif
}

#endif
