/* Multi-head latent attention (MLA) on Hopper by WGMMA, prefill and decode: caches of f16 and bf16
 * with rows of 512 latent and 64 rotated elements, K all of them, V the latent; plain scores.
 *
 * A block computes 64 query rows (tokens times heads, which share the one K) over KV tiles of 64
 * keys. Warp roles: warpgroup 0 is the producer, one warp of it, by TMA; warpgroup 1 (scores)
 * computes S = Q K^T and the softmax, and O += P V of the first half of V's columns; warpgroup 2
 * (values) computes those of the second half, with P from shared memory. O of a row does not fit
 * one warpgroup's registers, hence the halves. The scores of the next tile are issued behind P V,
 * so that the tensor cores have work while this one's results are stored or merged.
 *
 * KV splits have LN_MLA_SPLIT keys and merge in order of positions. Where there are few
 * sequences, of one token each, block y computes splits y, y + gridDim.y .. and merge.cu follows.
 * Else a block computes all splits of its rows and merges them, with what it keeps in `out`. Both
 * ways give a row the same bits. What a split gives is relative to its running max rounded up to a
 * multiple of MAX_GRID, so nearly all splits of a row have the same, and merging them is a plain
 * sum, which L2 adds while the next split is computed; other factors are powers of two.
 *
 * Grid (tiles of rows, the last first, which see the most keys; shares of splits; sequences), block
 * 384. Shared memory: Q, two stages of a KV tile, P, swizzled in rows of 128 bytes; 226 KB. Bytes
 * moved: K once for every 64 rows. */
#include "backend/cuda/attention/sm90_mla.cuh"

#include "backend/cuda/attention/kv_tensor_map.cuh"
#include "backend/cuda/attention/merge.cuh"
#include "backend/cuda/attention/sm90_mla_rows.cuh"
#include "backend/cuda/ptx/setmaxnreg.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* ---- producer -------------------------------------------------------------------------------- */

/* A warp fetches all tiles. */
static __device__ __forceinline__ void produce(const ln_mma_attention_args &p, tile_walk w,
                                               size_t seq, unsigned kv_head, const CUtensorMap *map,
                                               unsigned box_rows, shared_memory *shared) {
    unsigned lane = threadIdx.x % LN_WARP, n_boxes = LN_KV_TILE / box_rows;
    const int32_t *table = p.a.block_tables + seq * p.a.max_blocks;
    for (unsigned n = 0; !is_done(w); step(&w), n++) {
        unsigned stage = n % STAGES;
        ln_mbarrier_wait(&shared->empty[stage], (n / STAGES & 1) ^ 1);
        if (lane == 0)
            ln_mbarrier_expect_tx(&shared->full[stage], TILE_BYTES);
        __syncwarp();
        for (unsigned i = lane; i < COL_TILES * n_boxes; i += LN_WARP) {
            unsigned col_tile = i / n_boxes, in_tile = i % n_boxes * box_rows;
            unsigned key = w.first + in_tile, there = min(max(key, w.low), w.high - 1);
            unsigned block = (unsigned)table[there >> p.block_shift];
            unsigned row = ((block * (unsigned)p.a.kv.n_heads + kv_head) << p.block_shift) +
                           (key & ((1u << p.block_shift) - 1));
            ln_tma_load(shared->tiles[stage] + col_tile * LN_SWIZZLE_TILE_BYTES +
                            in_tile * LN_SWIZZLE_COLS * 2,
                        map, (int)(col_tile * LN_SWIZZLE_COLS), (int)row, &shared->full[stage]);
        }
    }
}

/* ---- scores ---------------------------------------------------------------------------------- */

enum { MAX_GRID = 16 }; /* what a split's results are relative to is a multiple of it */

/* State of the rows of a lane: this KV split, and all before it merged. */
typedef struct softmax_rows {
    ln_softmax_state<8> split; /* its O is elsewhere */
    float merged_max[2], merged_sum[2];
} softmax_rows;

