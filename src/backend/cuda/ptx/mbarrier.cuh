/* mbarrier: transaction barriers in shared memory. For sm_90 and later. */
#ifndef LN_BACKEND_CUDA_PTX_MBARRIER_CUH
#define LN_BACKEND_CUDA_PTX_MBARRIER_CUH

#include "backend/cuda/ptx/shared_address.cuh"

/* mbarrier.init: a phase completes after so many arrivals. */
static __device__ __forceinline__ void ln_mbarrier_init(uint64_t *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ln_shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* fence.mbarrier_init: makes initialised barriers visible to the async proxy (TMA). */
static __device__ __forceinline__ void ln_fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* mbarrier.arrive */
static __device__ __forceinline__ void ln_mbarrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ln_shared_address(barrier))
                 : "memory");
}

/* mbarrier.arrive on the barrier in the same place of CTA `cta` of the cluster. Without `.release
 * .cluster`, which would be a fence for the whole GPU: it orders what this CTA has read by then. */
static __device__ __forceinline__ void ln_mbarrier_arrive_at(uint64_t *barrier, unsigned cta) {
    asm volatile("{\n"
                 ".reg .b32 at;\n"
                 "mapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n"
                 "}" ::"r"(ln_shared_address(barrier)),
                 "r"(cta)
                 : "memory");
}

/* mbarrier.arrive.expect_tx: arrives, and adds `bytes` to the pending transaction count. */
static __device__ __forceinline__ void ln_mbarrier_expect_tx(uint64_t *barrier, unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ln_shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/* mbarrier.test_wait.parity: whether the phase of this parity has completed. */
static __device__ __forceinline__ bool ln_mbarrier_test(uint64_t *barrier, unsigned parity) {
    unsigned is_done;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, done;\n"
                 "}"
                 : "=r"(is_done)
                 : "r"(ln_shared_address(barrier)), "r"(parity)
                 : "memory");
    return is_done != 0;
}

/* mbarrier.try_wait.parity, until the phase of this parity has completed. */
static __device__ __forceinline__ void ln_mbarrier_wait(uint64_t *barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(ln_shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

#endif
