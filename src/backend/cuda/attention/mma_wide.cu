/* Attention of heads of 512 elements by mma.sync m16n8k16: caches of f16, bf16, int8 or E4M3,
 * decode and prefill by one kernel.
 *
 * O of a row is too large for a warp, so the eight warps of a block share the query rows (16, or 32
 * for prompts; tokens times the query heads of a KV head) and divide each KV tile of 64 keys:
 *
 *     S = Q K^T   a warp: 128 of the 512 elements (K slice), 32 keys; Q stays in registers
 *     softmax     eight lanes: a row, whose four K slices they add in order
 *     O += P V    a warp: 64 columns of O
 *
 * Scores of the K slices and P pass through shared memory. Who does what does not depend on the
 * number of rows, so decode and prefill have the same bits.
 *
 * OVERLAPS: K and V of a tile have a place each by cp.async, so V arrives during Q K^T and the next
 * K during the softmax; without, where shared memory is short, they share one. Prefill: grid (tiles
 * of rows, the last first, which see the most keys; KV heads; sequences); splits are merged in
 * registers. Decode (split-KV): grid (KV heads, sequences, KV splits), then merge.cu. Block 256.
 * Shared memory: one or two tiles, S of all slices, P. Bytes moved: K and V once for every tile of
 * rows. */
#include "backend/cuda/attention/mma_wide.cuh"

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/mma_walk.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"

enum {
    D = 512,
    WARPS = 8,
    THREADS = WARPS * LN_WARP,
    K_SLICES = 4,
    SLICE = D / K_SLICES,                 /* elements of Q and K that a warp multiplies */
    KEYS = LN_KV_TILE * K_SLICES / WARPS, /* of a tile, whose scores a warp has */
    COLUMNS = D / WARPS,                  /* of O, which a warp has */
    STRIDE = D + LN_KV_PAD,               /* of a row of K or V in shared memory */
    TILE_BYTES = LN_KV_TILE_ELEMENTS(D) * 2,
    ROW_LANES = 8,                      /* of a row's softmax */
    LANE_KEYS = LN_KV_TILE / ROW_LANES, /* two groups of four */
    S_STRIDE = LN_KV_TILE + 8           /* of a row of S or P in shared memory */
};

typedef struct wide_args {
    ln_mma_attention_args mma;
    bool decodes; /* sequences of one token, by KV splits */
} wide_args;

/* What a block computes: query rows of a KV head, and the KV tiles from key `first` to `stop`. */
typedef struct wide_job {
    unsigned seq, kv_head, first_row, n_rows; /* n_rows: of the sequence */
    size_t low, high;                         /* keys that its rows see */
    unsigned first, stop;
    bool is_partial; /* leaves the partial result of this split for the merge */
    unsigned split;
    bool is_cached; /* the first tile, by earlier steps */
} wide_job;

/* A row of the softmax, in all of its lanes but for row_sum, which is of the lane's keys. */
typedef struct wide_row {
    size_t head, position;
    unsigned begin, end;          /* keys that it sees; none if the row is not there */
    float row_max, row_sum;       /* of the KV split */
    float merged_max, merged_sum; /* of the splits before */
} wide_row;

/* Beside the tiles of K and V. */
template <int M16> struct wide_shared {
    float scores[K_SLICES][16 * M16][S_STRIDE];
    uint16_t p[16 * M16][S_STRIDE];
    float2 merge[16 * M16]; /* keep and add of ln_merge, at the end of a split */
    float rescale[16 * M16], normalizer[16 * M16];
};

/* What a warp has of the block's rows. */
template <int M16> struct wide_state {
    uint32_t q[M16][SLICE / 16][4];    /* its K slice */
    float acc[M16][COLUMNS / 8][4];    /* its columns of O of the KV split */
    float merged[M16][COLUMNS / 8][4]; /* of the splits before */
};

/* ---- which rows and keys --------------------------------------------------------------------- */

