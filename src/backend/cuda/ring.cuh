/* Barriers in shared memory and bulk copies that arrive there, for Hopper. */
#ifndef LN_BACKEND_CUDA_RING_CUH
#define LN_BACKEND_CUDA_RING_CUH

#include <cuda_runtime.h>

static __device__ __forceinline__ uint32_t ln_ring_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void ln_ring_init(uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;" ::"r"(ln_ring_address(barrier))
                 : "memory");
#endif
}

/* Queues the copy of `bytes`, a multiple of 16, after which the barrier's phase ends. */
static __device__ __forceinline__ void ln_ring_fetch(void *to, const void *from, unsigned bytes,
                                                     uint64_t *barrier) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ln_ring_address(barrier)),
        "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(ln_ring_address(to)),
                 "l"(from), "r"(bytes), "r"(ln_ring_address(barrier))
                 : "memory");
#endif
}

static __device__ __forceinline__ void ln_ring_wait(uint64_t *barrier, unsigned parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(ln_ring_address(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

#endif
