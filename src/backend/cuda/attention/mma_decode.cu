/* Split-KV decode attention (flash decoding) by mma.sync: sequences of one token each, caches of
 * f16, bf16, int8 or E4M3, head dims of 16 to 256, up to 16 query heads to a KV head.
 *
 * A warp computes one KV split of one KV head; the query heads that share it are the 16
 * rows of the MMA tile. Two pipeline stages, a tile of K and one of V, by cp.async: V arrives
 * during Q K^T, the next K during the softmax. Grid (KV heads, sequences, KV splits), block 32: the
 * last splits, which are short, come last and fill the tail. Shared memory: the two tiles. Bytes
 * moved: K and V once. What earlier steps cached is prefetched ahead of the PDL wait. */
#include "backend/cuda/attention/mma_decode.cuh"

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/mma_walk.cuh"
#include "backend/cuda/attention/mma_wide.cuh"
#include "backend/cuda/runtime/pdl.cuh"

/* A tile of K or of V. */
template <int D, int DTYPE, bool IS_K>
static __device__ __forceinline__ void load(const ln_mma_attention_args &p,
                                            const ln_kv_tile_source &from, unsigned first,
                                            uint16_t *tile) {
    const ln_kv_array &array = IS_K ? p.a.keys : p.a.values;
    ln_load_kv_tile<D, LN_KV_QUANT_OF(DTYPE), false, IS_K>(from, first, array, tile, array, NULL);
}

/* Queues the first tiles of K and V. */
template <int D, int DTYPE>
static __device__ __forceinline__ void load_first(const ln_mma_attention_args &p,
                                                  const ln_kv_tile_source &from, unsigned first,
                                                  uint16_t *keys, uint16_t *values) {
    load<D, DTYPE, true>(p, from, first, keys);
    ln_cp_async_commit();
    load<D, DTYPE, false>(p, from, first, values);
    ln_cp_async_commit();
}

/* Online softmax over the tiles of a split, the first of which are queued. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
attend_split(const ln_mma_attention_args &p, const ln_kv_tile_source &from,
             const ln_query_rows &rows, const uint32_t q[D / 16][4], unsigned first, unsigned end,
             uint16_t *keys, uint16_t *values, ln_softmax_state<D> *state) {
    const float factor = ln_score_factor(p.a);
    ln_softmax_init(state);
    for (; first < end; first += LN_KV_TILE) {
        float s[LN_KV_TILE_N8][4];
        ln_cp_async_wait<1>();
        __syncwarp();
        ln_tile_scores<D, DTYPE>(q, keys, s);
        __syncwarp();
        if (first + LN_KV_TILE < end)
            load<D, DTYPE, true>(p, from, first + LN_KV_TILE, keys);
        ln_cp_async_commit();
        ln_finish_scores(p.a, rows, first, s);
        ln_online_softmax<D, LN_KV_QUANT_OF(DTYPE) != 0>(s, factor, state);
        ln_cp_async_wait<1>();
        __syncwarp();
        ln_tile_values<D, DTYPE>(s, values, state);
        __syncwarp();
        if (first + LN_KV_TILE < end)
            load<D, DTYPE, false>(p, from, first + LN_KV_TILE, values);
        ln_cp_async_commit();
    }
}

/* The result of row i of a lane where there is one split, with the bits of the merge. */
template <int D>
static __device__ __forceinline__ void store_result(const ln_mma_attention_args &p, size_t item,
                                                    size_t head, const ln_softmax_state<D> &state,
                                                    int i, float split_sum) {
    float row_max, row_sum, keep, add;
    ln_merge_init(p, head, &row_max, &row_sum);
    ln_merge_scales(&row_max, state.row_max[i], &keep, &add);
    float normalizer = ln_normalizer(ln_merge(row_sum, keep, split_sum, add));
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        *(float2 *)(p.a.out + item * D + 8 * d + threadIdx.x % 4 * 2) =
            make_float2(ln_merge(0.0f, keep, state.acc[d][2 * i], add) * normalizer,
                        ln_merge(0.0f, keep, state.acc[d][2 * i + 1], add) * normalizer);
}

/* The lane's rows, and their queries: NULL for rows that are not there. */
static __device__ __forceinline__ ln_query_rows find_rows(const ln_mma_attention_args &p,
                                                          const ln_kv_split &at, size_t head_dim,
                                                          const float *q_rows[2]) {
    ln_query_rows rows;
    for (int i = 0; i < 2; i++) {
        unsigned row = threadIdx.x / 4 + 8 * i, head = at.kv_head * p.heads_per_kv + row;
        bool is_there = row < p.heads_per_kv;
        rows.head[i] = is_there ? head : at.kv_head * p.heads_per_kv;
        rows.position[i] = at.position;
        rows.begin[i] = at.begin;
        rows.end[i] = at.end;
        q_rows[i] = is_there ? p.a.q + (at.token * p.a.n_heads + head) * head_dim : NULL;
    }
    return rows;
}

