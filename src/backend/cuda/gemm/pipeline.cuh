/* A ring of stages in shared memory between producer and consumer warps: `full` completes a phase
 * when a stage's copies have arrived, `empty` when all consumer warps have released it. */
#ifndef LN_BACKEND_CUDA_GEMM_PIPELINE_CUH
#define LN_BACKEND_CUDA_GEMM_PIPELINE_CUH

#include "backend/cuda/ptx/mbarrier.cuh"

template <unsigned MAX_STAGES> struct ln_pipeline { uint64_t full[MAX_STAGES], empty[MAX_STAGES]; };

/* A place in the ring. The producer begins with phase 1, as all stages are empty, consumers with 0.
 */
typedef struct ln_pipeline_stage {
    unsigned index, phase;
} ln_pipeline_stage;

static __device__ __forceinline__ void ln_pipeline_advance(ln_pipeline_stage &at,
                                                           unsigned n_stages) {
    if (++at.index == n_stages)
        at.index = 0, at.phase ^= 1;
}

/* By one thread, which issues ln_fence_mbarrier_init after the last. */
template <unsigned MAX_STAGES>
static __device__ __forceinline__ void ln_pipeline_init_stage(ln_pipeline<MAX_STAGES> &pipeline,
                                                              unsigned i, unsigned n_consumers) {
    ln_mbarrier_init(&pipeline.full[i], 1);
    ln_mbarrier_init(&pipeline.empty[i], n_consumers);
}

/* A consumer warp is done with a stage. */
static __device__ __forceinline__ void ln_pipeline_release(uint64_t *empty, unsigned lane) {
    if (lane == 0)
        ln_mbarrier_arrive(empty);
}

#endif