/* Sets keys of a tile that no row of the block sees to zero: cache memory there may hold NaNs. */
static __device__ __forceinline__ void zero_unseen(const tile_walk &w, char *tile) {
    if (w.first >= w.low && w.first + LN_KV_TILE <= w.high)
        return;
    for (unsigned at = threadIdx.x % WARPGROUP; at < LN_KV_TILE * (K_DIM / 8); at += WARPGROUP) {
        unsigned key = w.first + at / (K_DIM / 8);
        if (key < w.low || key >= w.high)
            *(uint4 *)(tile + swizzled(at / (K_DIM / 8), at % (K_DIM / 8))) =
                make_uint4(0, 0, 0, 0);
    }
    fence_proxy_async();
    barrier_sync<BARRIER_ZEROED, WARPGROUP>();
}

/* Issues S = Q K^T of tile number n. */
template <bool BF16>
static __device__ __forceinline__ void issue_qk(shared_memory *shared, const tile_walk &w,
                                                unsigned n, float s[LN_KV_TILE_N8][4]) {
    char *tile = shared->tiles[n % STAGES];
    ln_mbarrier_wait(&shared->full[n % STAGES], n / STAGES & 1);
    zero_unseen(w, tile);
    unsigned queries = ln_wgmma_desc_low(ln_shared_address(shared->queries), 16),
             keys = ln_wgmma_desc_low(ln_shared_address(tile), 16);
    asm volatile("" : "+r"(queries)); /* else all places are kept in registers between tiles */
    ln_keep_acc<LN_KV_TILE_N8>(s);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < K_DIM / 16; k++) {
        unsigned at = (k / 4 * LN_SWIZZLE_TILE_BYTES + k % 4 * 32) >> 4;
        ln_wgmma_qk<BF16>(s, ln_wgmma_desc(queries + at), ln_wgmma_desc(keys + at), k > 0);
    }
    ln_wgmma_commit();
}

/* Masks the keys that a row does not see. */
static __device__ __forceinline__ void mask(const consumer_rows &rows, unsigned first,
                                            float s[LN_KV_TILE_N8][4]) {
    if (first >= rows.unmasked_begin && first + LN_KV_TILE <= rows.unmasked_end)
        return;
    ln_query_rows seen;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        seen.begin[i] = rows.begin[i];
        seen.end[i] = rows.end[i];
    }
    ln_mask_scores(seen, first, s);
}

/* The running max rounded up to the grid. */
static __device__ __forceinline__ float grid_max(float row_max) {
    return ceilf(row_max / MAX_GRID) * MAX_GRID;
}

/* The factors of row i of a lane behind a tile; a tile that ends a split is merged. */
static __device__ __forceinline__ row_factors find_factors(softmax_rows *rows, int i, float rescale,
                                                           bool ends, bool ends_walk) {
    row_factors f = {rescale, 1.0f, 1.0f, 1.0f, 1.0f};
    if (ends) {
        float row_max = rows->split.row_max[i], on_grid = grid_max(row_max);
        f.to_grid = ln_softmax_exp2(row_max, on_grid);
        float row_sum = ln_reduce_row_sum(rows->split.row_sum[i]) * f.to_grid;
        ln_merge_scales(&rows->merged_max[i], on_grid, &f.keep, &f.add);
        rows->merged_sum[i] = ln_merge(rows->merged_sum[i], f.keep, row_sum, f.add);
        if (ends_walk)
            f.normalizer = ln_normalizer(rows->merged_sum[i]);
    }
    return f;
}

/* P as fragments for this warpgroup, and in shared memory for the other one. */
template <bool BF16>
static __device__ __forceinline__ void share_p(const float s[LN_KV_TILE_N8][4], char *shared_p,
                                               uint32_t p_frag[LN_KV_TILE / 16][4]) {
    unsigned row = threadIdx.x / LN_WARP % 4 * 16 + threadIdx.x % LN_WARP / 4;
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t pair = ln_pack_x2<BF16>(s[n][2 * i], s[n][2 * i + 1]);
            p_frag[n / 2][n % 2 * 2 + i] = pair;
            *(uint32_t *)(shared_p + swizzled(row + 8 * i, n) + threadIdx.x % 4 * 4) = pair;
        }
}

