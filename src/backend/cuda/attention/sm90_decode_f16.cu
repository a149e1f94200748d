/* Split-KV decode attention on Hopper (flash decoding): caches of f16 and bf16, head dims 64, 128
 * and 256, up to 8 query heads to a KV head, one token a sequence. Where heads need a rotation
 * alone, it also rotates q and k and writes k and v to the cache (LN_OP_QKV).
 *
 * A block is one warp and computes one KV split of one KV head: S = Q K^T, online softmax, O^T =
 * V^T P^T by mma.sync m16n8k16; query heads are the rows of S and the columns of O^T. Or it
 * computes all of them, one behind the other, and nothing is left to merge (ln_plan_decodes_whole):
 * the last split is short, and a warp of its own would take most of its time to begin. K and V
 * arrive by cp.async in stages of 32 keys, K K V V to a KV tile; two stages, or four where all
 * blocks fit the GPU at once. Few stages leave room for more warps, and few instructions per tile
 * matter most: the block ids of a whole split are loaded at once. Bits are those of mma_decode.cu.
 *
 * Keys and values of earlier steps are prefetched ahead of the PDL wait.
 *
 * Grid (KV heads, sequences, KV splits), block 32; the last splits, which are short, come last.
 * Shared memory: N_STAGES stages of 64 D bytes, and float32 heads of q, k and v. Bytes moved: K and
 * V once. */
#include "backend/cuda/attention/sm90_decode_f16.cuh"

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

enum {
    MAX_HEADS = LN_SM90_DECODE_F16_MAX_HEADS, /* query heads to a KV head */
    GROUP = 16,                               /* keys that lie in one block of the cache */
    STAGES = 2,
    LONG_STAGES = 4,       /* where no more than LONG_BLOCKS_PER_SM blocks share an SM */
    LONG_BLOCKS_PER_SM = 6 /* of head dim 256 half as many, as stages are twice as large */
};

/* A pipeline stage: [KEYS][ROW_BYTES]. Swizzle: the 16 bytes at i of a row lie at i ^ row % 8. */
template <int D> struct stage_shape {
    static constexpr unsigned ROW_BYTES = 2 * D;
    static constexpr unsigned CHUNKS = ROW_BYTES / 16; /* of a row */
    static constexpr unsigned ROWS = LN_WARP / CHUNKS; /* that a warp copies at once */
    static constexpr unsigned KEYS = 32;
    static constexpr unsigned STAGE_BYTES = KEYS * ROW_BYTES;
    static constexpr unsigned PARTS = (CHUNKS + 15) / 16; /* of a row, eight bytes to a lane */
};

typedef struct decode_args {
    ln_mma_attention_args mma;
    bool fuses_qkv; /* rotates q and k, caches k and v */
    ln_qkv_args qkv;
    bool converts; /* of whole sequences: the result, for the next linear */
    ln_act_view to;
} decode_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A KV split, or all of them, of a KV head of a sequence, whose one token has the sequence's
 * number. */
typedef struct kv_split {
    unsigned seq, kv_head, number;
    unsigned begin, end;  /* keys that the token sees */
    unsigned first, stop; /* of them the split's; `first` begins a KV tile */
    unsigned low, high;   /* those of the split that are in the cache */
    unsigned block;       /* id of a cache block of the split, or of the next (load_blocks) */
    bool has_new;         /* the split has the token's own key, which is not yet cached */
} kv_split;

/* ---- K and V to shared memory ---------------------------------------------------------------- */

/* A block id for each lane, of a split's cache blocks and those of the next: lane i has that of
 * which i is the number modulo the warp's lanes. */
static __device__ __forceinline__ unsigned load_blocks(const decode_args &p, unsigned seq,
                                                       unsigned first_key) {
    static_assert(LN_WARP * GROUP >= 2 * LN_KV_SPLIT, "a lane for each block of two splits");
    unsigned first = first_key >> p.mma.block_shift;
    unsigned block = first + (threadIdx.x - first) % LN_WARP;
    block = min(block, (unsigned)p.mma.a.max_blocks - 1);
    return (unsigned)p.mma.a.block_tables[seq * p.mma.a.max_blocks + block];
}

/* The cache row of a key of the split; by all lanes. */
static __device__ __forceinline__ size_t find_row(const decode_args &p, const kv_split &at,
                                                  unsigned key) {
    unsigned shift = p.mma.block_shift, n_heads = (unsigned)p.mma.a.kv.n_heads;
    unsigned block = __shfl_sync(0xffffffffu, at.block, (key >> shift) % LN_WARP);
    return ((size_t)(block * n_heads + at.kv_head) << shift) + (key & ((1u << shift) - 1));
}

