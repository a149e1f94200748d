/* Latent attention on Hopper, sm90_mla.cu: the shape of its blocks and shared memory, the order of
 * its KV tiles, and what both consumer warpgroups do with their columns of O. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_MLA_ROWS_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_MLA_ROWS_CUH

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/sm90_wgmma.cuh"
#include "backend/cuda/ptx/mbarrier.cuh"

enum {
    K_DIM = LN_MLA_K_DIM,
    V_DIM = LN_MLA_V_DIM,
    ROWS = LN_MLA_ROWS, /* query rows of a block */
    WARPGROUP = 128,    /* threads */
    THREADS = 3 * WARPGROUP,
    CONSUMER_WARPS = 2 * WARPGROUP / LN_WARP,
    STAGES = 2,
    COL_TILES = K_DIM / LN_SWIZZLE_COLS,
    TILE_BYTES = COL_TILES * LN_SWIZZLE_TILE_BYTES,
    HALF_DIM = V_DIM / 2 /* columns of O that a consumer computes */
};

/* Named barriers; 0 is __syncthreads. */
enum {
    BARRIER_QUERIES = 1, /* Q is there */
    BARRIER_P,           /* P and row_factors of a tile are there */
    BARRIER_P_READ,      /* warpgroup 2 has read them */
    BARRIER_ZEROED       /* within warpgroup 1 */
};

static_assert((int)ROWS == (int)LN_KV_TILE, "Q, P and KV tiles have column tiles of the same size");

/* What the scores' warpgroup tells the values' of its row: O is multiplied by `rescale` before P V,
 * and at the end of a KV split O *= to_grid, merged = (merged * keep + O * add) * normalizer. */
typedef struct row_factors {
    float rescale, to_grid, keep, add, normalizer;
} row_factors;

typedef struct shared_memory {
    char queries[TILE_BYTES];
    char tiles[STAGES][TILE_BYTES];
    char p[LN_SWIZZLE_TILE_BYTES];
    row_factors factors[ROWS];
    uint64_t full[STAGES], empty[STAGES];
} shared_memory;

/* The KV tiles of a block, in order. */
typedef struct tile_walk {
    unsigned low, high; /* keys that rows of the block see, [low, high) */
    unsigned stride;    /* from a KV split to the block's next */
    unsigned first;     /* key of the tile */
} tile_walk;

static __device__ __forceinline__ bool is_done(const tile_walk &w) {
    return w.first >= w.high;
}

static __device__ __forceinline__ bool ends_split(const tile_walk &w) {
    return (w.first + LN_KV_TILE) % LN_MLA_SPLIT == 0 || w.first + LN_KV_TILE >= w.high;
}

static __device__ __forceinline__ void step(tile_walk *w) {
    w->first =
        ends_split(*w) ? w->first / LN_MLA_SPLIT * LN_MLA_SPLIT + w->stride : w->first + LN_KV_TILE;
}

static __device__ __forceinline__ tile_walk find_walk(const ln_mma_attention_args &p, size_t seq,
                                                      unsigned first_row, unsigned last_row) {
    size_t token0 = (size_t)p.a.seq_starts[seq], begin, end, last_begin, last_end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], &begin,
                 &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &last_begin,
                 &last_end);
    tile_walk w = {(unsigned)begin, (unsigned)last_end, gridDim.y * LN_MLA_SPLIT,
                   blockIdx.y * LN_MLA_SPLIT};
    while (w.first + LN_MLA_SPLIT <= w.low)
        w.first += w.stride;
    w.first = max(w.first, w.low / LN_KV_TILE * LN_KV_TILE);
    return w;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int BARRIER, int N> static __device__ __forceinline__ void barrier_sync(void) {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(N) : "memory");
}

template <int BARRIER, int N> static __device__ __forceinline__ void barrier_arrive(void) {
    asm volatile("bar.arrive %0, %1;" ::"n"(BARRIER), "n"(N) : "memory");
}

static __device__ __forceinline__ void fence_proxy_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Where the 16 bytes `part` of a row lie in a tile of column tiles. */
static __device__ __forceinline__ unsigned swizzled(unsigned row, unsigned part) {
    return part / 8 * LN_SWIZZLE_TILE_BYTES + row * LN_SWIZZLE_COLS * 2 + (part % 8 ^ row % 8) * 16;
}

/* ---- O ------------------------------------------------------------------------------------ */

/* The two query rows of a lane. */
typedef struct consumer_rows {
    unsigned begin[2], end[2]; /* keys that the row sees */
    unsigned number[2];        /* (token or, of splits, sequence) * n_heads + head */
    bool is_there[2];
    unsigned unmasked_begin, unmasked_end; /* keys that all rows of the warp see */
    float acc[HALF_DIM / 8][4];
    bool starts_split, starts_walk; /* no tile of this split, or of any, has been added */
} consumer_rows;