/* Stores what a merge needs to know of a split. */
static __device__ __forceinline__ void store_stats(const ln_mma_attention_args &p, unsigned split,
                                                   const softmax_rows &softmax,
                                                   const consumer_rows &rows) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float row_max = softmax.split.row_max[i], on_grid = grid_max(row_max);
        float row_sum =
            ln_reduce_row_sum(softmax.split.row_sum[i]) * ln_softmax_exp2(row_max, on_grid);
        if (rows.is_there[i] && threadIdx.x % 4 == 0)
            p.partial_stats[(size_t)rows.number[i] * p.n_splits + split] =
                make_float2(on_grid, row_sum);
    }
}

/* The softmax of a tile: S becomes P, which goes to the other warpgroup with the row's factors. */
template <bool BF16>
static __device__ __forceinline__ void
softmax_tile(const tile_walk &w, bool ends_walk, float factor, unsigned n, shared_memory *shared,
             float s[LN_KV_TILE_N8][4], softmax_rows *softmax, consumer_rows *rows,
             uint32_t p_frag[LN_KV_TILE / 16][4]) {
    unsigned row = threadIdx.x / LN_WARP % 4 * 16 + threadIdx.x % LN_WARP / 4;
    float before[2] = {softmax->split.row_max[0], softmax->split.row_max[1]}, rescale[2];
    mask(*rows, w.first, s);
    ln_online_softmax<8>(s, factor, &softmax->split);
    if (n > 0)
        barrier_sync<BARRIER_P_READ, 2 * WARPGROUP>();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rescale[i] = ln_rescale_factor(before[i], softmax->split.row_max[i]);
        row_factors f = find_factors(softmax, i, rescale[i], ends_split(w), ends_walk);
        if (threadIdx.x % 4 == 0)
            shared->factors[row + 8 * i] = f;
    }
    share_p<BF16>(s, shared->p, p_frag);
    barrier_arrive<BARRIER_P, 2 * WARPGROUP>();
    rescale_acc(rows, rescale);
}