/* Queues the copies of keys first .. first + KEYS - 1 as one cp.async group. Of groups of which
 * nothing is cached there are none: what lies in the stage then, and in rows of others that the
 * token does not see, is masked (K) or cleared (V). */
template <typename SHAPE>
static __device__ __forceinline__ void load_stage(const decode_args &p, const kv_split &at,
                                                  const char *data, unsigned first, char *stage) {
    constexpr unsigned ROWS = SHAPE::ROWS, ROW_BYTES = SHAPE::ROW_BYTES;
    unsigned lane = threadIdx.x, row = lane / SHAPE::CHUNKS;
    unsigned to = row * ROW_BYTES + (lane % SHAPE::CHUNKS ^ row) * 16; /* of rows 0 .. ROWS - 1 */
    data += lane * 16;
#pragma unroll
    for (unsigned group = 0; group < SHAPE::KEYS; group += GROUP) {
        unsigned key = first + group;
        if (key >= at.high || key + GROUP <= at.low)
            continue;
        const char *from = data + find_row(p, at, key) * ROW_BYTES;
#pragma unroll
        for (unsigned i = 0; i < GROUP; i += ROWS)
            ln_cp_async_16(stage + (to ^ i % 8 * 16) + (group + i) * ROW_BYTES,
                           from + i * ROW_BYTES);
    }
    ln_cp_async_commit();
}

/* Queues the copies of the query heads of a KV head, then its new k and v, as one cp.async group.
 * heads [heads_per_kv + 2][D] */
template <int D>
static __device__ __forceinline__ void load_heads(const decode_args &p, const kv_split &at,
                                                  float *heads) {
    constexpr unsigned CHUNKS = D / 4; /* of a head */
    unsigned n = p.mma.heads_per_kv, lane = threadIdx.x;
    size_t kv_head = (size_t)at.seq * p.mma.a.kv.n_heads + at.kv_head;
    const float *q = p.mma.a.q + kv_head * n * D;
    for (unsigned i = lane; i < n * CHUNKS; i += LN_WARP)
        ln_cp_async_16(heads + 4 * i, q + 4 * i);
    for (unsigned i = lane; at.has_new && i < CHUNKS; i += LN_WARP) {
        ln_cp_async_16(heads + n * D + 4 * i, p.qkv.k + kv_head * D + 4 * i);
        ln_cp_async_16(heads + (n + 1) * D + 4 * i, p.qkv.v + kv_head * D + 4 * i);
    }
    ln_cp_async_commit();
}

/* The token's own cache rows: in part i a lane has the eight bytes at 32 i + lane. */
template <int D> struct new_rows { uint2 k[stage_shape<D>::PARTS], v[stage_shape<D>::PARTS]; };

template <bool BF16> static __device__ __forceinline__ uint2 pack_four(const float *x) {
    float4 v = *(const float4 *)x;
    return make_uint2(ln_pack_x2<BF16>(v.x, v.y), ln_pack_x2<BF16>(v.z, v.w));
}

/* Rotates q and k, which have arrived, and writes k and v to the cache. */
template <int D, bool BF16>
static __device__ __forceinline__ void finish_heads(const decode_args &p, const kv_split &at,
                                                    int slot, const ln_rope_angles &angles,
                                                    float *heads, new_rows<D> &fresh) {
    unsigned n = p.mma.heads_per_kv, lane = threadIdx.x;
#pragma unroll 1
    for (unsigned i = 0; i < n + at.has_new; i++)
        ln_rotate_head(p.qkv.rope, angles, heads + i * D);
    if (!at.has_new || lane >= D / 4)
        return;
    size_t row = ln_kv_row(p.qkv.kv, (size_t)slot, at.kv_head) * 2 * D;
#pragma unroll
    for (unsigned i = 0; i < stage_shape<D>::PARTS; i++) {
        unsigned word = i * LN_WARP + lane;
        fresh.k[i] = pack_four<BF16>(heads + n * D + 4 * word);
        fresh.v[i] = pack_four<BF16>(heads + (n + 1) * D + 4 * word);
        *(uint2 *)(p.mma.a.keys.data + row + 8 * word) = fresh.k[i];
        *(uint2 *)(p.mma.a.values.data + row + 8 * word) = fresh.v[i];
    }
}