template <int D, int DTYPE>
static __global__ void __launch_bounds__(LN_WARP)
    decode(const __grid_constant__ ln_mma_attention_args p) {
    extern __shared__ __align__(16) uint16_t tiles[];
    ln_pdl_launch_dependents();
    ln_kv_split at;
    at.kv_head = blockIdx.x, at.seq = blockIdx.y, at.number = blockIdx.z;
    if (!ln_find_kv_split(p, at))
        return;
    uint16_t *keys = tiles, *values = tiles + LN_KV_TILE_ELEMENTS(D);
    ln_kv_tile_source from =
        ln_make_kv_tile_source(p, at.seq, at.kv_head, at.begin, at.end, threadIdx.x, LN_WARP);
    bool is_cached = ln_is_tile_cached(p, at);
    if (is_cached)
        load_first<D, DTYPE>(p, from, at.first, keys, values);
    ln_pdl_wait();
    if (!is_cached)
        load_first<D, DTYPE>(p, from, at.first, keys, values);
    const float *q_rows[2];
    ln_query_rows rows = find_rows(p, at, D, q_rows);
    uint32_t q[D / 16][4];
    ln_load_query<D, LN_KV_IS_BF16(DTYPE), LN_KV_QUANT_OF(DTYPE) != 0>(q_rows[0], q_rows[1], q);
    ln_softmax_state<D> state;
    attend_split<D, DTYPE>(p, from, rows, q, at.first, at.stop, keys, values, &state);
    for (int i = 0; i < 2; i++) {
        float row_sum = ln_reduce_row_sum(state.row_sum[i]);
        if (q_rows[i] == NULL)
            continue;
        if (p.n_splits == 1) {
            store_result<D>(p, at.token * p.a.n_heads + rows.head[i], rows.head[i], state, i,
                            row_sum);
            continue;
        }
        size_t to = (at.seq * p.a.n_heads + rows.head[i]) * p.n_splits + at.number;
        if (threadIdx.x % 4 == 0)
            p.partial_stats[to] = make_float2(state.row_max[i], row_sum);
        for (int d = 0; d < D / 8; d++)
            *(float2 *)(p.partial_out + to * D + 8 * d + threadIdx.x % 4 * 2) =
                make_float2(state.acc[d][2 * i], state.acc[d][2 * i + 1]);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE>
static int launch(const ln_mma_attention_args &args, size_t n_seqs, cudaStream_t stream) {
    size_t shared = 2 * LN_KV_TILE_ELEMENTS(D) * sizeof(uint16_t);
    cudaError_t code = cudaFuncSetAttribute(
        decode<D, DTYPE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess)
        return code;
    dim3 grid((unsigned)args.a.kv.n_heads, (unsigned)n_seqs, args.n_splits);
    return ln_pdl_launch(decode<D, DTYPE>, grid, LN_WARP, shared, stream, args);
}

template <int D>
static int launch_dtype(const ln_mma_attention_args &args, size_t n_seqs, cudaStream_t stream) {
    switch (args.a.kv.dtype) {
    case LN_KV_F16: return launch<D, LN_KV_F16>(args, n_seqs, stream);
    case LN_KV_BF16: return launch<D, LN_KV_BF16>(args, n_seqs, stream);
    case LN_KV_FP8: return launch<D, LN_KV_FP8>(args, n_seqs, stream);
    default: return launch<D, LN_KV_Q8_0>(args, n_seqs, stream);
    }
}

int ln_attention_mma_decode(const ln_mma_attention_args *args, size_t n_seqs, cudaStream_t stream) {
    switch (args->a.kv.k_dim) {
    case 16: return launch_dtype<16>(*args, n_seqs, stream);
    case 32: return launch_dtype<32>(*args, n_seqs, stream);
    case 64: return launch_dtype<64>(*args, n_seqs, stream);
    case 80: return launch_dtype<80>(*args, n_seqs, stream);
    case 96: return launch_dtype<96>(*args, n_seqs, stream);
    case 128: return launch_dtype<128>(*args, n_seqs, stream);
    case 256: return launch_dtype<256>(*args, n_seqs, stream);
    default: return ln_attention_mma_wide_decode(args, n_seqs, stream);
    }
}