/* Queries of the block to shared memory, by the consumers; zeros for rows that are not there. */
template <bool BF16>
static __device__ __forceinline__ void store_queries(const ln_mma_attention_args &p, size_t seq,
                                                     unsigned kv_head, unsigned first_row,
                                                     unsigned n_rows, char *queries) {
    enum { PARTS = K_DIM / 8 };
    size_t first_token = (size_t)p.a.seq_starts[seq];
    for (unsigned at = threadIdx.x - WARPGROUP; at < ROWS * PARTS; at += 2 * WARPGROUP) {
        unsigned row = at / PARTS, part = at % PARTS, row_of_all = first_row + row;
        uint4 packed = make_uint4(0, 0, 0, 0);
        if (row_of_all < n_rows) {
            size_t token = first_token + row_of_all / p.heads_per_kv;
            size_t head = kv_head * p.heads_per_kv + row_of_all % p.heads_per_kv;
            const float4 *q =
                (const float4 *)(p.a.q + (token * p.a.n_heads + head) * K_DIM + 8 * part);
            float4 low = q[0], high = q[1];
            packed = make_uint4(ln_pack_x2<BF16>(low.x, low.y), ln_pack_x2<BF16>(low.z, low.w),
                                ln_pack_x2<BF16>(high.x, high.y), ln_pack_x2<BF16>(high.z, high.w));
        }
        *(uint4 *)(queries + swizzled(row, part)) = packed;
    }
    fence_proxy_async();
    barrier_sync<BARRIER_QUERIES, 2 * WARPGROUP>();
}

/* Issues O += P V of half of V's columns, which begin at `values`; O = P V where a split starts. */
template <bool BF16>
static __device__ __forceinline__ void issue_pv(uint32_t p_frag[LN_KV_TILE / 16][4],
                                                const char *values, consumer_rows *rows) {
    unsigned low = ln_wgmma_desc_low(ln_shared_address(values), LN_SWIZZLE_TILE_BYTES);
    bool adds = !rows->starts_split;
    ln_keep_acc<HALF_DIM / 8>(rows->acc);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++) {
        unsigned at = low + (k * 2 * LN_SWIZZLE_ATOM_BYTES >> 4);
        ln_wgmma_pv<128, BF16>(rows->acc, p_frag[k], ln_wgmma_desc(at), k > 0 || adds);
        ln_wgmma_pv<128, BF16>(rows->acc + 16, p_frag[k],
                               ln_wgmma_desc(at + (2 * LN_SWIZZLE_TILE_BYTES >> 4)), k > 0 || adds);
    }
    ln_wgmma_commit();
}

/* P is read until its WGMMAs have ended, which the compiler does not know. */
static __device__ __forceinline__ void keep_p(uint32_t p_frag[LN_KV_TILE / 16][4]) {
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++)
        asm volatile(""
                     : "+r"(p_frag[k][0]), "+r"(p_frag[k][1]), "+r"(p_frag[k][2]),
                       "+r"(p_frag[k][3])::"memory");
}

/* O *= rescale of its row, unless a split starts. */
static __device__ __forceinline__ void rescale_acc(consumer_rows *rows, const float rescale[2]) {
    if (rows->starts_split || __all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f))
        return;
#pragma unroll
    for (int d = 0; d < HALF_DIM / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rows->acc[d][i] *= rescale[i / 2];
}

/* O of row i of a lane; `to`: the row's first column that this warpgroup computes. */
static __device__ __forceinline__ void store_row(float *to, int i, const consumer_rows &rows) {
    to += threadIdx.x % 4 * 2;
#pragma unroll
    for (int d = 0; d < HALF_DIM / 8; d++)
        *(float2 *)(to + 8 * d) = make_float2(rows.acc[d][2 * i], rows.acc[d][2 * i + 1]);
}

/* What a warp keeps of eight rows between KV splits, or of so many as are there: the row-major
 * places of their results that are its own, in the order of fragments, as row-major accesses would
 * cost eight times as much. */
typedef struct kept_rows {
    float4 *first;
    unsigned n_lanes; /* that have rows */
} kept_rows;

/* The rows of which row i of the lane is one. */
static __device__ __forceinline__ kept_rows find_kept(const ln_mma_attention_args &p, int i,
                                                      unsigned first_col,
                                                      const consumer_rows &rows) {
    unsigned g = threadIdx.x % LN_WARP / 4;
    float *first = p.a.out + (size_t)(rows.number[i] - g) * V_DIM + first_col;
    return kept_rows{(float4 *)first,
                     (unsigned)__popc(__ballot_sync(0xffffffffu, rows.is_there[i]))};
}

