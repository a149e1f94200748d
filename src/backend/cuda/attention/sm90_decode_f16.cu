/* Decode attention on Hopper from caches of 16-bit numbers: steps in which every sequence brings
 * one token, heads of 64 and 128, at most eight query heads to a KV head. Where nothing but a
 * rotation finishes heads, that and the writing of K and V are done on the way.
 *
 * A warp, which is a block, takes one slice of one KV head, with the query heads that share it as
 * the first eight rows of a tile. K and V come 32 keys at a time through a ring of places in shared
 * memory: of a tile two places of K, then two of V. How fast a warp is through with a tile bounds
 * the rate, so it has few instructions to do: where blocks of the cache lie is known for the whole
 * slice, and V meets weights as the transposed product, 16 columns by eight heads. Short rings
 * leave room for more warps. Sums are those of mma.cu, bit for bit.
 *
 * What other steps have cached is under way before the kernel in front, which makes q, k and v, has
 * ended.
 *
 * Grid: (KV heads, sequences, slices), a warp each: the last slices, which are short, come last.
 * Shared memory: the ring, and the heads of q, k and v. Reads K and V once. */
#include "backend/cuda/attention/sm90_decode_f16.cuh"

#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    MAX_HEADS = 8, /* query heads that share K and V */
    GROUP = 16,    /* keys that lie in one block of the cache */
    SLOTS = 2,     /* places of a ring, and of one where all blocks find room at once */
    LONG_SLOTS = 4,
    LONG_BLOCKS = 6 /* on a multiprocessor */
};

/* A place of the ring: [PART][ROW_BYTES], the 16 bytes at i of a row being at i ^ row % 8. */
template <int D> struct split_shape {
    static constexpr unsigned ROW_BYTES = 2 * D;
    static constexpr unsigned CHUNKS = ROW_BYTES / 16; /* of a row */
    static constexpr unsigned ROWS = LN_WARP / CHUNKS; /* that a warp copies at once */
    static constexpr unsigned PART = 32;               /* keys */
    static constexpr unsigned PART_BYTES = PART * ROW_BYTES;
};

typedef struct split_args {
    ln_mma_attention_args f;
    bool finishes; /* rotates heads, and writes K and V */
    ln_qkv_args qkv;
} split_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A slice of a KV head of a sequence, whose one token has the sequence's number. */
typedef struct split_slice {
    unsigned seq, kv_head, number;
    unsigned begin, end;  /* keys that the token sees */
    unsigned first, stop; /* of them the slice's; `first` begins a tile */
    unsigned low, high;   /* those of the slice that are in the cache */
    unsigned block;       /* number `lane` of the blocks of the cache that the slice is in */
    bool has_own;         /* the token's own key, which is not yet in the cache */
} split_slice;

/* ---- K and V to shared memory ---------------------------------------------------------------- */

/* The row of the cache of a key of the slice; by all lanes. */
static __device__ __forceinline__ size_t find_row(const split_args &p, const split_slice &slice,
                                                  unsigned key) {
    unsigned shift = p.f.block_shift, n_heads = (unsigned)p.f.a.kv.n_heads;
    unsigned block = __shfl_sync(0xffffffffu, slice.block, key % LN_ATTENTION_SLICE >> shift);
    return ((size_t)(block * n_heads + slice.kv_head) << shift) + (key & ((1u << shift) - 1));
}

/* Queues the copies of keys first .. first + PART - 1 as a group. Rows that are not in the cache
 * are those of others that are; zeros where there are none. */