/* Puts the token's own row into a stage that begins at key `first`, if it belongs there. */
template <typename SHAPE>
static __device__ __forceinline__ void
store_new_row(const kv_split &at, const uint2 (&bytes)[SHAPE::PARTS], unsigned first, char *stage) {
    unsigned lane = threadIdx.x, row = at.end - 1 - first;
    if (!at.has_new || row >= SHAPE::KEYS)
        return;
    char *to = stage + row * SHAPE::ROW_BYTES + lane % 2 * 8;
#pragma unroll
    for (unsigned i = 0; i < SHAPE::PARTS; i++)
        if (lane < 2 * SHAPE::CHUNKS)
            *(uint2 *)(to + (i * LN_WARP / 2 + lane / 2 ^ row % 8) * 16) = bytes[i];
    __syncwarp();
}

/* Clears the rows of V that the token does not see, whose P is 0: they may be no numbers. */
template <typename SHAPE>
static __device__ __forceinline__ void clear_unseen_rows(const kv_split &at, unsigned first,
                                                         char *stage) {
    if (first >= at.begin && first + SHAPE::KEYS <= at.end)
        return;
    unsigned lane = threadIdx.x;
    for (unsigned row = lane / SHAPE::CHUNKS; row < SHAPE::KEYS; row += SHAPE::ROWS)
        if (first + row < at.begin || first + row >= at.end)
            *(uint4 *)(stage + row * SHAPE::ROW_BYTES + lane % SHAPE::CHUNKS * 16) =
                make_uint4(0, 0, 0, 0);
    __syncwarp();
}

/* ---- products -------------------------------------------------------------------------------- */

/* The lane's ldmatrix row in a stage, for the first 16 columns: keys 0 .. 7 and 8 .. 15, each with
 * both halves of the columns. Column 16 i is at ^ 32 i. */
template <typename SHAPE> static __device__ __forceinline__ unsigned matrix_offset(void) {
    unsigned lane = threadIdx.x, row = lane % 8 + lane / 16 * 8;
    return row * SHAPE::ROW_BYTES + (lane / 8 % 2 ^ lane % 8) * 16;
}

/* S = Q K^T of the keys of a stage. */
template <int D, bool BF16, typename SHAPE>
static __device__ __forceinline__ void qk(const uint32_t q[D / 16][4], const char *keys,
                                          float (*s)[4]) {
    constexpr int N = SHAPE::KEYS / 8;
    unsigned at = matrix_offset<SHAPE>();
#pragma unroll
    for (int n = 0; n < N; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4]; /* keys 0 .. 7 with both halves of the columns, then keys 8 .. 15 */
            ln_ldmatrix(b, keys + (at ^ 32 * k) + n * 8 * SHAPE::ROW_BYTES);
            ln_mma<BF16>(s[n], q[k], b[0], b[1]);
            ln_mma<BF16>(s[n + 1], q[k], b[2], b[3]);
        }
}

