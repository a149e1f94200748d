/* Prefill attention by mma.sync: caches of f16, bf16, int8 or E4M3, head dims of 16 to 256.
 *
 * A block computes 128 query rows (tokens times the query heads of a KV head; 64 where the head dim
 * exceeds 128), 16 to a warp, and walks the KV tiles of their KV splits in order. Two pipeline
 * stages of K and V by cp.async. Grid (tiles of rows, the last first, which see the most keys; KV
 * heads; sequences), block 256 or 128. Shared memory: two stages of K and V, and the merged O of
 * all rows in float32. Bytes moved: K and V once for every tile of rows. */
#include "backend/cuda/attention/mma_prefill.cuh"

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/mma_walk.cuh"
#include "backend/cuda/attention/mma_wide.cuh"
#include "backend/cuda/runtime/pdl.cuh"

/* Warps of a block: fewer where O of a row is large. */
#define WARPS(D) ((D) > 128 ? 4 : 8)

/* The rows of a lane over all splits so far; O in shared memory, in the order of fragments. */
typedef struct merged_rows {
    float row_max[2], row_sum[2];
    float4 *acc; /* [D / 8][32] */
} merged_rows;

/* The keys that rows see: [low, high) of any row of the block, [warp_low, warp_high) of the warp.
 */
typedef struct kv_walk {
    size_t low, high;
    unsigned warp_low, warp_high;
} kv_walk;

/* A tile of K, and behind it one of V. */
template <int D, int DTYPE>
static __device__ __forceinline__ void load(const ln_mma_attention_args &p,
                                            const ln_kv_tile_source &from, unsigned first,
                                            uint16_t *tiles) {
    ln_load_kv_tile<D, LN_KV_QUANT_OF(DTYPE), true>(from, first, p.a.keys, tiles, p.a.values,
                                                    tiles + LN_KV_TILE_ELEMENTS(D));
}

template <int D>
static __device__ __forceinline__ void merge_split(merged_rows *merged,
                                                   const ln_softmax_state<D> &state) {
    unsigned lane = threadIdx.x % LN_WARP;
    float keep[2], add[2];
    for (int i = 0; i < 2; i++) {
        ln_merge_scales(&merged->row_max[i], state.row_max[i], &keep[i], &add[i]);
        merged->row_sum[i] =
            ln_merge(merged->row_sum[i], keep[i], ln_reduce_row_sum(state.row_sum[i]), add[i]);
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        float4 o = merged->acc[d * LN_WARP + lane];
        o.x = ln_merge(o.x, keep[0], state.acc[d][0], add[0]);
        o.y = ln_merge(o.y, keep[0], state.acc[d][1], add[0]);
        o.z = ln_merge(o.z, keep[1], state.acc[d][2], add[1]);
        o.w = ln_merge(o.w, keep[1], state.acc[d][3], add[1]);
        merged->acc[d * LN_WARP + lane] = o;
    }
}

