/* Rows of 16-bit caches for TMA. */
#ifndef LN_BACKEND_CUDA_ATTENTION_KV_TENSOR_MAP_CUH
#define LN_BACKEND_CUDA_ATTENTION_KV_TENSOR_MAP_CUH

#include "backend/cuda/attention/swizzle.cuh"
#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/ptx/tma.cuh"

/* The cache's rows, of all blocks and heads, in boxes of box_rows rows and LN_SWIZZLE_COLS columns.
 * 0, or an error code. */
int ln_kv_tensor_map(const ln_kv_array *array, unsigned box_rows, CUtensorMap *map);

#endif
