/* Where compressed entries of a sequence lie in the cache: those of ln_op_compress. */
#ifndef LN_BACKEND_CUDA_OPS_ENTRIES_CUH
#define LN_BACKEND_CUDA_OPS_ENTRIES_CUH

#include "backend/cuda/ops.h"

/* ln_kv_entry_row, on the device. */
static __device__ __forceinline__ size_t ln_entry_row(const ln_kv_layer &kv, const int32_t *table,
                                                      size_t entry) {
    unsigned tokens = (unsigned)kv.entry_tokens, per_block = (unsigned)kv.table_tokens;
    unsigned last = ((unsigned)entry + 1) * tokens - 1;
    return (size_t)table[last / per_block] * kv.block_tokens + last % per_block / tokens;
}

/* The row of a token's only head, or of an entry, by its number. */
static __device__ __forceinline__ size_t ln_single_row(const ln_kv_layer &kv, const int32_t *table,
                                                       size_t number) {
    if (kv.entry_tokens > 0)
        return ln_entry_row(kv, table, number);
    unsigned block_tokens = (unsigned)kv.block_tokens;
    return (size_t)table[(unsigned)number / block_tokens] * block_tokens +
           (unsigned)number % block_tokens;
}

/* Positions, or complete entries, that the token at `position` sees. */
static __device__ __forceinline__ size_t ln_count_keys(const ln_kv_layer &kv, size_t position) {
    return kv.entry_tokens > 0 ? (position + 1) / kv.entry_tokens : position + 1;
}

#endif
