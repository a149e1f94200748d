/* What attention kernels take: ln_attention_args for all of them, ln_mma_attention_args for those
 * on tensor cores. */
#ifndef LN_BACKEND_CUDA_ATTENTION_ARGS_CUH
#define LN_BACKEND_CUDA_ATTENTION_ARGS_CUH

#include "backend/cuda/attention/select.h"
#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/ptx/reduce.cuh"

/* Shapes: q and out [n_tokens][n_heads][head dim]. Pointers are device memory of the step. */
typedef struct ln_attention_args {
    const float *q;
    ln_kv_layer kv;
    ln_kv_array keys, values;
    size_t n_heads;
    float scale, softcap;
    size_t window, chunk;
    const float *alibi_slopes, *sinks; /* [n_heads], or NULL */
    ln_relative_bias relative;
    float relative_growth;  /* log(max distance / exact buckets) */
    bool sees_all;          /* no causal mask */
    bool q_is_narrow;       /* 16 bits as in the cache begin where a head's float32 would */
    const int32_t *indices; /* [n_tokens][top_k] the positions that count as 0, 1 .., or NULL */
    size_t top_k;
    float *out;
    const int32_t *block_tables, *lengths, *positions, *token_seqs, *seq_starts;
    size_t max_blocks; /* of a row of block_tables */
} ln_attention_args;

/* A KV split is split_keys key positions, at absolute multiples of it: LN_KV_SPLIT, of
 * latent attention LN_MLA_SPLIT. */
typedef struct ln_mma_attention_args {
    ln_attention_args a;
    unsigned heads_per_kv, n_splits; /* n_splits: KV splits that the block tables have room for */
    unsigned split_keys;
    unsigned block_shift;     /* a cache block has 1 << block_shift tokens */
    bool uses_split_kv;       /* sequences of one token are the decode kernels' */
    bool reads_past_only;     /* the step writes no cache row that another token of it reads */
    float *partial_out;       /* [n_seqs][n_heads][n_splits][D], not normalised */
    float2 *partial_stats;    /* [n_seqs][n_heads][n_splits] running max, row sum */
    unsigned *arrival_counts; /* [LN_ATTENTION_COUNTERS] 0 between kernels */
} ln_mma_attention_args;

/* Whether scores need no more than scale and mask. */
static __host__ __device__ __forceinline__ bool ln_has_plain_scores(const ln_attention_args &p) {
    return p.softcap <= 0.0f && p.alibi_slopes == NULL && p.relative.table == NULL;
}

ln_attention_args ln_make_attention_args(const ln_op_attention *p, const ln_cuda_step *step);

/* step->scratch has ln_cuda_attention_bytes. */
ln_mma_attention_args ln_make_mma_attention_args(const ln_attention_args *a,
                                                 const ln_cuda_step *step);

#endif