/* False: nothing. */
template <int M16>
static __device__ __forceinline__ bool find_job(const wide_args &args, wide_job &job) {
    const ln_mma_attention_args &p = args.mma;
    job.first_row = job.split = 0;
    job.is_partial = job.is_cached = false;
    if (args.decodes) {
        ln_kv_split at;
        job.kv_head = at.kv_head = blockIdx.x, job.seq = at.seq = blockIdx.y;
        job.split = at.number = blockIdx.z;
        if (!ln_find_kv_split(p, at))
            return false;
        job.n_rows = p.heads_per_kv;
        job.low = at.begin, job.high = at.end;
        job.first = at.first, job.stop = at.stop;
        job.is_partial = p.n_splits > 1;
        job.is_cached = ln_is_tile_cached(p, at);
        return true;
    }
    job.kv_head = blockIdx.y, job.seq = blockIdx.z;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[job.seq + 1] - p.a.seq_starts[job.seq]);
    job.n_rows = n_tokens * p.heads_per_kv;
    job.first_row = (gridDim.x - 1 - blockIdx.x) * 16 * M16;
    if (job.first_row >= job.n_rows || (p.uses_split_kv && n_tokens == 1))
        return false;
    ln_find_walk(p, job.seq, job.first_row, min(job.first_row + 16 * M16, job.n_rows) - 1, &job.low,
                 &job.high);
    job.first = (unsigned)job.low / LN_KV_TILE * LN_KV_TILE;
    job.stop = (unsigned)job.high;
    return true;
}

/* Where a row of the block lies among all heads of all tokens; SIZE_MAX: it is not there. */
static __device__ __forceinline__ size_t find_item(const ln_mma_attention_args &p,
                                                   const wide_job &job, unsigned row) {
    row += job.first_row;
    if (row >= job.n_rows)
        return SIZE_MAX;
    size_t token = (size_t)p.a.seq_starts[job.seq] + row / p.heads_per_kv;
    return token * p.a.n_heads + job.kv_head * p.heads_per_kv + row % p.heads_per_kv;
}

/* Where a head's partial results of the job's split lie. */
static __device__ __forceinline__ size_t find_partial(const ln_mma_attention_args &p,
                                                      const wide_job &job, size_t head) {
    return (job.seq * p.a.n_heads + head) * p.n_splits + job.split;
}

static __device__ __forceinline__ wide_row find_row(const ln_mma_attention_args &p,
                                                    const wide_job &job, unsigned row) {
    wide_row found = {};
    size_t item = find_item(p, job, row), begin, end;
    found.row_max = found.merged_max = -INFINITY;
    if (item == SIZE_MAX)
        return found;
    found.head = item % p.a.n_heads;
    found.position = (size_t)p.a.positions[item / p.a.n_heads];
    ln_key_range(p.a, job.seq, found.position, &begin, &end);
    found.begin = (unsigned)begin, found.end = (unsigned)end;
    ln_merge_init(p, found.head, &found.merged_max, &found.merged_sum);
    return found;
}

/* ---- K and V --------------------------------------------------------------------------------- */

/* Lanes 0 to 7 of each warp: the cache rows of its eight keys of the tile at `first`. */
static __device__ __forceinline__ size_t find_cached(const ln_kv_tile_source &from,
                                                     unsigned first) {
    return ln_kv_tile_row(from, first + threadIdx.x / LN_WARP * 8 + threadIdx.x % 8);
}

/* The tile of K or of V whose rows find_cached gave. 16-bit elements are queued as cp.async, which
 * the caller commits. */
template <int DTYPE, bool IS_K>
static __device__ __forceinline__ void load(const ln_mma_attention_args &p, size_t cached,
                                            uint16_t *tile) {
    enum { QUANT = LN_KV_QUANT_OF(DTYPE), PER_COPY = QUANT ? 16 : 8 };
    const ln_kv_array &array = IS_K ? p.a.keys : p.a.values;
    unsigned lane = threadIdx.x % LN_WARP;
    uint16_t *to = tile + threadIdx.x / LN_WARP * 8 * STRIDE;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        size_t row = __shfl_sync(0xffffffffu, cached, i);
#pragma unroll
        for (unsigned column = lane * PER_COPY; column < D; column += LN_WARP * PER_COPY)
            ln_load_kv_chunk<D, QUANT, IS_K>(array, row, column, to + i * STRIDE + column);
    }
    if (QUANT && lane < 8)
        *LN_KV_TILE_SCALES(D, to + lane * STRIDE) = *ln_kv_scale(array, cached);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The warp's K slice of Q. */