/* Where the lane keeps fragments 2 d and 2 d + 1. */
static __device__ __forceinline__ float4 *kept_at(const kept_rows &kept, int d) {
    enum { OF_ROW = HALF_DIM / 4 };
    unsigned at = d * kept.n_lanes + threadIdx.x % LN_WARP;
    return kept.first + at / OF_ROW * (V_DIM / 4) + at % OF_ROW;
}

/* O of row i of a lane becomes that of all splits so far; `starts`: there was none before. */
static __device__ __forceinline__ void merge_row(const kept_rows &rows_kept, bool starts, int i,
                                                 const row_factors &f, consumer_rows *rows) {
    enum { LOADS = 8 }; /* at once */
#pragma unroll
    for (int first = 0; first < HALF_DIM / 16; first += LOADS) {
        float4 kept[LOADS];
#pragma unroll
        for (int d = 0; d < LOADS; d++)
            kept[d] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (!starts) {
#pragma unroll
            for (int d = 0; d < LOADS; d++)
                kept[d] = __ldcg(kept_at(rows_kept, first + d));
        }
#pragma unroll
        for (int d = 0; d < LOADS; d++) {
            float *low = rows->acc[2 * (first + d)] + 2 * i,
                  *high = rows->acc[2 * (first + d) + 1] + 2 * i;
            low[0] = ln_merge(kept[d].x, f.keep, low[0], f.add) * f.normalizer;
            low[1] = ln_merge(kept[d].y, f.keep, low[1], f.add) * f.normalizer;
            high[0] = ln_merge(kept[d].z, f.keep, high[0], f.add) * f.normalizer;
            high[1] = ln_merge(kept[d].w, f.keep, high[1], f.add) * f.normalizer;
        }
    }
}

/* Adds O of row i of a lane to what is kept, in L2, which nobody waits for. */
static __device__ __forceinline__ void add_row(const kept_rows &kept, int i,
                                               const consumer_rows &rows) {
#pragma unroll
    for (int d = 0; d < HALF_DIM / 16; d++)
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(kept_at(kept, d))),
                     "f"(rows.acc[2 * d][2 * i]), "f"(rows.acc[2 * d][2 * i + 1]),
                     "f"(rows.acc[2 * d + 1][2 * i]), "f"(rows.acc[2 * d + 1][2 * i + 1])
                     : "memory");
}

/* Keeps O of row i of a lane. */
static __device__ __forceinline__ void keep_row(const kept_rows &kept, int i,
                                                const consumer_rows &rows) {
#pragma unroll
    for (int d = 0; d < HALF_DIM / 16; d++)
        *kept_at(kept, d) = make_float4(rows.acc[2 * d][2 * i], rows.acc[2 * d][2 * i + 1],
                                        rows.acc[2 * d + 1][2 * i], rows.acc[2 * d + 1][2 * i + 1]);
}

/* Merges O of a KV split with that of the splits before, and keeps it, or stores the result. */
static __device__ __forceinline__ void merge_split(const ln_mma_attention_args &p, bool ends_walk,
                                                   unsigned first_col, const row_factors factors[2],
                                                   consumer_rows *rows) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const row_factors &f = factors[i];
        kept_rows kept = find_kept(p, i, first_col, *rows);
        bool is_sum = !rows->starts_walk && !ends_walk && f.keep == 1.0f && f.add == 1.0f;
        if (rows->is_there[i] && is_sum)
            add_row(kept, i, *rows);
        else if (rows->is_there[i])
            merge_row(kept, rows->starts_walk, i, f, rows);
        __syncwarp(); /* all that was kept has been read */
        if (rows->is_there[i] && ends_walk)
            store_row(p.a.out + (size_t)rows->number[i] * V_DIM + first_col, i, *rows);
        else if (rows->is_there[i] && !is_sum)
            keep_row(kept, i, *rows);
    }
    rows->starts_walk = false;
}

/* The end of KV split `split`, of O of columns first_col and on. */
template <bool SPLITS>
static __device__ __forceinline__ void
finish_split(const ln_mma_attention_args &p, unsigned split, bool ends_walk, unsigned first_col,
             const row_factors factors[2], consumer_rows *rows) {
#pragma unroll
    for (int d = 0; d < HALF_DIM / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rows->acc[d][i] *= factors[i / 2].to_grid;
    if constexpr (SPLITS) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (rows->is_there[i])
                store_row(p.partial_out + ((size_t)rows->number[i] * p.n_splits + split) * V_DIM +
                              first_col,
                          i, *rows);
    } else {
        merge_split(p, ends_walk, first_col, factors, rows);
    }
    __syncwarp();
}

#endif

#endif
