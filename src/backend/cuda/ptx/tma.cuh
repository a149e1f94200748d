/* TMA: tensor maps (host) and bulk copies of tensor boxes to shared memory (device, sm_90). */
#ifndef LN_BACKEND_CUDA_PTX_TMA_CUH
#define LN_BACKEND_CUDA_PTX_TMA_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include "backend/cuda/ptx/evict_first.cuh"
#include "backend/cuda/ptx/shared_address.cuh"

typedef struct ln_tensor {
    void *data;
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle; /* of a box in shared memory */
    unsigned n_dims;            /* 2 to 4 */
    cuuint64_t dims[4];         /* elements, the innermost first */
    cuuint64_t strides[3];      /* bytes from one index of dimension 1, 2, 3 to the next */
    cuuint32_t box[4];          /* elements */
} ln_tensor;

/* cuTensorMapEncodeTiled. 0, or an error code. */
int ln_tensor_map(const ln_tensor *tensor, CUtensorMap *map);

/* Fetches a tensor map, which takes as long as a read of memory, before the first copy needs it. */
static __device__ __forceinline__ void ln_tma_prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* cp.async.bulk: `bytes`, a multiple of 16, from global to shared memory; completes on the barrier.
 */
static __device__ __forceinline__ void ln_cp_async_bulk(void *to, const void *from, unsigned bytes,
                                                        uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(ln_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ln_shared_address(barrier))
                 : "memory");
}

/* cp.async.bulk.tensor: the box at these coordinates to shared memory; completes on the barrier. */
static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(ln_shared_address(barrier))
                 : "memory");
}

static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, int layer, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(layer), "r"(ln_shared_address(barrier))
                 : "memory");
}

/* The same to this place of all CTAs of the cluster in the mask `ctas`; completes on the barrier of
 * each. */
static __device__ __forceinline__ void ln_tma_multicast(void *to, const CUtensorMap *map,
                                                        int column, int row, uint64_t *barrier,
                                                        unsigned short ctas) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(ln_shared_address(barrier)), "h"(ctas)
                 : "memory");
}

/* The same with the policy evict_first. */
static __device__ __forceinline__ void ln_tma_load_evict_first(void *to, const CUtensorMap *map,
                                                               int column, int row, int layer,
                                                               uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(layer), "r"(ln_shared_address(barrier)),
                 "l"(LN_L2_EVICT_FIRST)
                 : "memory");
}

static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, int layer, int group,
                                                   uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(layer), "r"(group),
                 "r"(ln_shared_address(barrier))
                 : "memory");
}

#endif
