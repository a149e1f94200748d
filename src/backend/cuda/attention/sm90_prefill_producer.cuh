/* The producer side of sm90_prefill.cu: Q to shared memory, and KV tiles through a pipeline of
 * STAGES stages with full and empty mbarriers. 16-bit tiles arrive by TMA; 8-bit tiles by cp.async,
 * and the producer warpgroup dequantises them to f16. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_PRODUCER_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_PRODUCER_CUH

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/swizzle.cuh"
#include "backend/cuda/ptx/mbarrier.cuh"
#include "backend/cuda/ptx/setmaxnreg.cuh"
#include "backend/cuda/ptx/tma.cuh"

enum {
    WARPGROUP = 128, /* threads */
    CONSUMERS = 2,   /* warpgroups */
    QUANT_STAGES = 3 /* of tiles, of head dim 256 K or V of one, that are not yet dequantised */
};

/* What a block and its consumers compute. Up to head dim 128 each consumer has 64 rows of its own.
 * O of head dim 256, with what earlier KV splits left of it, leaves no registers: then both have
 * the same 64 rows, scores included, and half of the columns of V. */
template <int D, bool QUANT = false> struct prefill_shape {
    static constexpr int V = D < 128 ? D : 128; /* columns of V of a consumer */
    static constexpr bool SHARES_ROWS = D > V;
    static constexpr unsigned QUERY_TILES = SHARES_ROWS ? 1 : CONSUMERS;
    static constexpr unsigned ROWS = 64 * QUERY_TILES;
    static constexpr unsigned STAGES = SHARES_ROWS ? (QUANT ? 2 : 3) : 4;
};

/* Keys that rows of the block see, [low, high), and the KV tiles that hold them. */
typedef struct kv_walk {
    unsigned low, high, first, n_tiles;
} kv_walk;

/* A KV tile before dequantisation: K, then V, then a scale for each thread, of a row of K or V. Of
 * head dim 256 K, with all scales, or V: two stages of f16 leave no room for both. A thread reads
 * what it has copied itself: 16 bytes of some rows of each column tile. */