template <bool BF16, bool SPLITS>
static __device__ __forceinline__ void consume_scores(const ln_mma_attention_args &p, tile_walk w,
                                                      const softmax_rows &nothing,
                                                      shared_memory *shared, consumer_rows *rows) {
    const float factor = ln_score_factor(p.a);
    unsigned row = threadIdx.x / LN_WARP % 4 * 16 + threadIdx.x % LN_WARP / 4;
    softmax_rows softmax = nothing;
    float s[LN_KV_TILE_N8][4];
    issue_qk<BF16>(shared, w, 0, s);
    ln_wgmma_wait<0>();
    ln_keep_acc<LN_KV_TILE_N8>(s);
    for (unsigned n = 0; !is_done(w); n++) {
        uint32_t p_frag[LN_KV_TILE / 16][4];
        tile_walk next = w;
        step(&next);
        bool ends = ends_split(w), ends_walk = is_done(next);
        softmax_tile<BF16>(w, ends_walk, factor, n, shared, s, &softmax, rows, p_frag);
        issue_pv<BF16>(p_frag, shared->tiles[n % STAGES], rows);
        bool is_next_there =
            !ends_walk && ln_mbarrier_test(&shared->full[(n + 1) % STAGES], (n + 1) / STAGES & 1);
        if (is_next_there) {
            issue_qk<BF16>(shared, next, n + 1, s);
            ln_wgmma_wait<1>();
        } else {
            ln_wgmma_wait<0>();
        }
        ln_keep_acc<HALF_DIM / 8>(rows->acc);
        keep_p(p_frag);
        if (threadIdx.x % LN_WARP == 0)
            ln_mbarrier_arrive(&shared->empty[n % STAGES]);
        if (!is_next_there && !ends_walk)
            issue_qk<BF16>(shared, next, n + 1, s);
        rows->starts_split = ends;
        if (ends) {
            unsigned split = w.first / LN_MLA_SPLIT;
            __syncwarp();
            if (SPLITS)
                store_stats(p, split, softmax, *rows);
            const row_factors factors[2] = {shared->factors[row], shared->factors[row + 8]};
            finish_split<SPLITS>(p, split, ends_walk, 0, factors, rows);
            ln_softmax_init(&softmax.split);
        }
        ln_wgmma_wait<0>();
        ln_keep_acc<LN_KV_TILE_N8>(s);
        w = next;
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

template <bool BF16, bool SPLITS>
static __device__ __forceinline__ void consume_values(const ln_mma_attention_args &p, tile_walk w,
                                                      shared_memory *shared, consumer_rows *rows) {
    unsigned warp = threadIdx.x / LN_WARP % 4, lane = threadIdx.x % LN_WARP;
    for (unsigned n = 0; !is_done(w); n++) {
        uint32_t p_frag[LN_KV_TILE / 16][4];
        barrier_sync<BARRIER_P, 2 * WARPGROUP>();
        const row_factors *of_rows = shared->factors + 16 * warp + lane / 4;
        const row_factors factors[2] = {of_rows[0], of_rows[8]};
        const float rescale[2] = {factors[0].rescale, factors[1].rescale};
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++)
            ln_ldmatrix(p_frag[k], shared->p + swizzled(16 * warp + lane % 16, 2 * k + lane / 16));
        tile_walk next = w;
        step(&next);
        if (!is_done(next))
            barrier_arrive<BARRIER_P_READ, 2 * WARPGROUP>();
        rescale_acc(rows, rescale);
        ln_mbarrier_wait(&shared->full[n % STAGES], n / STAGES & 1);
        const char *values =
            shared->tiles[n % STAGES] + HALF_DIM / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES;
        issue_pv<BF16>(p_frag, values, rows);
        ln_wgmma_wait<0>();
        ln_keep_acc<HALF_DIM / 8>(rows->acc);
        keep_p(p_frag);
        if (lane == 0)
            ln_mbarrier_arrive(&shared->empty[n % STAGES]);
        rows->starts_split = ends_split(w);
        if (rows->starts_split)
            finish_split<SPLITS>(p, w.first / LN_MLA_SPLIT, is_done(next), HALF_DIM, factors, rows);
        w = next;
    }
}

/* The rows of a lane of the warp whose rows begin at first_row, and their state before the first
 * tile. */
template <bool SPLITS>
static __device__ __forceinline__ void
find_rows(const ln_mma_attention_args &p, size_t seq, unsigned kv_head, unsigned first_row,
          unsigned n_rows, consumer_rows *rows, softmax_rows *softmax) {
    ln_query_rows query;
    size_t items[2];
    ln_find_query_rows(p, seq, kv_head, first_row, n_rows, &query, items);
    ln_softmax_init(&softmax->split);
    for (int i = 0; i < 2; i++) {
        rows->begin[i] = (unsigned)query.begin[i];
        rows->end[i] = (unsigned)query.end[i];
        rows->number[i] = (unsigned)(SPLITS ? seq * p.a.n_heads + query.head[i] : items[i]);
        rows->is_there[i] = items[i] != SIZE_MAX;
        ln_merge_init(p, query.head[i], &softmax->merged_max[i], &softmax->merged_sum[i]);
    }
    rows->unmasked_begin = __reduce_max_sync(0xffffffffu, max(rows->begin[0], rows->begin[1]));
    rows->unmasked_end = __reduce_min_sync(0xffffffffu, min(rows->end[0], rows->end[1]));
    rows->starts_split = rows->starts_walk = true;
}

#endif

/* ---- the block ------------------------------------------------------------------------------- */

template <bool BF16, bool SPLITS>
static __global__ void __launch_bounds__(THREADS, 1)
    attend(const __grid_constant__ ln_mma_attention_args p,
           const __grid_constant__ CUtensorMap keys, unsigned box_rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ char unaligned[];
    shared_memory *shared = (shared_memory *)(unaligned + (-ln_shared_address(unaligned) &
                                                           (LN_SWIZZLE_ATOM_BYTES - 1)));
    size_t seq = blockIdx.z / (unsigned)p.a.kv.n_heads;
    unsigned kv_head = blockIdx.z % (unsigned)p.a.kv.n_heads;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * ROWS;
    if (first_row >= n_rows || (SPLITS ? n_tokens != 1 : p.uses_split_kv && n_tokens == 1))
        return;
    tile_walk w = find_walk(p, seq, first_row, min(first_row + ROWS, n_rows) - 1);
    if (is_done(w))
        return;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            ln_mbarrier_init(&shared->full[i], 1);
            ln_mbarrier_init(&shared->empty[i], CONSUMER_WARPS);
        }
        ln_fence_mbarrier_init();
    }
    __syncthreads();
    /* uniform across the warp, and known as such to the compiler */
    unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / LN_WARP, 0);
    if (warp < WARPGROUP / LN_WARP) {
        ln_setmaxnreg_dec<40>();
        if (warp == 0)
            produce(p, w, seq, kv_head, &keys, box_rows, shared);
        return;
    }
    ln_setmaxnreg_inc<232>();
    store_queries<BF16>(p, seq, kv_head, first_row, n_rows, shared->queries);
    consumer_rows rows;
    softmax_rows softmax;
    find_rows<SPLITS>(p, seq, kv_head, first_row + 16 * (warp % 4), n_rows, &rows, &softmax);
    if (warp < 2 * WARPGROUP / LN_WARP)
        consume_scores<BF16, SPLITS>(p, w, softmax, shared, &rows);
    else
        consume_values<BF16, SPLITS>(p, w, shared, &rows);