template <typename SHAPE>
static __device__ __forceinline__ void bring(const split_args &p, const split_slice &slice,
                                             const char *data, unsigned first, char *place) {
    constexpr unsigned ROWS = SHAPE::ROWS, ROW_BYTES = SHAPE::ROW_BYTES;
    unsigned lane = threadIdx.x, row = lane / SHAPE::CHUNKS;
    unsigned to = row * ROW_BYTES + (lane % SHAPE::CHUNKS ^ row) * 16; /* of rows 0 .. ROWS - 1 */
    data += lane * 16;
#pragma unroll
    for (unsigned group = 0; group < SHAPE::PART && first / LN_KV_TILE * LN_KV_TILE < slice.stop;
         group += GROUP) {
        unsigned key = first + group;
        if (key >= slice.low && key + GROUP <= slice.high) {
            const char *from = data + find_row(p, slice, key) * ROW_BYTES;
#pragma unroll
            for (unsigned i = 0; i < GROUP; i += ROWS)
                ln_cp_async_16(place + (to ^ i % 8 * 16) + (group + i) * ROW_BYTES,
                              from + i * ROW_BYTES);
            continue;
        }
#pragma unroll 1
        for (unsigned i = 0; i < GROUP; i++) {
            size_t at = find_row(p, slice, min(max(key + i, slice.low), slice.high - 1));
            char *row_to = place + (group + i) * ROW_BYTES + (lane ^ i % 8) * 16;
            if (lane < SHAPE::CHUNKS && slice.high > slice.low)
                ln_cp_async_16(row_to, data + at * ROW_BYTES);
            else if (lane < SHAPE::CHUNKS)
                *(uint4 *)row_to = make_uint4(0, 0, 0, 0);
        }
    }
    ln_cp_async_commit();
}

/* Queues the copies of what the linears have made for a KV head, its query heads, then its k and v,
 * as a group. heads [heads_per_kv + 2][D] */
template <int D>
static __device__ __forceinline__ void bring_heads(const split_args &p, const split_slice &slice,
                                                   float *heads) {
    constexpr unsigned CHUNKS = D / 4; /* of a head */
    unsigned n = p.f.heads_per_kv, lane = threadIdx.x;
    size_t kv_head = (size_t)slice.seq * p.f.a.kv.n_heads + slice.kv_head;
    const float *q = p.f.a.q + kv_head * n * D;
    for (unsigned i = lane; i < n * CHUNKS; i += LN_WARP)
        ln_cp_async_16(heads + 4 * i, q + 4 * i);
    if (slice.has_own && lane < CHUNKS) {
        ln_cp_async_16(heads + n * D + 4 * lane, p.qkv.k + kv_head * D + 4 * lane);
        ln_cp_async_16(heads + (n + 1) * D + 4 * lane, p.qkv.v + kv_head * D + 4 * lane);
    }
    ln_cp_async_commit();
}

/* This step's own rows of K and V, eight bytes to a lane. */
typedef struct own_rows {
    uint2 k, v;
} own_rows;

template <bool BF16> static __device__ __forceinline__ uint2 pack_four(const float *x) {
    float4 v = *(const float4 *)x;
    return make_uint2(ln_pack_x2<BF16>(v.x, v.y), ln_pack_x2<BF16>(v.z, v.w));
}

/* Finishes heads that have come: rotates them, and writes k and v to the cache. */
template <int D, bool BF16>
static __device__ __forceinline__ void finish_heads(const split_args &p, const split_slice &slice,
                                                    int slot, const ln_held_angles &angles,
                                                    float *heads, own_rows &own) {
    unsigned n = p.f.heads_per_kv, lane = threadIdx.x;
#pragma unroll 1
    for (unsigned i = 0; i < n + slice.has_own; i++)
        ln_turn_head(p.qkv.rope, angles, heads + i * D);
    if (!slice.has_own || lane >= D / 4)
        return;
    size_t at = ln_kv_row(p.qkv.kv, (size_t)slot, slice.kv_head) * 2 * D + 8 * lane;
    own.k = pack_four<BF16>(heads + n * D + 4 * lane);
    own.v = pack_four<BF16>(heads + (n + 1) * D + 4 * lane);
    *(uint2 *)(p.f.a.keys.data + at) = own.k;
    *(uint2 *)(p.f.a.values.data + at) = own.v;
}

