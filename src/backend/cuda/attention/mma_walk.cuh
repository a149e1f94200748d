/* Which keys a block of the mma kernels walks through: those of a KV split of a decode sequence, or
 * all that a tile of query rows sees. */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_WALK_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_WALK_CUH

#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/attention/scores.cuh"

/* A KV split of a KV head of a decode sequence: tiles from key `first` to key `stop`. */
typedef struct ln_kv_split {
    unsigned seq, kv_head, number, first, stop;
    size_t token, position, begin, end; /* begin, end: keys that the token sees */
} ln_kv_split;

/* Fills in what follows from seq, kv_head and number. False: the sequence has several tokens, or
 * sees nothing of the split. */
static __device__ __forceinline__ bool ln_find_kv_split(const ln_mma_attention_args &p,
                                                        ln_kv_split &at) {
    at.token = (size_t)p.a.seq_starts[at.seq];
    if (p.a.seq_starts[at.seq + 1] - (int32_t)at.token != 1)
        return false;
    at.position = (size_t)p.a.positions[at.token];
    ln_key_range(p.a, at.seq, at.position, &at.begin, &at.end);
    unsigned begin = at.number * LN_KV_SPLIT, end = begin + LN_KV_SPLIT;
    if (begin >= at.end || end <= at.begin)
        return false;
    at.first = begin > at.begin ? begin : (unsigned)at.begin / LN_KV_TILE * LN_KV_TILE;
    at.stop = end < at.end ? end : (unsigned)at.end;
    return true;
}

/* Whether earlier steps cached the split's first tile, which may then be read before the PDL wait.
 */
static __device__ __forceinline__ bool ln_is_tile_cached(const ln_mma_attention_args &p,
                                                         const ln_kv_split &at) {
    return p.reads_past_only && !p.a.sees_all && at.first + LN_KV_TILE <= at.position;
}

/* The keys [low, high) that any of the query rows first_row .. last_row of a sequence sees. */
static __device__ __forceinline__ void ln_find_walk(const ln_mma_attention_args &p, size_t seq,
                                                    unsigned first_row, unsigned last_row,
                                                    size_t *low, size_t *high) {
    size_t token0 = (size_t)p.a.seq_starts[seq], end, begin;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], low, &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &begin, high);
}

#endif