template <int M16, int DTYPE>
static __device__ __forceinline__ void load_query(const ln_mma_attention_args &p,
                                                  const wide_job &job, wide_state<M16> *state) {
    unsigned row = threadIdx.x % LN_WARP / 4, column = threadIdx.x / LN_WARP % K_SLICES * SLICE;
#pragma unroll
    for (int m = 0; m < M16; m++) {
        size_t low = find_item(p, job, 16 * m + row), high = find_item(p, job, 16 * m + row + 8);
        ln_load_query<SLICE, LN_KV_IS_BF16(DTYPE), LN_KV_QUANT_OF(DTYPE) != 0>(
            low != SIZE_MAX ? p.a.q + low * D + column : NULL,
            high != SIZE_MAX ? p.a.q + high * D + column : NULL, state->q[m]);
    }
}

/* Scores of the warp's K slice and keys, to shared memory. */
template <int M16, int DTYPE>
static __device__ __forceinline__ void
multiply_keys(const wide_state<M16> &state, const uint16_t *keys, wide_shared<M16> &shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned slice = warp % K_SLICES, first = warp / K_SLICES * KEYS;
    const uint16_t *row =
        keys + (first + lane % 8 + lane / 16 * 8) * STRIDE + slice * SLICE + lane / 8 % 2 * 8;
    float s[M16][KEYS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < SLICE / 16; k++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n += 2) {
            uint32_t b[4];
            ln_ldmatrix(b, row + n * 8 * STRIDE + 16 * k);
#pragma unroll
            for (int m = 0; m < M16; m++) {
                ln_mma<LN_KV_IS_BF16(DTYPE)>(s[m][n], state.q[m][k], b[0], b[1]);
                ln_mma<LN_KV_IS_BF16(DTYPE)>(s[m][n + 1], state.q[m][k], b[2], b[3]);
            }
        }
#pragma unroll
    for (int m = 0; m < M16; m++) {
        if (LN_KV_QUANT_OF(DTYPE))
            ln_scale_scores<2, KEYS / 8>(LN_KV_TILE_SCALES(D, keys + first * STRIDE),
                                         LN_KV_SCALE_STRIDE(D), LN_KV_DEQUANT_SCALE(DTYPE), s[m]);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                *(float2 *)&shared
                     .scores[slice][16 * m + 8 * i + lane / 4][first + 8 * n + lane % 4 * 2] =
                    make_float2(s[m][n][2 * i], s[m][n][2 * i + 1]);
    }
}