template <int D> struct quant_tile {
    static constexpr unsigned COL_TILES = D / LN_SWIZZLE_COLS;
    static constexpr unsigned ROWS = WARPGROUP / 4; /* of which one column tile is copied at once */
    static constexpr unsigned ARRAY_BYTES = LN_KV_TILE * D;
    static constexpr bool IS_HALF = prefill_shape<D>::SHARES_ROWS; /* K or V */
    static constexpr unsigned SCALES_AT = (IS_HALF ? 1 : 2) * ARRAY_BYTES;
    static constexpr unsigned TILE_BYTES = SCALES_AT + WARPGROUP * 4;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

static __device__ __forceinline__ float4 join(float2 low, float2 high) {
    return make_float4(low.x, low.y, high.x, high.y);
}

/* Columns first_column .. + prefill_shape::V of this warp's 16 query rows to shared memory as
 * 16-bit elements, in the order of ln_load_query; zeros for rows that are not there. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
store_queries(const ln_mma_attention_args &p, size_t seq, size_t kv_head, unsigned first_row,
              unsigned n_rows, unsigned warp_in_group, unsigned first_column, char *queries) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), QUANT = LN_KV_QUANT_OF(DTYPE) != 0;
    enum { PARTS = prefill_shape<D>::V / 8 };
    unsigned lane = threadIdx.x % LN_WARP;
    size_t first_token = (size_t)p.a.seq_starts[seq];
    for (unsigned at = lane; at < 16 * PARTS; at += LN_WARP) {
        unsigned row = at / PARTS, part = first_column / 8 + at % PARTS,
                 in_tile = 16 * warp_in_group + row;
        unsigned row_of_all = first_row + row;
        uint4 packed = make_uint4(0, 0, 0, 0);
        if (row_of_all < n_rows) {
            size_t token = first_token + row_of_all / p.heads_per_kv;
            size_t head = kv_head * p.heads_per_kv + row_of_all % p.heads_per_kv;
            const float *q = p.a.q + (token * p.a.n_heads + head) * D;
            if (!QUANT && p.a.q_is_narrow) {
                packed = ((const uint4 *)q)[part];
            } else {
                const float4 *whole = (const float4 *)(q + 8 * part);
                const float2 *pairs = (const float2 *)(q + part / 2 * 16 + part % 2 * 2);
                float4 low = QUANT ? join(pairs[0], pairs[2]) : whole[0];
                float4 high = QUANT ? join(pairs[4], pairs[6]) : whole[1];
                packed =
                    make_uint4(ln_pack_x2<BF16>(low.x, low.y), ln_pack_x2<BF16>(low.z, low.w),
                               ln_pack_x2<BF16>(high.x, high.y), ln_pack_x2<BF16>(high.z, high.w));
            }
        }
        *(uint4 *)(queries + part / 8 * LN_SWIZZLE_TILE_BYTES + in_tile * LN_SWIZZLE_COLS * 2 +
                   (part % 8 ^ in_tile % 8) * 16) = packed;
    }
}

/* Fetches 64 columns of a tile of K, or of V; a lane has box_rows rows from cache row `row`. */
static __device__ __forceinline__ void load_columns(const CUtensorMap *map, unsigned column,
                                                    unsigned row, bool is_there, char *to,
                                                    uint64_t *full, uint64_t *empty,
                                                    unsigned parity) {
    ln_mbarrier_wait(empty, parity);
    if (threadIdx.x % LN_WARP == 0)
        ln_mbarrier_expect_tx(full, LN_SWIZZLE_TILE_BYTES);
    __syncwarp();
    if (is_there)
        ln_tma_load(to, map, (int)column, (int)row, full);
}

/* A warp of the producer, `warp` of four: it fetches 64 columns of all tiles of K, or of V, or of
 * head dim 256 of both. tiles, full, empty: those of stage 0, K before V. */
template <int D>
static __device__ __forceinline__ void
produce_tma(const ln_mma_attention_args &p, const kv_walk &w, size_t seq, unsigned kv_head,
            const CUtensorMap *keys, const CUtensorMap *values, unsigned warp, unsigned box_rows,
            char *tiles, uint64_t *full, uint64_t *empty) {
    enum { COL_TILES = D / LN_SWIZZLE_COLS, TILE_BYTES = COL_TILES * LN_SWIZZLE_TILE_BYTES };
    constexpr unsigned STAGES = prefill_shape<D>::STAGES;
    unsigned col_tile = warp % COL_TILES, lane = threadIdx.x % LN_WARP;
    unsigned n_boxes = LN_KV_TILE / box_rows, column = col_tile * LN_SWIZZLE_COLS;
    bool has_keys = warp < COL_TILES,
         has_values = prefill_shape<D>::SHARES_ROWS || warp / COL_TILES == 1;
    const int32_t *table = p.a.block_tables + seq * p.a.max_blocks;
    char *to = tiles + col_tile * LN_SWIZZLE_TILE_BYTES + lane * box_rows * LN_SWIZZLE_COLS * 2;
    for (unsigned tile = 0; tile < w.n_tiles; tile++) {
        unsigned stage = tile % STAGES, parity = (tile / STAGES & 1) ^ 1;
        unsigned key = w.first + tile * LN_KV_TILE + lane * box_rows;
        unsigned block_key = min(max(key, w.low), w.high - 1);
        unsigned block = lane < n_boxes ? (unsigned)table[block_key >> p.block_shift] : 0;
        unsigned row = ((block * (unsigned)p.a.kv.n_heads + kv_head) << p.block_shift) +
                       (key & ((1u << p.block_shift) - 1));
        char *stage_to = to + stage * 2 * TILE_BYTES;
        if (has_keys)
            load_columns(keys, column, row, lane < n_boxes, stage_to, &full[2 * stage],
                         &empty[2 * stage], parity);
        if (has_values)
            load_columns(values, column, row, lane < n_boxes, stage_to + TILE_BYTES,
                         &full[2 * stage + 1], &empty[2 * stage + 1], parity);
    }
}

/* ---- 8-bit caches ---------------------------------------------------------------------------- */

/* Id of cache block `lane` of the tile at key `first`. */
static __device__ __forceinline__ unsigned
find_block(const ln_mma_attention_args &p, const kv_walk &w, const int32_t *table, unsigned first) {
    unsigned at = (first >> p.block_shift) + threadIdx.x % LN_WARP;
    return (unsigned)table[min(at, (w.high - 1) >> p.block_shift)];
}

/* Queues the copies of a thread's share of a tile: K and all scales, V, or both. Keys outside
 * [low, high) are replaced by ones inside. */
template <int D, bool KEYS, bool VALUES>
static __device__ __forceinline__ void copy_quant_tile(const ln_mma_attention_args &p,
                                                       const kv_walk &w, unsigned kv_head,
                                                       unsigned first, unsigned block, char *to) {
    typedef quant_tile<D> shape;
    unsigned thread = threadIdx.x % WARPGROUP, shift = p.block_shift, mask = (1u << shift) - 1;
    size_t head_bytes = p.a.keys.head_bytes;
    to += thread * 16;
#pragma unroll
    for (unsigned row = 0; row < LN_KV_TILE; row += shape::ROWS) {
        unsigned key = min(max(first + row + thread / 4, w.low), w.high - 1);
        unsigned in = __shfl_sync(0xffffffffu, block, (key >> shift) - (first >> shift));
        size_t at = (in * (unsigned)p.a.kv.n_heads + kv_head) * head_bytes + (key & mask) * D +
                    thread % 4 * 16;
#pragma unroll
        for (unsigned col_tile = 0; col_tile < shape::COL_TILES; col_tile++) {
            char *place = to + (row * shape::COL_TILES + col_tile * shape::ROWS) * LN_SWIZZLE_COLS;
            if (KEYS)
                ln_cp_async_16(place, p.a.keys.data + at + col_tile * LN_SWIZZLE_COLS);
            if (VALUES)
                ln_cp_async_16(place + (KEYS ? shape::ARRAY_BYTES : 0),
                               p.a.values.data + at + col_tile * LN_SWIZZLE_COLS);
        }
    }
    if (!KEYS)
        return;
    unsigned key = min(max(first + thread % LN_KV_TILE, w.low), w.high - 1);
    unsigned in = __shfl_sync(0xffffffffu, block, (key >> shift) - (first >> shift));
    const char *data = thread < LN_KV_TILE ? p.a.keys.data : p.a.values.data;
    data += (in * (unsigned)p.a.kv.n_heads + kv_head) * head_bytes + p.a.keys.scales_offset;
    ln_cp_async_4(to - thread * 12 + shape::SCALES_AT, data + (key & mask) * 4);
}

/* Dequantises a thread's share of K, or of V, to f16 where WGMMA reads it. */
template <int D, int QUANT, bool KEYS>
static __device__ __forceinline__ void dequantize_tile(const char *from, char *tile) {
    typedef quant_tile<D> shape;
    unsigned thread = threadIdx.x % WARPGROUP, in_eight = thread / 4 % 8;
    from += thread * 16;
    tile += thread / 4 * LN_SWIZZLE_COLS * 2;
#pragma unroll
    for (unsigned row = 0; row < LN_KV_TILE; row += shape::ROWS)
#pragma unroll
        for (unsigned col_tile = 0; col_tile < shape::COL_TILES; col_tile++) {
            uint4 to[2];
            ln_dequantize_kv<QUANT, KEYS>(
                *(const uint4 *)(from + (row * shape::COL_TILES + col_tile * shape::ROWS) *
                                            LN_SWIZZLE_COLS),
                to);
            char *place = tile + col_tile * LN_SWIZZLE_TILE_BYTES + row * LN_SWIZZLE_COLS * 2;
#pragma unroll
            for (unsigned i = 0; i < 2; i++)
                *(uint4 *)(place + (2 * (thread % 4) + i ^ in_eight) * 16) = to[i];
        }
}

/* A warpgroup fetches and dequantises all tiles. tiles, full, empty: those of stage 0; scales
 * [STAGES][K, V][LN_KV_TILE] arrive with K; bytes: QUANT_STAGES quant_tile. A turn makes K and V of
 * a tile together, with head dim 256 K or V by itself: while consumers multiply by K of a tile and
 * V of the one before, V of the former and K of the next one are made. */
template <int D, int QUANT>
static __device__ __forceinline__ void
produce_dequantized(const ln_mma_attention_args &p, const kv_walk &w, size_t seq, unsigned kv_head,
                    char *tiles, char *bytes, float *scales, uint64_t *full, uint64_t *empty) {
    typedef quant_tile<D> shape;
    enum { TILE_BYTES = D / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES };
    constexpr bool IS_HALF = shape::IS_HALF;
    constexpr unsigned STAGES = prefill_shape<D, true>::STAGES, TURNS = IS_HALF ? 2 : 1;
    const int32_t *table = p.a.block_tables + seq * p.a.max_blocks;
    unsigned thread = threadIdx.x % WARPGROUP, block = find_block(p, w, table, w.first),
             quant_stage = 0, n_turns = TURNS * w.n_tiles;
    for (unsigned turn = 0; turn < QUANT_STAGES + n_turns; turn++) {
        char *own = bytes + quant_stage * shape::TILE_BYTES;
        unsigned n = turn - QUANT_STAGES, stage = n / TURNS % STAGES;
        unsigned parity = (n / TURNS / STAGES & 1) ^ 1, keys = 2 * stage, values = keys + 1;
        bool is_made = turn >= QUANT_STAGES;
        bool has_keys = !IS_HALF || n % 2 == 0, has_values = !IS_HALF || n % 2 == 1;
        if (is_made)
            ln_cp_async_wait<QUANT_STAGES - 1>();
        if (is_made && has_keys) {
            float scale = *(const float *)(own + shape::SCALES_AT + thread * 4);
            ln_mbarrier_wait(&empty[keys], parity);
            if (has_values)
                ln_mbarrier_wait(&empty[values], parity);
            scales[stage * WARPGROUP + thread] = LN_KV_DEQUANT_SCALE(QUANT) * scale;
            dequantize_tile<D, QUANT, true>(own, tiles + keys * TILE_BYTES);
        } else if (is_made) {
            ln_mbarrier_wait(&empty[values], parity);
        }
        if (is_made && has_values)
            dequantize_tile<D, QUANT, false>(own + (IS_HALF ? 0 : shape::ARRAY_BYTES),
                                             tiles + values * TILE_BYTES);
        if (turn < n_turns) {
            unsigned first = w.first + turn / TURNS * LN_KV_TILE;
            asm volatile("" ::: "memory"); /* what was there has been read */
            if (!IS_HALF)
                copy_quant_tile<D, true, true>(p, w, kv_head, first, block, own);
            else if (turn % 2 == 0)
                copy_quant_tile<D, true, false>(p, w, kv_head, first, block, own);
            else
                copy_quant_tile<D, false, true>(p, w, kv_head, first, block, own);
            if (!IS_HALF || turn % 2 == 1)
                block = find_block(p, w, table, first + LN_KV_TILE);
        }
        ln_cp_async_commit();
        if (is_made) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (has_keys)
                ln_mbarrier_arrive(&full[keys]);
            __syncwarp();
            if (has_values && threadIdx.x % LN_WARP == 0)
                ln_mbarrier_arrive(&full[values]);
        }
        quant_stage = quant_stage + 1 == QUANT_STAGES ? 0 : quant_stage + 1;
    }
}

#endif
#endif
