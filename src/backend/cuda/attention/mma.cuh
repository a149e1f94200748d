/* What the kernels of fast attention share: their arguments, the rows of a lane, the start of a
 * row's sums. */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_CUH

#include "backend/cuda/attention/mma_tile.cuh"

/* What the kernels need beside the operation. */
typedef struct ln_mma_attention_args {
    ln_attention_args a;
    unsigned heads_per_kv, n_splits; /* n_splits: that the block tables can hold */
    unsigned block_shift;            /* a block has 1 << block_shift tokens */
    bool uses_split_kv;                     /* sequences of one token are the split kernel's */
    bool reads_past_only; /* of the rows they read, this step writes none but their own */
    float *sums;    /* [n_seqs][n_heads][n_splits][D] */
    float2 *stats;  /* [n_seqs][n_heads][n_splits] reference, total */
    unsigned *left; /* [LN_ATTENTION_COUNTERS] 0 between kernels */
} ln_mma_attention_args;

/* What is there before the first slice. */
static __device__ __forceinline__ void ln_merge_init(const ln_mma_attention_args &p, size_t head,
                                                      float *reference, float *total) {
    *reference = p.a.sinks != NULL ? p.a.sinks[head] * 1.44269504088896340736f : -INFINITY;
    *total = p.a.sinks != NULL ? 1.0f : 0.0f;
}

/* The rows of this lane, of which some may not be there: [begin, end) is empty for these. */
static __device__ __forceinline__ void ln_find_query_rows(const ln_mma_attention_args &p, size_t seq,
                                                    size_t kv_head, unsigned first_row,
                                                    unsigned n_rows, ln_query_rows *rows,
                                                    size_t items[2]) {
    size_t first_token = (size_t)p.a.seq_starts[seq];
    for (int i = 0; i < 2; i++) {
        unsigned row = first_row + threadIdx.x % LN_WARP / 4 + 8 * i;
        bool is_there = row < n_rows;
        row = is_there ? row : n_rows - 1;
        size_t token = first_token + row / p.heads_per_kv;
        rows->head[i] = kv_head * p.heads_per_kv + row % p.heads_per_kv;
        rows->position[i] = (size_t)p.a.positions[token];
        ln_key_range(p.a, seq, rows->position[i], &rows->begin[i], &rows->end[i]);
        items[i] = token * p.a.n_heads + rows->head[i];
        if (!is_there) {
            rows->begin[i] = rows->end[i] = 0;
            items[i] = SIZE_MAX;
        }
    }
}

static __device__ __forceinline__ ln_kv_tile_source ln_make_kv_tile_source(const ln_mma_attention_args &p, size_t seq,
                                                                size_t kv_head, size_t low,
                                                                size_t high, unsigned thread,
                                                                unsigned n_threads) {
    ln_kv_tile_source from;
    from.table = p.a.block_tables + seq * p.a.max_blocks;
    from.kv_head = (unsigned)kv_head;
    from.n_heads = (unsigned)p.a.kv.n_heads;
    from.block_shift = p.block_shift;
    from.low = (unsigned)low;
    from.high = (unsigned)high;
    from.thread = thread;
    from.n_threads = n_threads;
    return from;
}

/* Merges the slices of a head's row in order: element d of the result. */
template <int D>
static __device__ __forceinline__ float ln_merge_splits(const ln_mma_attention_args &p, size_t seq,
                                                        size_t token, size_t head, unsigned d) {
    size_t begin, end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token], &begin, &end);
    float reference, total, whole = 0.0f;
    ln_merge_init(p, head, &reference, &total);
    unsigned last = (unsigned)(end - 1) / LN_ATTENTION_SLICE;
#pragma unroll 4
    for (unsigned s = (unsigned)begin / LN_ATTENTION_SLICE; s <= last; s++) {
        size_t at = (seq * p.a.n_heads + head) * p.n_splits + s;
        float2 stats = p.stats[at];
        float sum = p.sums[at * D + d], keep, add;
        ln_merge_scales(&reference, stats.x, &keep, &add);
        total = ln_merge(total, keep, stats.y, add);
        whole = ln_merge(whole, keep, sum, add);
    }
    return whole * ln_normalizer(total);
}

/* args->uses_split_kv: whether sequences of one token can be split over their slices. */
ln_mma_attention_args ln_make_mma_attention_args(const ln_attention_args *a, const ln_cuda_step *step);

/* Decode on Hopper in blocks that stay (sm90_decode_q8.cu), with the bits of the kernel for every
 * GPU; `to` as in ln_mma_attention. */
bool ln_takes_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step);
int ln_attention_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step,
                        const ln_act_view *to, cudaStream_t stream);

/* Prefill on Hopper's tensor cores (sm90_prefill.cu), with the bits of the kernel for every GPU.
 */
bool ln_takes_sm90_prefill(const ln_mma_attention_args *args);
int ln_attention_sm90_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                      cudaStream_t stream);

#endif