/* O += P V of the warp's columns. */
template <int M16, int DTYPE>
static __device__ __forceinline__ void
multiply_values(const wide_shared<M16> &shared, const uint16_t *values, wide_state<M16> *state) {
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * COLUMNS;
    const uint16_t *row = values + lane % 16 * STRIDE + column + lane / 16 * 8;
#pragma unroll
    for (int m = 0; m < M16; m++) {
        float low = shared.rescale[16 * m + lane / 4], high = shared.rescale[16 * m + lane / 4 + 8];
#pragma unroll
        for (int d = 0; d < COLUMNS / 8; d++) {
            state->acc[m][d][0] *= low, state->acc[m][d][1] *= low;
            state->acc[m][d][2] *= high, state->acc[m][d][3] *= high;
        }
    }
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++) {
        uint32_t a[M16][4];
#pragma unroll
        for (int m = 0; m < M16; m++)
            ln_ldmatrix(a[m], &shared.p[16 * m + lane % 16][16 * k + lane / 16 * 8]);
#pragma unroll
        for (int d = 0; d < COLUMNS / 8; d += 2) {
            uint32_t b[4];
            ln_ldmatrix_trans(b, row + k * 16 * STRIDE + d * 8);
#pragma unroll
            for (int m = 0; m < M16; m++) {
                ln_mma<LN_KV_IS_BF16(DTYPE)>(state->acc[m][d], a[m], b[0], b[1]);
                ln_mma<LN_KV_IS_BF16(DTYPE)>(state->acc[m][d + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* ---- online softmax -------------------------------------------------------------------------- */

/* By the eight lanes of a row. */
static __device__ __forceinline__ float reduce_max(float x) {
#pragma unroll
    for (int step = 1; step < ROW_LANES; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

static __device__ __forceinline__ float reduce_sum(float x) {
#pragma unroll
    for (int step = 1; step < ROW_LANES; step *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* The lane's key i in a tile. */
static __device__ __forceinline__ unsigned lane_key(int i) {
    return i / 4 * (LN_KV_TILE / 2) + threadIdx.x % ROW_LANES * 4 + i % 4;
}

/* The lane's scores of the tile at `first`: the sum of all K slices, finished and masked. */
template <int M16>
static __device__ __forceinline__ void read_scores(const ln_attention_args &p, const wide_row &row,
                                                   const wide_shared<M16> &shared, unsigned first,
                                                   float s[LANE_KEYS]) {
    unsigned at = threadIdx.x / ROW_LANES;
#pragma unroll
    for (int i = 0; i < LANE_KEYS; i += 4) {
        float4 sum = *(const float4 *)&shared.scores[0][at][lane_key(i)];
#pragma unroll
        for (int slice = 1; slice < K_SLICES; slice++) {
            float4 x = *(const float4 *)&shared.scores[slice][at][lane_key(i)];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        s[i] = sum.x, s[i + 1] = sum.y, s[i + 2] = sum.z, s[i + 3] = sum.w;
    }
    bool is_plain = ln_has_plain_scores(p);
#pragma unroll
    for (int i = 0; i < LANE_KEYS; i++) {
        unsigned key = first + lane_key(i);
        if (key < row.begin || key >= row.end)
            s[i] = -INFINITY;
        else if (!is_plain)
            s[i] = ln_finish_score(p, s[i], row.head, row.position, key);
    }
}

/* The factors by which a split joins those before it; ends: it is the last one. Partial results
 * stay as they are. */
template <int M16>
static __device__ __forceinline__ void finish_split(const ln_mma_attention_args &p,
                                                    const wide_job &job, bool ends, wide_row *row,
                                                    wide_shared<M16> &shared) {
    unsigned at = threadIdx.x / ROW_LANES;
    float row_sum = reduce_sum(row->row_sum), keep = 1.0f, add = 1.0f, normalizer = 1.0f;
    bool is_first = threadIdx.x % ROW_LANES == 0;
    if (job.is_partial) {
        if (is_first && at < job.n_rows)
            p.partial_stats[find_partial(p, job, row->head)] = make_float2(row->row_max, row_sum);
    } else {
        ln_merge_scales(&row->merged_max, row->row_max, &keep, &add);
        row->merged_sum = ln_merge(row->merged_sum, keep, row_sum, add);
        normalizer = ln_normalizer(row->merged_sum);
    }
    if (is_first) {
        shared.merge[at] = make_float2(keep, add);
        if (ends)
            shared.normalizer[at] = normalizer;
    }
    row->row_max = -INFINITY;
    row->row_sum = 0.0f;
}

/* P of the tile at `first`, to shared memory, by the lanes of a row. */
template <int M16, int DTYPE>
static __device__ __forceinline__ void update_softmax(const ln_mma_attention_args &p,
                                                      const uint16_t *values, unsigned first,
                                                      wide_row *row, wide_shared<M16> &shared) {
    enum { QUANT = LN_KV_QUANT_OF(DTYPE) };
    unsigned at = threadIdx.x / ROW_LANES;
    float factor = ln_score_factor(p.a), s[LANE_KEYS], tile_max = -INFINITY;
    read_scores<M16>(p.a, *row, shared, first, s);
#pragma unroll
    for (int i = 0; i < LANE_KEYS; i++)
        tile_max = fmaxf(tile_max, s[i]);
    float now = ln_update_max(row->row_max, reduce_max(tile_max), factor,
                              LN_RESCALE_THRESHOLD(QUANT), LN_MAX_MARGIN(QUANT));
    float rescale = ln_rescale_factor(row->row_max, now);
    row->row_max = now;
    row->row_sum *= rescale;
    if (threadIdx.x % ROW_LANES == 0)
        shared.rescale[at] = rescale;
#pragma unroll
    for (int i = 0; i < LANE_KEYS; i++) {
        s[i] = ln_softmax_p(s[i], factor, now);
        row->row_sum += s[i];
        if (QUANT)
            s[i] *= LN_KV_DEQUANT_SCALE(DTYPE) *
                    LN_KV_TILE_SCALES(D, values)[lane_key(i) * LN_KV_SCALE_STRIDE(D)];
    }
#pragma unroll
    for (int i = 0; i < LANE_KEYS; i += 4)
        *(uint2 *)&shared.p[at][lane_key(i)] =
            make_uint2(ln_pack_x2<LN_KV_IS_BF16(DTYPE)>(s[i], s[i + 1]),
                       ln_pack_x2<LN_KV_IS_BF16(DTYPE)>(s[i + 2], s[i + 3]));
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Adds a finished split to those before it. */
template <int M16>
static __device__ __forceinline__ void merge_split(const wide_shared<M16> &shared,
                                                   wide_state<M16> *state) {
    unsigned row = threadIdx.x % LN_WARP / 4;
#pragma unroll
    for (int m = 0; m < M16; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 of = shared.merge[16 * m + row + i / 2 * 8];
#pragma unroll
            for (int d = 0; d < COLUMNS / 8; d++) {
                state->merged[m][d][i] =
                    ln_merge(state->merged[m][d][i], of.x, state->acc[m][d][i], of.y);
                state->acc[m][d][i] = 0.0f;
            }
        }
}

/* All KV tiles of the block, the first of which is queued, as is where the next rows lie. */
template <int M16, bool OVERLAPS, int DTYPE>
static __device__ __forceinline__ void
attend(const ln_mma_attention_args &p, const wide_job &job, const ln_kv_tile_source &from,
       size_t cached, uint16_t *keys, wide_shared<M16> &shared, wide_state<M16> *state) {
    uint16_t *values = OVERLAPS ? keys + LN_KV_TILE_ELEMENTS(D) : keys;
    bool has_row = threadIdx.x < 16 * M16 * ROW_LANES;
    wide_row row = find_row(p, job, threadIdx.x / ROW_LANES);
    for (unsigned first = job.first; first < job.stop; first += LN_KV_TILE) {
        bool ends = first + LN_KV_TILE >= job.stop;
        size_t next = find_cached(from, first + LN_KV_TILE);
        ln_cp_async_wait<0>();
        __syncthreads(); /* K has arrived, and all warps are done with the tile before */
        if (OVERLAPS) {
            load<DTYPE, false>(p, cached, values);
            ln_cp_async_commit();
        }
        multiply_keys<M16, DTYPE>(*state, keys, shared);
        __syncthreads(); /* scores are there, and K is done with */
        if (OVERLAPS && !ends)
            load<DTYPE, true>(p, next, keys);
        if (!OVERLAPS)
            load<DTYPE, false>(p, cached, values);
        ln_cp_async_commit();
        if (!OVERLAPS && LN_KV_QUANT_OF(DTYPE))
            __syncthreads(); /* scales of V */
        bool ends_split = ends || (first + LN_KV_TILE) % LN_KV_SPLIT == 0;
        if (has_row) {
            update_softmax<M16, DTYPE>(p, values, first, &row, shared);
            if (ends_split)
                finish_split<M16>(p, job, ends, &row, shared);
        }
        ln_cp_async_wait<OVERLAPS ? 1 : 0>();
        __syncthreads(); /* P and V are there */
        multiply_values<M16, DTYPE>(shared, values, state);
        if (ends_split)
            merge_split<M16>(shared, state);
        if (!OVERLAPS && !ends) {
            __syncthreads();
            load<DTYPE, true>(p, next, keys);
            ln_cp_async_commit();
        }
        cached = next;
    }
}

template <int M16>
static __device__ __forceinline__ void store(const ln_mma_attention_args &p, const wide_job &job,
                                             const wide_shared<M16> &shared,
                                             const wide_state<M16> &state) {
    unsigned lane = threadIdx.x % LN_WARP;
    unsigned column = threadIdx.x / LN_WARP * COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < M16; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned row = 16 * m + 8 * i + lane / 4;
            size_t item = find_item(p, job, row);
            if (item == SIZE_MAX)
                continue;
            float *to = job.is_partial
                            ? p.partial_out + find_partial(p, job, item % p.a.n_heads) * D
                            : p.a.out + item * D;
            float normalizer = shared.normalizer[row];
#pragma unroll
            for (int d = 0; d < COLUMNS / 8; d++)
                *(float2 *)(to + column + 8 * d) =
                    make_float2(state.merged[m][d][2 * i] * normalizer,
                                state.merged[m][d][2 * i + 1] * normalizer);
        }
}

template <int M16, bool OVERLAPS, int DTYPE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_wide(const __grid_constant__ wide_args args) {
    extern __shared__ __align__(16) uint16_t tiles[];
    const ln_mma_attention_args &p = args.mma;
    ln_pdl_launch_dependents();
    wide_job job;
    if (!find_job<M16>(args, job))
        return;
    wide_shared<M16> &shared = *(wide_shared<M16> *)(tiles + (OVERLAPS ? 2 : 1) * TILE_BYTES / 2);
    ln_kv_tile_source from =
        ln_make_kv_tile_source(p, job.seq, job.kv_head, job.low, job.high, threadIdx.x, THREADS);
    size_t cached = find_cached(from, job.first);
    if (job.is_cached)
        load<DTYPE, true>(p, cached, tiles);
    ln_pdl_wait();
    if (!job.is_cached)
        load<DTYPE, true>(p, cached, tiles);
    ln_cp_async_commit();
    wide_state<M16> state = {};
    load_query<M16, DTYPE>(p, job, &state);
    attend<M16, OVERLAPS, DTYPE>(p, job, from, cached, tiles, shared, &state);
    store<M16>(p, job, shared, state);
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int M16> static size_t shared_bytes(bool overlaps) {
    return (overlaps ? 2 : 1) * (size_t)TILE_BYTES + sizeof(wide_shared<M16>);
}

template <int M16, bool OVERLAPS, int DTYPE>
static int launch(const wide_args &args, dim3 grid, cudaStream_t stream) {
    size_t shared = shared_bytes<M16>(OVERLAPS);
    cudaError_t code =
        cudaFuncSetAttribute(attend_wide<M16, OVERLAPS, DTYPE>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess)
        return code;
    return ln_pdl_launch(attend_wide<M16, OVERLAPS, DTYPE>, grid, THREADS, shared, stream, args);
}

template <int M16, bool OVERLAPS>
static int launch_dtype(const wide_args &args, dim3 grid, cudaStream_t stream) {
    switch (args.mma.a.kv.dtype) {
    case LN_KV_F16: return launch<M16, OVERLAPS, LN_KV_F16>(args, grid, stream);
    case LN_KV_BF16: return launch<M16, OVERLAPS, LN_KV_BF16>(args, grid, stream);
    case LN_KV_FP8: return launch<M16, OVERLAPS, LN_KV_FP8>(args, grid, stream);
    default: return launch<M16, OVERLAPS, LN_KV_Q8_0>(args, grid, stream);
    }
}

/* 16 rows to a block: decode, and prefill where shared memory has no room for 32. */
static int launch_16(const wide_args &args, unsigned most, dim3 grid, cudaStream_t stream) {
    return shared_bytes<1>(true) <= most ? launch_dtype<1, true>(args, grid, stream)
                                         : launch_dtype<1, false>(args, grid, stream);
}

int ln_attention_mma_wide_decode(const ln_mma_attention_args *args, size_t n_seqs,
                                 cudaStream_t stream) {
    unsigned most;
    int code = ln_max_shared_bytes(&most);
    dim3 grid((unsigned)args->a.kv.n_heads, (unsigned)n_seqs, args->n_splits);
    return code != 0 ? code : launch_16({*args, true}, most, grid, stream);
}

int ln_attention_mma_wide_prefill(const ln_mma_attention_args *args, size_t n_seqs,
                                  size_t most_tokens, cudaStream_t stream) {
    unsigned most;
    int code = ln_max_shared_bytes(&most);
    size_t n_rows = most_tokens * args->heads_per_kv;
    dim3 grid(ln_ceil_div(n_rows, 32), (unsigned)args->a.kv.n_heads, (unsigned)n_seqs);
    if (code == 0 && shared_bytes<2>(true) <= most)
        return launch_dtype<2, true>({*args, false}, grid, stream);
    grid.x = ln_ceil_div(n_rows, 16);
    return code != 0 ? code : launch_16({*args, false}, most, grid, stream);
}