/* Puts an own row to its place among keys `first` and on. */
template <typename SHAPE>
static __device__ __forceinline__ void put_own(const split_slice &slice, uint2 bytes,
                                               unsigned first, char *place) {
    unsigned lane = threadIdx.x, row = slice.end - 1 - first;
    if (!slice.has_own || row >= SHAPE::PART)
        return;
    if (lane < 2 * SHAPE::CHUNKS)
        *(uint2 *)(place + row * SHAPE::ROW_BYTES + (lane / 2 ^ row % 8) * 16 + lane % 2 * 8) =
            bytes;
    __syncwarp();
}

/* ---- products -------------------------------------------------------------------------------- */

/* Where a lane's row of matrices begins in a place, for the first 16 columns: keys 0 .. 7 and
 * 8 .. 15, of each the two halves of the columns. Those from column 16 i on are at ^ 32 i. */
template <typename SHAPE> static __device__ __forceinline__ unsigned find_matrices(void) {
    unsigned lane = threadIdx.x, row = lane % 8 + lane / 16 * 8;
    return row * SHAPE::ROW_BYTES + (lane / 8 % 2 ^ lane % 8) * 16;
}

/* As ln_mma_qk, of the keys of a place. */
template <int D, bool BF16, typename SHAPE>
static __device__ __forceinline__ void score(const uint32_t q[D / 16][4], const char *keys,
                                             float (*s)[4]) {
    constexpr int N = SHAPE::PART / 8;
    unsigned at = find_matrices<SHAPE>();
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

/* sum += (weights v)^T, of the keys of a place: product d has columns 16 d and on. */
template <int D, bool BF16, typename SHAPE>
static __device__ __forceinline__ void add_values(const float (*s)[4], const char *values,
                                                  ln_transposed_acc<D> *sums) {
    unsigned at = find_matrices<SHAPE>();
#pragma unroll
    for (unsigned k = 0; k < SHAPE::PART / 16; k++) {
        uint32_t low = ln_pack_x2<BF16>(s[2 * k][0], s[2 * k][1]);
        uint32_t high = ln_pack_x2<BF16>(s[2 * k + 1][0], s[2 * k + 1][1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t a[4];
            ln_ldmatrix_trans(a, values + (at ^ 32 * d) + k * 16 * SHAPE::ROW_BYTES);
            ln_mma<BF16>(sums->of[d], a, low, high);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* A slice's sums to memory, or the result where it is the only one. */
template <int D>
static __device__ __forceinline__ void leave(const ln_mma_attention_args &p, const split_slice &at,
                                             const ln_softmax_state<8> &slice, ln_transposed_acc<D> &sums) {
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, n = p.heads_per_kv;
    size_t head = at.kv_head * n, item = at.seq * p.a.n_heads + head;
    float total = ln_reduce_row_sum(slice.total[0]);
    float *to = p.sums + (item * p.n_splits + at.number) * D;
    size_t stride = (size_t)p.n_splits * D;
    if (p.n_splits == 1) {
        float reference, whole, keep, add;
        ln_merge_init(p, head + min(g, n - 1), &reference, &whole);
        ln_merge_scales(&reference, slice.reference[0], &keep, &add);
        float2 keeps = ln_transposed_rows(keep), adds = ln_transposed_rows(add);
        float2 shares = ln_transposed_rows(ln_normalizer(ln_merge(whole, keep, total, add)));
#pragma unroll
        for (int d = 0; d < D / 16; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums.of[d][i] = ln_merge(0.0f, i % 2 == 0 ? keeps.x : keeps.y, sums.of[d][i],
                                         i % 2 == 0 ? adds.x : adds.y) *
                                (i % 2 == 0 ? shares.x : shares.y);
        to = p.a.out + item * D;
        stride = D;
    } else if (t == 0 && g < n) {
        p.stats[(item + g) * p.n_splits + at.number] = make_float2(slice.reference[0], total);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (2 * t + i >= n)
            continue;
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            to[(2 * t + i) * stride + 16 * d + g] = sums.of[d][i];
            to[(2 * t + i) * stride + 16 * d + g + 8] = sums.of[d][2 + i];
        }
    }
}

/* The block's slice; false: the token sees nothing of it. */
static __device__ __forceinline__ bool find_slice(const split_args &p, split_slice &slice) {
    unsigned lane = threadIdx.x, begin_key = blockIdx.z * LN_ATTENTION_SLICE;
    slice.kv_head = blockIdx.x, slice.seq = blockIdx.y, slice.number = blockIdx.z;
    unsigned block = min((begin_key >> p.f.block_shift) + lane, (unsigned)p.f.a.max_blocks - 1);
    slice.block = (unsigned)p.f.a.block_tables[slice.seq * p.f.a.max_blocks + block];
    size_t begin, end;
    ln_key_range(p.f.a, slice.seq, (size_t)p.f.a.positions[slice.seq], &begin, &end);
    slice.begin = (unsigned)begin, slice.end = (unsigned)end;
    slice.first = max(begin_key, slice.begin / LN_KV_TILE * LN_KV_TILE);
    slice.stop = min(begin_key + LN_ATTENTION_SLICE, slice.end);
    slice.has_own = p.finishes && slice.stop == slice.end;
    slice.low = max(slice.first, slice.begin);
    slice.high = slice.stop - slice.has_own;
    return begin_key < end && begin_key + LN_ATTENTION_SLICE > begin;
}

/* What masks of scores ask about rows, of which a lane has the first. */
static __device__ __forceinline__ ln_query_rows find_rows(const split_args &p, const split_slice &at) {
    ln_query_rows rows;
    for (int i = 0; i < 2; i++) {
        rows.head[i] =
            at.kv_head * p.f.heads_per_kv + min(threadIdx.x / 4, p.f.heads_per_kv - 1);
        rows.position[i] = at.end - 1;
        rows.begin[i] = at.begin;
        rows.end[i] = at.end;
    }
    return rows;
}

#endif

template <int D, bool BF16, int N_SLOTS>
static __global__ void __launch_bounds__(LN_WARP) attend(const __grid_constant__ split_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef split_shape<D> shape;
    enum { PARTS = 4 }; /* of a tile */
    static_assert(N_SLOTS <= PARTS && 2 * shape::PART == LN_KV_TILE, "the order of places");
    extern __shared__ __align__(128) char ring[];
    float *heads = (float *)(ring + N_SLOTS * shape::PART_BYTES);
    unsigned lane = threadIdx.x;
    ln_pdl_launch_dependents();
    split_slice at;
    if (!find_slice(p, at))
        return;
    const char *const arrays[2] = {p.f.a.keys.data, p.f.a.values.data};
    bool is_early = p.f.reads_past_only && (p.finishes || at.stop != at.end);
    if (!is_early)
        ln_pdl_wait();
#pragma unroll
    for (int i = 0; i < N_SLOTS; i++)
        bring<shape>(p, at, arrays[i / 2], at.first + i % 2 * shape::PART,
                     ring + i * shape::PART_BYTES);
    ln_held_angles angles = {};
    int slot = at.has_own ? p.qkv.slots[at.seq] : 0;
    if (p.finishes)
        ln_hold_angles(p.qkv, (int32_t)(at.end - 1), angles);
    ln_pdl_wait();
    bring_heads<D>(p, at, heads);
    ln_cp_async_wait<0>();
    __syncwarp();
    own_rows own = {};
    if (p.finishes)
        finish_heads<D, BF16>(p, at, slot, angles, heads, own);
    ln_query_rows rows = find_rows(p, at);
    uint32_t q[D / 16][4];
    ln_load_query<D, BF16>(lane / 4 < p.f.heads_per_kv ? heads + lane / 4 * D : NULL, NULL, q);
    const float factor = ln_score_factor(p.f.a);
    ln_transposed_acc<D> sums = {};
    ln_softmax_state<8> slice;
    ln_softmax_init(&slice);
    char *place = ring;
#pragma unroll 1
    for (unsigned first = at.first; first < at.stop; first += LN_KV_TILE) {
        float s[LN_KV_TILE_N8][4];
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            unsigned from = first + i % 2 * shape::PART, next = i + N_SLOTS;
            ln_cp_async_wait<N_SLOTS - 1>();
            __syncwarp();
            put_own<shape>(at, i < 2 ? own.k : own.v, from, place);
            if (i < 2)
                score<D, BF16, shape>(q, place, s + i % 2 * (shape::PART / 8));
            else
                add_values<D, BF16, shape>(s + i % 2 * (shape::PART / 8), place, &sums);
            __syncwarp();
            bring<shape>(p, at, arrays[next / 2 % 2],
                         first + next / PARTS * LN_KV_TILE + next % 2 * shape::PART, place);
            place = place + shape::PART_BYTES == (char *)heads ? ring : place + shape::PART_BYTES;
            if (i == 1) {
                ln_finish_scores(p.f.a, rows, first, s);
                ln_online_softmax<D>(s, factor, &slice, &sums);
            }
        }
    }
    leave<D>(p.f, at, slice, sums);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, bool BF16, int N_SLOTS>
static int launch(const split_args &p, size_t n_seqs, cudaStream_t stream) {
    size_t ring = N_SLOTS * split_shape<D>::PART_BYTES, head = D * sizeof(float);
    /* whatever the step is, as graphs of others keep their launches */
    int code = cudaFuncSetAttribute(attend<D, BF16, N_SLOTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)(ring + head * (MAX_HEADS + 2)));
    if (code != 0)
        return code;
    dim3 grid((unsigned)p.f.a.kv.n_heads, (unsigned)n_seqs, p.f.n_splits);
    return ln_pdl_launch(attend<D, BF16, N_SLOTS>, grid, LN_WARP,
                     ring + head * (p.f.heads_per_kv + 2), stream, p);
}

template <int D>
static int launch_dtype(const split_args &p, bool is_long, size_t n_seqs, cudaStream_t stream) {
    if (p.f.a.kv.dtype == LN_KV_F16)
        return is_long ? launch<D, false, LONG_SLOTS>(p, n_seqs, stream)
                       : launch<D, false, SLOTS>(p, n_seqs, stream);
    return is_long ? launch<D, true, LONG_SLOTS>(p, n_seqs, stream)
                   : launch<D, true, SLOTS>(p, n_seqs, stream);
}

static_assert((int)MAX_HEADS == (int)LN_SM90_DECODE_F16_MAX_HEADS && (int)LN_HELD_PAIRS == (int)LN_HELD_ANGLE_PAIRS,
              "as attention/select.c has it");

bool ln_takes_sm90_decode_f16(const ln_mma_attention_args *args, const ln_cuda_step *step) {
    const ln_attention_args *a = &args->a;
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    return ln_plan_takes_decode_f16(&a->kv, a->sees_all, &split, step, ln_has_sm90a_code());
}

int ln_attention_sm90_decode_f16(const ln_mma_attention_args *args, const ln_qkv_args *qkv, const ln_cuda_step *step,
                       cudaStream_t stream) {
    size_t n_seqs = step->batch.n_seqs;
    split_args p = {};
    p.f = *args;
    p.finishes = qkv != NULL;
    if (qkv != NULL)
        p.qkv = *qkv;
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code != 0)
        return code;
    bool is_long = n_seqs * args->a.kv.n_heads * args->n_splits <= LONG_BLOCKS * n_sms;
    return args->a.kv.k_dim == 64 ? launch_dtype<64>(p, is_long, n_seqs, stream)
                                  : launch_dtype<128>(p, is_long, n_seqs, stream);
}