/* All KV tiles of the block, by a warp with its rows. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
attend(const ln_mma_attention_args &p, const ln_kv_tile_source &from, const kv_walk &walk,
       const ln_query_rows &rows, const uint32_t q[D / 16][4], uint16_t *tiles,
       merged_rows *merged) {
    unsigned first = (unsigned)walk.low / LN_KV_TILE * LN_KV_TILE, stop = (unsigned)walk.high;
    const float factor = ln_score_factor(p.a);
    ln_softmax_state<D> state;
    ln_softmax_init(&state);
    load<D, DTYPE>(p, from, first, tiles);
    ln_cp_async_commit();
    for (unsigned n = 0; first < stop; first += LN_KV_TILE, n++) {
        uint16_t *keys = tiles + n % 2 * 2 * LN_KV_TILE_ELEMENTS(D);
        uint16_t *values = keys + LN_KV_TILE_ELEMENTS(D);
        uint16_t *next = tiles + (n + 1) % 2 * 2 * LN_KV_TILE_ELEMENTS(D);
        if (first + LN_KV_TILE < stop)
            load<D, DTYPE>(p, from, first + LN_KV_TILE, next);
        ln_cp_async_commit();
        ln_cp_async_wait<1>();
        __syncthreads();
        if (first < walk.warp_high && first + LN_KV_TILE > walk.warp_low) {
            float s[LN_KV_TILE_N8][4];
            ln_tile_scores<D, DTYPE>(q, keys, s);
            ln_finish_scores(p.a, rows, first, s);
            ln_online_softmax<D, LN_KV_QUANT_OF(DTYPE) != 0>(s, factor, &state);
            ln_tile_values<D, DTYPE>(s, values, &state);
        }
        if ((first + LN_KV_TILE) % LN_KV_SPLIT == 0 || first + LN_KV_TILE >= stop) {
            merge_split<D>(merged, state);
            ln_softmax_init(&state);
        }
        __syncthreads();
    }
}

template <int D>
static __device__ __forceinline__ void
store_rows(const ln_mma_attention_args &p, const merged_rows &merged, const size_t items[2]) {
    unsigned lane = threadIdx.x % LN_WARP;
    for (int i = 0; i < 2; i++) {
        float normalizer = ln_normalizer(merged.row_sum[i]);
        for (int d = 0; d < D / 8 && items[i] != SIZE_MAX; d++) {
            float4 o = merged.acc[d * LN_WARP + lane];
            *(float2 *)(p.a.out + items[i] * D + 8 * d + lane % 4 * 2) =
                make_float2((i == 0 ? o.x : o.z) * normalizer, (i == 0 ? o.y : o.w) * normalizer);
        }
    }
}

template <int D, int DTYPE>
static __global__ void __launch_bounds__(WARPS(D) * LN_WARP, 1)
    prefill(const __grid_constant__ ln_mma_attention_args p) {
    extern __shared__ __align__(16) uint16_t tiles[];
    ln_pdl_launch_and_wait();
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    size_t kv_head = blockIdx.y, seq = blockIdx.z;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * WARPS(D) * 16;
    if (first_row >= n_rows || (p.uses_split_kv && n_tokens == 1))
        return;
    ln_query_rows rows;
    size_t items[2];
    ln_find_query_rows(p, seq, kv_head, first_row + 16 * warp, n_rows, &rows, items);
    kv_walk walk;
    ln_find_walk(p, seq, first_row, min(first_row + WARPS(D) * 16, n_rows) - 1, &walk.low,
                 &walk.high);
    uint32_t q[D / 16][4];
    ln_load_query<D, LN_KV_IS_BF16(DTYPE), LN_KV_QUANT_OF(DTYPE) != 0>(
        items[0] != SIZE_MAX ? p.a.q + items[0] * D : NULL,
        items[1] != SIZE_MAX ? p.a.q + items[1] * D : NULL, q);
    merged_rows merged;
    merged.acc = (float4 *)(tiles + 4 * LN_KV_TILE_ELEMENTS(D)) + warp * (D / 8) * LN_WARP;
    for (int d = 0; d < D / 8; d++)
        merged.acc[d * LN_WARP + lane] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < 2; i++)
        ln_merge_init(p, rows.head[i], &merged.row_max[i], &merged.row_sum[i]);
    walk.warp_low = __reduce_min_sync(0xffffffffu, (unsigned)min(rows.begin[0], rows.begin[1]));
    walk.warp_high = __reduce_max_sync(0xffffffffu, (unsigned)max(rows.end[0], rows.end[1]));
    ln_kv_tile_source from = ln_make_kv_tile_source(p, seq, kv_head, walk.low, walk.high,
                                                    threadIdx.x, WARPS(D) * LN_WARP);
    attend<D, DTYPE>(p, from, walk, rows, q, tiles, &merged);
    store_rows<D>(p, merged, items);
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE>
static int launch(const ln_mma_attention_args &args, size_t n_seqs, size_t most_tokens,
                  cudaStream_t stream) {
    size_t shared =
        4 * LN_KV_TILE_ELEMENTS(D) * sizeof(uint16_t) + (size_t)WARPS(D) * 16 * D * sizeof(float);
    cudaError_t code = cudaFuncSetAttribute(
        prefill<D, DTYPE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * args.heads_per_kv, WARPS(D) * 16),
              (unsigned)args.a.kv.n_heads, (unsigned)n_seqs);
    return ln_pdl_launch(prefill<D, DTYPE>, grid, WARPS(D) * LN_WARP, shared, stream, args);
}

template <int D>
static int launch_dtype(const ln_mma_attention_args &args, size_t n_seqs, size_t most_tokens,
                        cudaStream_t stream) {
    switch (args.a.kv.dtype) {
    case LN_KV_F16: return launch<D, LN_KV_F16>(args, n_seqs, most_tokens, stream);
    case LN_KV_BF16: return launch<D, LN_KV_BF16>(args, n_seqs, most_tokens, stream);
    case LN_KV_FP8: return launch<D, LN_KV_FP8>(args, n_seqs, most_tokens, stream);
    default: return launch<D, LN_KV_Q8_0>(args, n_seqs, most_tokens, stream);
    }
}

int ln_attention_mma_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                             cudaStream_t stream) {
    switch (args->a.kv.k_dim) {
    case 16: return launch_dtype<16>(*args, n_seqs, most_tokens, stream);
    case 32: return launch_dtype<32>(*args, n_seqs, most_tokens, stream);
    case 64: return launch_dtype<64>(*args, n_seqs, most_tokens, stream);
    case 80: return launch_dtype<80>(*args, n_seqs, most_tokens, stream);
    case 96: return launch_dtype<96>(*args, n_seqs, most_tokens, stream);
    case 128: return launch_dtype<128>(*args, n_seqs, most_tokens, stream);
    case 256: return launch_dtype<256>(*args, n_seqs, most_tokens, stream);
    default: return ln_attention_mma_wide_prefill(args, n_seqs, most_tokens, stream);
    }
}