/* O^T += V^T P^T of the keys of a stage: product d has head dims 16 d and on. */
template <int D, bool BF16, typename SHAPE>
static __device__ __forceinline__ void pv(const float (*s)[4], const char *values,
                                          ln_transposed_acc<D> *o) {
    unsigned at = matrix_offset<SHAPE>();
#pragma unroll
    for (unsigned k = 0; k < SHAPE::KEYS / 16; k++) {
        uint32_t low = ln_pack_x2<BF16>(s[2 * k][0], s[2 * k][1]);
        uint32_t high = ln_pack_x2<BF16>(s[2 * k + 1][0], s[2 * k + 1][1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t a[4];
            ln_ldmatrix_trans(a, values + (at ^ 32 * d) + k * 16 * SHAPE::ROW_BYTES);
            ln_mma<BF16>(o->acc[d], a, low, high);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* Partial O, running max and row sum to memory. */
template <int D>
static __device__ __forceinline__ void
store_split(const ln_mma_attention_args &p, const kv_split &at, const ln_softmax_state<8> &state,
            const ln_transposed_acc<D> &o) {
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, n = p.heads_per_kv;
    size_t item = (size_t)at.seq * p.a.n_heads + at.kv_head * n;
    float row_sum = ln_reduce_row_sum(state.row_sum[0]);
    float *to = p.partial_out + (item * p.n_splits + at.number) * D;
    size_t stride = (size_t)p.n_splits * D;
    if (t == 0 && g < n)
        p.partial_stats[(item + g) * p.n_splits + at.number] =
            make_float2(state.row_max[0], row_sum);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (2 * t + i >= n)
            continue;
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            to[(2 * t + i) * stride + 16 * d + g] = o.acc[d][i];
            to[(2 * t + i) * stride + 16 * d + g + 8] = o.acc[d][2 + i];
        }
    }
}

/* What the KV splits so far have given. */
template <int D> struct merged_splits {
    float row_max, row_sum; /* of row g */
    ln_transposed_acc<D> o;
};

/* Adds a split, as merge.cu does. */
template <int D>
static __device__ __forceinline__ void merge_split(const ln_softmax_state<8> &state,
                                                   const ln_transposed_acc<D> &o,
                                                   merged_splits<D> &merged) {
    float keep, add;
    ln_merge_scales(&merged.row_max, state.row_max[0], &keep, &add);
    merged.row_sum = ln_merge(merged.row_sum, keep, ln_reduce_row_sum(state.row_sum[0]), add);
    float2 keeps = ln_transposed_rows(keep), adds = ln_transposed_rows(add);
#pragma unroll
    for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            merged.o.acc[d][i] = ln_merge(merged.o.acc[d][i], i % 2 == 0 ? keeps.x : keeps.y,
                                          o.acc[d][i], i % 2 == 0 ? adds.x : adds.y);
}

/* The result of a KV head's rows, through shared memory, `rows` [heads_per_kv][D + 4], so that each
 * lane has four columns of a row. */
template <int D>
static __device__ __forceinline__ void store_result(const decode_args &p, const kv_split &at,
                                                    const merged_splits<D> &merged, float *rows) {
    enum { STRIDE = D + 4, FOURS = D / 4 };
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4, n = p.mma.heads_per_kv;
    float2 normalizers = ln_transposed_rows(ln_normalizer(merged.row_sum));
    __syncwarp();
#pragma unroll
    for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (2 * t + i % 2 < n)
                rows[(2 * t + i % 2) * STRIDE + 16 * d + g + i / 2 * 8] =
                    merged.o.acc[d][i] * (i % 2 == 0 ? normalizers.x : normalizers.y);
    __syncwarp();
    size_t first = (size_t)at.kv_head * n * D, n_cols = p.mma.a.n_heads * D;
    float *out = p.mma.a.out + at.seq * n_cols + first;
    for (unsigned i = lane; i < n * FOURS; i += LN_WARP) {
        float4 y = *(const float4 *)(rows + i / FOURS * STRIDE + i % FOURS * 4);
        const float four[4] = {y.x, y.y, y.z, y.w};
        *(float4 *)(out + 4 * i) = y;
        if (p.converts)
            ln_act_store(p.to, at.seq, first + 4 * i, four);
    }
}

/* The block's KV split, or all of them; false: the token sees nothing of it. */
template <bool WHOLE>
static __device__ __forceinline__ bool find_split(const decode_args &p, kv_split &at) {
    unsigned begin_key = WHOLE ? 0 : blockIdx.z * LN_KV_SPLIT;
    at.kv_head = blockIdx.x, at.seq = blockIdx.y, at.number = blockIdx.z;
    at.block = load_blocks(p, at.seq, begin_key);
    size_t begin, end;
    ln_key_range(p.mma.a, at.seq, (size_t)p.mma.a.positions[at.seq], &begin, &end);
    at.begin = (unsigned)begin, at.end = (unsigned)end;
    at.first = max(begin_key, at.begin / LN_KV_TILE * LN_KV_TILE);
    at.stop = WHOLE ? at.end : min(begin_key + LN_KV_SPLIT, at.end);
    at.has_new = p.fuses_qkv && at.stop == at.end;
    at.low = max(at.first, at.begin);
    at.high = at.stop - at.has_new;
    if (WHOLE && at.first >= LN_KV_SPLIT)
        at.block = load_blocks(p, at.seq, at.first / LN_KV_SPLIT * LN_KV_SPLIT);
    return WHOLE || (begin_key < end && begin_key + LN_KV_SPLIT > begin);
}

/* The rows for masks and biases; a lane has row g alone. */
static __device__ __forceinline__ ln_query_rows find_rows(const decode_args &p,
                                                          const kv_split &at) {
    ln_query_rows rows;
    for (int i = 0; i < 2; i++) {
        rows.head[i] =
            at.kv_head * p.mma.heads_per_kv + min(threadIdx.x / 4, p.mma.heads_per_kv - 1);
        rows.position[i] = at.end - 1;
        rows.begin[i] = at.begin;
        rows.end[i] = at.end;
    }
    return rows;
}

/* All tiles of the split, the first stages of which are under way. `stages` ends where `heads`
 * begins. WHOLE: of all splits, which `merged` takes. */
template <int D, bool BF16, int N_STAGES, bool WHOLE>
static __device__ __forceinline__ void
attend_split(const decode_args &p, kv_split &at, const ln_query_rows &rows,
             const uint32_t q[D / 16][4], const new_rows<D> &fresh, char *stages,
             const float *heads, ln_softmax_state<8> &state, ln_transposed_acc<D> &o,
             merged_splits<D> &merged) {
    typedef stage_shape<D> shape;
    enum { TILE_STAGES = 4 };
    static_assert(N_STAGES <= TILE_STAGES && 2 * shape::KEYS == LN_KV_TILE, "the order of stages");
    const char *const arrays[2] = {p.mma.a.keys.data, p.mma.a.values.data};
    const float factor = ln_score_factor(p.mma.a);
    unsigned next_block = 0; /* at.block of the next split */
    ln_softmax_init(&state);
    char *stage = stages;
#pragma unroll 1
    for (unsigned first = at.first; first < at.stop; first += LN_KV_TILE) {
        if (WHOLE && (first % LN_KV_SPLIT == 0 || first == at.first)) {
            at.block = first == at.first ? at.block : next_block;
            next_block = load_blocks(p, at.seq, (first / LN_KV_SPLIT + 1) * LN_KV_SPLIT);
        }
        float s[LN_KV_TILE_N8][4];
#pragma unroll
        for (int i = 0; i < TILE_STAGES; i++) {
            unsigned from = first + i % 2 * shape::KEYS, next = i + N_STAGES;
            ln_cp_async_wait<N_STAGES - 1>();
            __syncwarp();
            store_new_row<shape>(at, i < 2 ? fresh.k : fresh.v, from, stage);
            if (i < 2) {
                qk<D, BF16, shape>(q, stage, s + i % 2 * (shape::KEYS / 8));
            } else {
                clear_unseen_rows<shape>(at, from, stage);
                pv<D, BF16, shape>(s + i % 2 * (shape::KEYS / 8), stage, &o);
            }
            __syncwarp();
            load_stage<shape>(p, at, arrays[next / 2 % 2],
                              first + next / TILE_STAGES * LN_KV_TILE + next % 2 * shape::KEYS,
                              stage);
            stage = stage + shape::STAGE_BYTES == (const char *)heads ? stages
                                                                      : stage + shape::STAGE_BYTES;
            if (i == 1) {
                ln_finish_scores(p.mma.a, rows, first, s);
                ln_online_softmax<D>(s, factor, &state, &o);
            }
        }
        unsigned next = first + LN_KV_TILE;
        if (WHOLE && D <= LN_DECODES_WHOLE_DIM && (next % LN_KV_SPLIT == 0 || next >= at.stop)) {
            merge_split<D>(state, o, merged);
            ln_softmax_init(&state);
            o = {};
        }
    }
    if (WHOLE && D > LN_DECODES_WHOLE_DIM)
        merge_split<D>(state, o, merged); /* the only one */
}

#endif

template <int D, bool BF16, int N_STAGES, bool WHOLE>
static __global__ void __launch_bounds__(LN_WARP) decode(const __grid_constant__ decode_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<D> shape;
    extern __shared__ __align__(128) char stages[];
    float *heads = (float *)(stages + N_STAGES * shape::STAGE_BYTES);
    unsigned lane = threadIdx.x;
    ln_pdl_launch_dependents();
    kv_split at;
    if (!find_split<WHOLE>(p, at))
        return;
    bool is_early = p.mma.reads_past_only && (p.fuses_qkv || at.first + LN_KV_TILE < at.end);
    if (!is_early)
        ln_pdl_wait();
#pragma unroll
    for (int i = 0; i < N_STAGES; i++)
        load_stage<shape>(p, at, i < 2 ? p.mma.a.keys.data : p.mma.a.values.data,
                          at.first + i % 2 * shape::KEYS, stages + i * shape::STAGE_BYTES);
    ln_rope_angles angles = {};
    int slot = at.has_new ? p.qkv.slots[at.seq] : 0;
    if (p.fuses_qkv)
        ln_load_rope_angles(p.qkv, (int32_t)(at.end - 1), angles);
    ln_pdl_wait();
    load_heads<D>(p, at, heads);
    ln_cp_async_wait<0>();
    __syncwarp();
    new_rows<D> fresh = {};
    if (p.fuses_qkv)
        finish_heads<D, BF16>(p, at, slot, angles, heads, fresh);
    ln_query_rows rows = find_rows(p, at);
    uint32_t q[D / 16][4];
    ln_load_query<D, BF16>(lane / 4 < p.mma.heads_per_kv ? heads + lane / 4 * D : NULL, NULL, q);
    ln_transposed_acc<D> o = {};
    ln_softmax_state<8> state;
    merged_splits<D> merged = {};
    if (WHOLE)
        ln_merge_init(p.mma, rows.head[0], &merged.row_max, &merged.row_sum);
    attend_split<D, BF16, N_STAGES, WHOLE>(p, at, rows, q, fresh, stages, heads, state, o, merged);
    if constexpr (WHOLE)
        store_result<D>(p, at, merged, (float *)stages);
    else
        store_split<D>(p.mma, at, state, o);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, bool BF16, int N_STAGES, bool WHOLE>
static int launch(const decode_args &p, size_t n_seqs, cudaStream_t stream) {
    size_t ring = N_STAGES * stage_shape<D>::STAGE_BYTES, head = D * sizeof(float);
    static_assert(MAX_HEADS * (D + 4) * sizeof(float) <= N_STAGES * stage_shape<D>::STAGE_BYTES,
                  "results fit in place of stages");
    /* whatever the step is, as graphs of others keep their launches */
    int code = cudaFuncSetAttribute(decode<D, BF16, N_STAGES, WHOLE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)(ring + head * (MAX_HEADS + 2)));
    if (code != 0)
        return code;
    dim3 grid((unsigned)p.mma.a.kv.n_heads, (unsigned)n_seqs, WHOLE ? 1 : p.mma.n_splits);
    return ln_pdl_launch(decode<D, BF16, N_STAGES, WHOLE>, grid, LN_WARP,
                         ring + head * (p.mma.heads_per_kv + 2), stream, p);
}

template <int D, bool BF16>
static int launch_shape(const decode_args &p, bool is_whole, size_t n_seqs, cudaStream_t stream) {
    unsigned n_sms, n_splits = is_whole ? 1 : p.mma.n_splits;
    int code = ln_count_sms(&n_sms);
    if (code != 0)
        return code;
    size_t most = LONG_BLOCKS_PER_SM * n_sms / (D <= 128 ? 1 : 2);
    if (n_seqs * p.mma.a.kv.n_heads * n_splits <= most)
        return is_whole ? launch<D, BF16, LONG_STAGES, true>(p, n_seqs, stream)
                        : launch<D, BF16, LONG_STAGES, false>(p, n_seqs, stream);
    return is_whole ? launch<D, BF16, STAGES, true>(p, n_seqs, stream)
                    : launch<D, BF16, STAGES, false>(p, n_seqs, stream);
}

template <int D>
static int launch_dtype(const decode_args &p, bool is_whole, size_t n_seqs, cudaStream_t stream) {
    return p.mma.a.kv.dtype == LN_KV_F16 ? launch_shape<D, false>(p, is_whole, n_seqs, stream)
                                         : launch_shape<D, true>(p, is_whole, n_seqs, stream);
}

bool ln_takes_sm90_decode_f16(const ln_mma_attention_args *args, const ln_cuda_step *step) {
    const ln_attention_args *a = &args->a;
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    return ln_plan_takes_decode_f16(&a->kv, a->sees_all, &split, step, ln_has_sm90a_code());
}

int ln_attention_sm90_decode_f16(const ln_mma_attention_args *args, const ln_qkv_args *qkv,
                                 const ln_cuda_step *step, bool is_whole, const ln_act_view *to,
                                 cudaStream_t stream) {
    size_t n_seqs = step->batch.n_seqs;
    decode_args p = {};
    p.mma = *args;
    p.fuses_qkv = qkv != NULL;
    if (qkv != NULL)
        p.qkv = *qkv;
    p.converts = is_whole && to != NULL;
    if (p.converts)
        p.to = *to;
    switch (args->a.kv.k_dim) {
    case 64: return launch_dtype<64>(p, is_whole, n_seqs, stream);
    case 128: return launch_dtype<128>(p, is_whole, n_seqs, stream);
    default: return launch_dtype<256>(p, is_whole, n_seqs, stream);
    }
}