#else
    (void)box_rows;
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <bool BF16, bool SPLITS>
static int launch(const ln_mma_attention_args &args, size_t n_seqs, size_t most_tokens,
                  unsigned n_shares, cudaStream_t stream) {
    size_t shared = sizeof(shared_memory) + LN_SWIZZLE_ATOM_BYTES;
    unsigned block_tokens = 1u << args.block_shift;
    unsigned box_rows = block_tokens < LN_KV_TILE ? block_tokens : (unsigned)LN_KV_TILE;
    CUtensorMap keys;
    int code = ln_kv_tensor_map(&args.a.keys, box_rows, &keys);
    if (code == 0)
        code = cudaFuncSetAttribute(attend<BF16, SPLITS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != 0)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * args.heads_per_kv, ROWS), n_shares,
              (unsigned)(n_seqs * args.a.kv.n_heads));
    attend<BF16, SPLITS><<<grid, THREADS, shared, stream>>>(args, keys, box_rows);
    return cudaGetLastError();
}

template <bool BF16>
static int launch_dtype(const ln_mma_attention_args &args, const ln_cuda_step *step,
                        unsigned n_shares, cudaStream_t stream) {
    size_t n_seqs = step->batch.n_seqs;
    int code = 0;
    if (args.uses_split_kv)
        code = launch<BF16, true>(args, n_seqs, 1, n_shares, stream);
    if (code == 0 && args.uses_split_kv)
        code = ln_attention_merge(&args, n_seqs, NULL, stream);
    if (code != 0 || (args.uses_split_kv && step->most_tokens == 1))
        return code;
    return launch<BF16, false>(args, n_seqs, step->most_tokens, 1, stream);
}

int ln_attention_sm90_mla(const ln_attention_args *a, const ln_cuda_step *step,
                          cudaStream_t stream) {
    ln_mma_attention_args args = ln_make_mma_attention_args(a, step);
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    unsigned n_sms, n_shares = 1;
    int code = ln_count_sms(&n_sms);
    if (code != 0)
        return code;
    size_t n_blocks =
        step->batch.n_seqs * a->kv.n_heads * ln_ceil_div((size_t)args.heads_per_kv, ROWS);
    args.uses_split_kv =
        step->least_tokens == 1 && split.has_scratch && args.n_splits > 1 && 2 * n_blocks <= n_sms;
    if (args.uses_split_kv) {
        n_shares = n_sms / (unsigned)n_blocks;
        n_shares = n_shares < args.n_splits ? n_shares : args.n_splits;
    }
    return a->kv.dtype == LN_KV_BF16 ? launch_dtype<true>(args, step, n_shares, stream)
                                     : launch_dtype<false>(args, step, n_shares, stream);
}
