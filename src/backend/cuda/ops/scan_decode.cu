/* The scan of sequences of a few tokens each, for heads that decay as a whole: what decoding runs.
 *
 * A block has a head of a sequence and DECODE_COLUMNS columns of its state, a warp 32 of them. It
 * takes the step's tokens by pieces, which lie in one tile of 16 positions, and computes what
 * scan_chunks.cu does of their rows, by the same products in the same order. Here keys and queries
 * share the rows of a product: rows 0 to 7 are the step's keys, 8 to 15 its queries. States and the
 * tail's keys and updates come from memory straight to the lanes that multiply them, each once for
 * a block, and are asked for before the kernel in front has ended: lane 4 g + t has the columns 4 g
 * .. 4 g + 3 of its warp, one in each of four products.
 *
 * The tokens go round no ring, so the block keeps the tail itself.
 *
 * One token's time is that of the instructions in its way: offsets are of 32 bits, rows of the tail
 * are found without divisions, and x is split for the tensor cores once for all warps. */
#include "backend/cuda/ops/scan.cuh"
#include "backend/cuda/ptx/mma_tf32.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    DECODE_TOKENS = 8,
    DECODE_WARPS = 4,
    DECODE_THREADS = DECODE_WARPS * LN_WARP,
    WARP_COLUMNS = 32,
    DECODE_COLUMNS = DECODE_WARPS * WARP_COLUMNS,
    TILE = 16, /* positions whose updates are found one after the other */
    WEIGHT_STRIDE = LN_STATE_CHUNK + 4,
    UPDATE_STRIDE = DECODE_COLUMNS + 4,
    AT_ONCE = 4,     /* steps of 16 channels whose loads are under way */
    KEYS_AT_ONCE = 8 /* the same of keys */
};

typedef struct decode_shared {
    double *c;      /* [LN_STATE_CHUNK] the chunk's sums of decays */
    double *decays; /* [DECODE_TOKENS] of the step's tokens */
    float *scales;  /* [DECODE_TOKENS] of their values */
    float *keys;    /* [DECODE_TOKENS][key_stride] */
    uint32_t *high; /* [DECODE_TOKENS][x_stride] the key's and the query's channels by turns,
                       rounded to TF32, */
    uint32_t *low;  /* and what that leaves */
    float *weights; /* [2 DECODE_TOKENS][WEIGHT_STRIDE] of updates, for each row of x */
    float *updates; /* [TILE][UPDATE_STRIDE] of the tile at work */
    float *of_keys; /* [DECODE_TOKENS][UPDATE_STRIDE] what keys find in memory */
    int key_stride, x_stride, k_dim; /* k_dim: filled up to whole steps */
} decode_shared;

/* Tokens begin .. end - 1 of the step, in one tile of their chunk. */
typedef struct decode_piece {
    int chunk, begin, end; /* positions */
    int tile;              /* of the chunk */
    unsigned ring;         /* the chunk's first row in rings of the tail */
    unsigned head, k_head;
    unsigned column;    /* the first of the warp, */
    unsigned loads;     /* and where it loads: others, where it has none */
    const float *state; /* of the head; NULL: zero */
} decode_piece;

static __host__ __device__ int padded_keys(size_t k_dim) {
    return (int)(k_dim + 15) / 16 * 16;
}

static size_t shared_bytes(size_t k_dim) {
    size_t keys = (size_t)padded_keys(k_dim), more = TILE + DECODE_TOKENS;
    size_t floats = DECODE_TOKENS * (1 + keys + 16 + 2 * (2 * keys + 4)) +
                    2 * DECODE_TOKENS * WEIGHT_STRIDE + more * UPDATE_STRIDE;
    return (LN_STATE_CHUNK + DECODE_TOKENS) * sizeof(double) + floats * sizeof(float);
}

static __device__ __forceinline__ decode_shared place_shared(double *memory, size_t k_dim) {
    decode_shared m;
    m.k_dim = padded_keys(k_dim);
    m.key_stride = m.k_dim + (m.k_dim % 32 == 0 ? 16 : 0);
    m.x_stride = 2 * m.k_dim + 4; /* rows begin in different banks */
    m.c = memory;
    m.decays = m.c + LN_STATE_CHUNK;
    m.scales = (float *)(m.decays + DECODE_TOKENS);
    m.high = (uint32_t *)(m.scales + DECODE_TOKENS);
    m.low = m.high + DECODE_TOKENS * m.x_stride;
    m.keys = (float *)(m.low + DECODE_TOKENS * m.x_stride);
    m.weights = m.keys + DECODE_TOKENS * m.key_stride;
    m.updates = m.weights + 2 * DECODE_TOKENS * WEIGHT_STRIDE;
    m.of_keys = m.updates + TILE * UPDATE_STRIDE;
    return m;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Elements i .. i + 3 of a row of n. WHOLE: they are there and lie aligned; else zeros are behind
 * the row's end. */
template <bool WHOLE>
static __device__ __forceinline__ float4 load_four(const float *row, unsigned i, unsigned n) {
    if constexpr (WHOLE)
        return *(const float4 *)(row + i);
    return make_float4(i < n ? row[i] : 0.0f, i + 1 < n ? row[i + 1] : 0.0f,
                       i + 2 < n ? row[i + 2] : 0.0f, i + 3 < n ? row[i + 3] : 0.0f);
}

/* The row of position chunk + t in a head's rings. */
static __device__ __forceinline__ unsigned
ring_row(const scan_args &args, const decode_piece &piece, unsigned head, int t) {
    const unsigned n_rows = (unsigned)args.state.shape.n_rows, row = piece.ring + (unsigned)t;
    return head * n_rows + (row < n_rows ? row : row - n_rows);
}

static __device__ __forceinline__ float *tail_update(const scan_args &args, const state_view &view,
                                                     const decode_piece &piece, int t) {
    return view.tail + args.state.tail_updates +
           ring_row(args, piece, piece.head, t) * (unsigned)args.state.shape.v_dim;
}

static __device__ __forceinline__ float *tail_key(const scan_args &args, const state_view &view,
                                                  const decode_piece &piece, int t) {
    return view.tail + args.state.tail_keys +
           ring_row(args, piece, piece.k_head, t) * (unsigned)args.state.shape.k_dim;
}

/* Zeros where load_rows stores nothing; a barrier is between them. */
static __device__ __forceinline__ void clear_rows(const decode_shared &m) {
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < DECODE_TOKENS * m.x_stride / 2; i += DECODE_THREADS)
        ((uint4 *)m.high)[i] = make_uint4(0, 0, 0, 0); /* and m.low */
}

/* A head's row of the step, as load_head gives it, by one warp. key: where it goes as it is, too,
 * or NULL; at: its first element in m.high */
static __device__ __forceinline__ void load_row(const scan_args &args, const decode_shared &m,
                                                const float *x, float *key, int at) {
    enum { AT_ONCE = 4 };
    const int lane = (int)(threadIdx.x % LN_WARP), k_dim = (int)args.state.shape.k_dim;
    float scale = 1.0f, squares = 0.0f;
#pragma unroll 1
    for (int first = lane; args.p.unit_qk && first < k_dim; first += AT_ONCE * LN_WARP) {
        float held[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            held[i] = first + i * LN_WARP < k_dim ? x[first + i * LN_WARP] : 0.0f;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            squares = fmaf(held[i], held[i], squares);
    }
    if (args.p.unit_qk)
        scale = 1.0f / sqrtf(ln_warp_sum(squares) + 1e-6f);
#pragma unroll AT_ONCE
    for (int i = lane; i < k_dim; i += LN_WARP) {
        const float value = x[i] * scale;
        ln_tf32_pair<1> split;
        ln_tf32_put(split, 0, value);
        m.high[at + 2 * i] = split.high[0];
        m.low[at + 2 * i] = split.low[0];
        if (key != NULL)
            key[i] = value;
    }
}

/* The warp's number, which the compiler knows to be that of all its lanes. */
static __device__ __forceinline__ int warp_number(void) {
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x / LN_WARP), 0);
}

/* The step's keys and queries, a warp a row, in turns. */
static __device__ __forceinline__ void load_rows(const scan_args &args, const decode_shared &m,
                                                 const state_view &view, unsigned k_head) {
    const unsigned k_dim = (unsigned)args.state.shape.k_dim;
    const int n = view.end - view.begin;
#pragma unroll 1
    for (int at = warp_number(); at < 2 * n; at += DECODE_WARPS) {
        const int token = at / 2, is_query = at % 2;
        const size_t row = (size_t)(view.row + token);
        const float *x =
            is_query ? args.p.q + row * args.p.q_stride : args.p.k + row * args.p.k_stride;
        load_row(args, m, x + k_head * k_dim, is_query ? NULL : m.keys + token * m.key_stride,
                 token * m.x_stride + is_query);
    }
}

/* Decays and scales of the step's tokens, by the last warp. */
static __device__ void load_controls(const scan_args &args, const decode_shared &m,
                                     const state_view &view, size_t head) {
    int token = (int)threadIdx.x - (DECODE_THREADS - LN_WARP);
    if (token < 0 || token >= view.end - view.begin)
        return;
    m.decays[token] = decay_of(args, (size_t)(view.row + token), head, 0);
    m.scales[token] = value_scale(args, (size_t)(view.row + token), head);
}

/* The chunk's sums of decays before the step. */
static __device__ void load_decays(const scan_args &args, const decode_shared &m,
                                   const state_view &view, const decode_piece &piece) {
    const double *tail = (const double *)view.tail;
#pragma unroll 1
    for (int t = (int)threadIdx.x; t < view.begin - piece.chunk; t += DECODE_THREADS)
        m.c[t] = tail[ring_row(args, piece, piece.head, t)];
}

/* The chunk's sums of decays from the piece's begin to its end, in the tail, too; by one thread of
 * the last warp. */
static __device__ void sum_decays(const scan_args &args, const decode_shared &m,
                                  const state_view &view, const decode_piece &piece) {
    double *tail = (double *)view.tail;
#pragma unroll 1
    for (int position = piece.begin; position < piece.end; position++) {
        int t = position - piece.chunk;
        m.c[t] = m.decays[position - view.begin] + (t > 0 ? m.c[t - 1] : 0.0);
        if (blockIdx.z == 0)
            tail[ring_row(args, piece, piece.head, t)] = m.c[t];
    }
}

/* Asks for what the tail has of the piece's chunk: keys, and updates of the block's columns; a
 * thread has every fourth line of a row. */
static __device__ void prefetch_tail(const scan_args &args, const state_view &view,
                                     const decode_piece &piece) {
    enum { LINE = 128 / sizeof(float), LANES = 4, STEP = LANES * LINE };
    const ln_state_shape &s = args.state.shape;
    const unsigned first = threadIdx.x % LANES * LINE, column = blockIdx.z * DECODE_COLUMNS;
    const unsigned end = min((unsigned)s.v_dim, column + DECODE_COLUMNS);
#pragma unroll 1
    for (int t = (int)threadIdx.x / LANES; t < view.begin - piece.chunk;
         t += DECODE_THREADS / LANES) {
        for (unsigned i = first; i < (unsigned)s.k_dim; i += STEP)
            prefetch_line(tail_key(args, view, piece, t) + i);
        for (unsigned i = column + first; i < end; i += STEP)
            prefetch_line(tail_update(args, view, piece, t) + i);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Four elements of an operand. */
static __device__ __forceinline__ void put_four(uint32_t (&to)[4], const uint4 &x) {
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}

/* Two steps of channels of the step's keys and queries, from channel i on. */
static __device__ __forceinline__ void take_x(const decode_shared &m, int i,
                                              ln_tf32_pair<4> (&a)[2]) {
    const int lane = (int)(threadIdx.x % LN_WARP);
    const int at = lane / 4 * m.x_stride + 2 * (i + 4 * (lane % 4));
    const uint4 *high = (const uint4 *)(m.high + at), *low = (const uint4 *)(m.low + at);
#pragma unroll
    for (int step = 0; step < 2; step++)
        put_four(a[step].high, high[step]), put_four(a[step].low, low[step]);
}

/* Elements k and k + 1 of eight rows in a step. */
static __device__ __forceinline__ ln_tf32_pair<2> take_two(float first, float second) {
    ln_tf32_pair<2> b;
    ln_tf32_put(b, 0, first), ln_tf32_put(b, 1, second);
    return b;
}

/* One of four columns. */
static __device__ __forceinline__ float of_column(const float4 &x, int n) {
    return n == 0 ? x.x : n == 1 ? x.y : n == 2 ? x.z : x.w;
}

/* The step's rows times the keys of eight positions of the chunk from `first` on. */
template <bool WHOLE>
static __device__ __forceinline__ void
multiply_keys(const scan_args &args, const decode_shared &m, const state_view &view,
              const decode_piece &piece, int first, float (&sums)[4]) {
    const int lane = (int)(threadIdx.x % LN_WARP), t = first + lane / 4;
    const int position = piece.chunk + t; /* behind the last one nobody counts what this finds */
    const float *row = position < view.begin
                           ? tail_key(args, view, piece, t)
                           : m.keys + (min(position, view.end - 1) - view.begin) * m.key_stride;
    const unsigned n = (unsigned)args.state.shape.k_dim;
#pragma unroll 1
    for (int from = 0; from < m.k_dim; from += 16 * KEYS_AT_ONCE) {
        float4 keys[KEYS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < KEYS_AT_ONCE; i++)
            if (from + 16 * i < m.k_dim)
                keys[i] = load_four<WHOLE>(row, (unsigned)(from + 16 * i + 4 * (lane % 4)), n);
#pragma unroll
        for (int i = 0; i < KEYS_AT_ONCE; i++) {
            if (from + 16 * i >= m.k_dim)
                break;
            ln_tf32_pair<4> a[2];
            take_x(m, from + 16 * i, a);
            ln_mma_f32(sums, a[0], take_two(keys[i].x, keys[i].y));
            ln_mma_f32(sums, a[1], take_two(keys[i].z, keys[i].w));
        }
    }
}

/* Channels of the state in the warp's columns, whose loads are under way. */
typedef struct state_rows {
    float4 rows[AT_ONCE][4];
} state_rows;

/* A step's, from channel `from` on. */
template <bool WHOLE>
static __device__ __forceinline__ void
load_state_step(const scan_args &args, const decode_piece &piece, int from, float4 (&rows)[4]) {
    const unsigned k_dim = (unsigned)args.state.shape.k_dim,
                   v_dim = (unsigned)args.state.shape.v_dim;
    const unsigned lane = threadIdx.x % LN_WARP, j = piece.loads + 4 * (lane / 4);
    const unsigned channel = (unsigned)from + 4 * (lane % 4);
    const float *row = piece.state + channel * v_dim;
#pragma unroll
    for (unsigned i = 0; i < 4; i++, row += v_dim)
        rows[i] = load_four<WHOLE>(row, j, channel + i < k_dim ? v_dim : 0);
}

/* The first steps, long before they are wanted. */
template <bool WHOLE>
static __device__ __forceinline__ void begin_state(const scan_args &args, const decode_piece &piece,
                                                   state_rows &state) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (piece.state != NULL && 16 * i < padded_keys(args.state.shape.k_dim))
            load_state_step<WHOLE>(args, piece, 16 * i, state.rows[i]);
}

/* The step's rows times the warp's columns of the state. */
template <bool WHOLE>
static __device__ __forceinline__ void multiply_state(const scan_args &args, const decode_shared &m,
                                                      const decode_piece &piece, state_rows &state,
                                                      float (&sums)[4][4]) {
#pragma unroll 1
    for (int from = 0; from < m.k_dim; from += 16 * AT_ONCE) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (from + 16 * i >= m.k_dim)
                break;
            const float4(&rows)[4] = state.rows[i];
            ln_tf32_pair<4> a[2];
            take_x(m, from + 16 * i, a);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                ln_mma_f32(sums[n], a[0], take_two(of_column(rows[0], n), of_column(rows[1], n)));
                ln_mma_f32(sums[n], a[1], take_two(of_column(rows[2], n), of_column(rows[3], n)));
            }
            if (from + 16 * (i + AT_ONCE) < m.k_dim)
                load_state_step<WHOLE>(args, piece, from + 16 * (i + AT_ONCE), state.rows[i]);
        }
    }
}

/* Adds the rows' weights of eight updates from number s on, which are `near` and `far`. */
static __device__ __forceinline__ void add_updates(const decode_shared &m, int s,
                                                   const float4 &near, const float4 &far,
                                                   float (&sums)[4][4]) {
    int lane = (int)(threadIdx.x % LN_WARP);
    const float *row = m.weights + lane / 4 * WEIGHT_STRIDE + lane % 4 + s;
    ln_tf32_pair<4> a;
    ln_tf32_put(a, 0, row[0]), ln_tf32_put(a, 1, row[DECODE_TOKENS * WEIGHT_STRIDE]);
    ln_tf32_put(a, 2, row[4]), ln_tf32_put(a, 3, row[DECODE_TOKENS * WEIGHT_STRIDE + 4]);
#pragma unroll
    for (int n = 0; n < 4; n++)
        ln_mma_f32(sums[n], a, take_two(of_column(near, n), of_column(far, n)));
}

/* ---- a piece --------------------------------------------------------------------------------- */

/* Weights of all positions up to the end of the piece's tile; a warp has eight of them. */
template <bool WHOLE>
static __device__ __forceinline__ void
intra_chunk_scores(const scan_args &args, const decode_shared &m, const state_view &view,
                   const decode_piece &piece) {
    int lane = (int)(threadIdx.x % LN_WARP);
#pragma unroll 1
    for (int first = 8 * warp_number(); first < TILE * (piece.tile + 1);
         first += 8 * DECODE_WARPS) {
        float sums[4] = {};
        multiply_keys<WHOLE>(args, m, view, piece, first, sums);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int position = view.begin + lane / 4, t = position - piece.chunk;
            int s = first + 2 * (lane % 4) + i % 2;
            bool counts = position >= piece.begin && position < piece.end;
            counts = counts && (i < 2 ? s < t : s <= t);
            m.weights[(lane / 4 + DECODE_TOKENS * (i / 2)) * WEIGHT_STRIDE + s] =
                counts ? sums[i] * expf((float)(m.c[t] - m.c[s])) : 0.0f;
        }
    }
}

/* What is behind a row's element of four products: columns 8 t + n and 8 t + 4 + n. */
static __device__ __forceinline__ unsigned element_column(int i, int n) {
    return 8 * (threadIdx.x % 4) + 4 * (unsigned)(i % 2) + (unsigned)n;
}

/* The lane's updates of a tile of the tail, for two steps. */
template <bool WHOLE>
static __device__ __forceinline__ void load_tile(const scan_args &args, const state_view &view,
                                                 const decode_piece &piece, int tile,
                                                 float4 (&rows)[4]) {
    const unsigned lane = threadIdx.x % LN_WARP, j = piece.loads + 4 * (lane / 4);
#pragma unroll
    for (int i = 0; i < 4; i++)
        rows[i] =
            load_four<WHOLE>(tail_update(args, view, piece, TILE * tile + 4 * i + (int)lane % 4), j,
                             (unsigned)args.state.shape.v_dim);
}

/* What keys find in the state and in updates of earlier tiles, to shared memory; `sums` keeps the
 * latter for queries, `memory` the former. */
template <bool WHOLE>
static __device__ __forceinline__ void
inter_chunk_products(const scan_args &args, const decode_shared &m, const state_view &view,
                     const decode_piece &piece, state_rows &state, float (&memory)[4][4],
                     float (&sums)[4][4]) {
    const int lane = (int)(threadIdx.x % LN_WARP), position = view.begin + lane / 4;
    float4 next[4];
    if (piece.tile > 0)
        load_tile<WHOLE>(args, view, piece, 0, next);
    if (piece.state != NULL)
        multiply_state<WHOLE>(args, m, piece, state, memory);
#pragma unroll 1
    for (int tile = 0; tile < piece.tile; tile++) {
        const float4 rows[4] = {next[0], next[1], next[2], next[3]};
        if (tile + 1 < piece.tile)
            load_tile<WHOLE>(args, view, piece, tile + 1, next);
        add_updates(m, TILE * tile, rows[0], rows[1], sums);
        add_updates(m, TILE * tile + 8, rows[2], rows[3], sums);
    }
    if (position < piece.begin || position >= piece.end)
        return;
    float kept = expf((float)m.c[position - piece.chunk]);
    float *row = m.of_keys + lane / 4 * UPDATE_STRIDE + threadIdx.x / LN_WARP * WARP_COLUMNS;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int n = 0; n < 4; n++)
            row[element_column(i, n)] = fmaf(kept, memory[n][i], sums[n][i]);
}

/* The updates of the piece's tile before it; a warp has every fourth row. */
template <bool WHOLE>
static __device__ __forceinline__ void load_updates(const scan_args &args, const decode_shared &m,
                                                    const state_view &view,
                                                    const decode_piece &piece) {
    const int first = TILE * piece.tile, end = piece.begin - piece.chunk - first;
    const unsigned col = threadIdx.x % LN_WARP * 4, j = blockIdx.z * DECODE_COLUMNS + col;
    const unsigned v_dim = (unsigned)args.state.shape.v_dim;
#pragma unroll
    for (int i = 0; i < TILE / DECODE_WARPS; i++) {
        const int t = DECODE_WARPS * i + (int)(threadIdx.x / LN_WARP);
        float4 before = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (t < end && j < v_dim)
            before = load_four<WHOLE>(tail_update(args, view, piece, first + t), j, v_dim);
        *(float4 *)(m.updates + t * UPDATE_STRIDE + col) = before;
    }
}

/* The value of the piece's first token in a thread's column. */
static __device__ float first_value(const scan_args &args, const state_view &view,
                                    const decode_piece &piece) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    const unsigned v_dim = (unsigned)s.v_dim, j = blockIdx.z * DECODE_COLUMNS + threadIdx.x;
    size_t row = (size_t)(view.row + piece.begin - view.begin);
    return j < v_dim ? p.v[row * p.v_stride + piece.head * v_dim + j] : 0.0f;
}

/* The piece's updates, one token after the other, of which the first has `value`. */
static __device__ void find_updates(const scan_args &args, const decode_shared &m,
                                    const state_view &view, const decode_piece &piece,
                                    float value) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    const unsigned v_dim = (unsigned)s.v_dim, j = blockIdx.z * DECODE_COLUMNS + threadIdx.x;
    int first = piece.chunk + TILE * piece.tile;
    float *updates = m.updates + threadIdx.x;
#pragma unroll 1
    for (int position = piece.begin; position < piece.end && j < v_dim; position++) {
        int token = position - view.begin;
        size_t row = (size_t)(view.row + token);
        float u = position == piece.begin ? value : p.v[row * p.v_stride + piece.head * v_dim + j];
        if (p.b != NULL) {
            const float *weights = m.weights + token * WEIGHT_STRIDE + TILE * piece.tile;
            u -= m.of_keys[token * UPDATE_STRIDE + threadIdx.x];
            for (int t = 0; t < position - first; t++)
                u = fmaf(-weights[t], updates[t * UPDATE_STRIDE], u);
        }
        u *= m.scales[token];
        updates[(position - first) * UPDATE_STRIDE] = u;
        tail_update(args, view, piece, position - piece.chunk)[j] = u;
    }
}

static __device__ void give_results(const scan_args &args, const decode_shared &m,
                                    const state_view &view, const decode_piece &piece,
                                    const float (&memory)[4][4], float (&sums)[4][4]) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), position = view.begin + lane / 4;
    unsigned warp = threadIdx.x / LN_WARP;
#pragma unroll
    for (int at = 0; at < TILE; at += 8) {
        const float *row =
            m.updates + (at + lane % 4) * UPDATE_STRIDE + warp * WARP_COLUMNS + 4 * (lane / 4);
        add_updates(m, TILE * piece.tile + at, *(const float4 *)row,
                    *(const float4 *)(row + 4 * UPDATE_STRIDE), sums);
    }
    if (position < piece.begin || position >= piece.end)
        return;
    size_t row = (size_t)(view.row + position - view.begin);
    const unsigned v_dim = (unsigned)s.v_dim, of_head = piece.head * v_dim;
    float *out = p.out + row * s.n_heads * s.v_dim + of_head;
    float kept = expf((float)m.c[position - piece.chunk]);
#pragma unroll
    for (int i = 2; i < 4; i++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const unsigned j = piece.column + element_column(i, n);
            if (j >= v_dim)
                continue;
            float y = p.q_scale * fmaf(kept, memory[n][i], sums[n][i]);
            if (p.skip != NULL)
                y = fmaf(p.skip[piece.head], p.v[row * p.v_stride + of_head + j], y);
            out[j] = y;
        }
}

/* Channel i of the key at a position of the chunk. */
static __device__ __forceinline__ float key_at(const scan_args &args, const decode_shared &m,
                                               const state_view &view, const decode_piece &piece,
                                               int position, int i) {
    if (i >= (int)args.state.shape.k_dim)
        return 0.0f;
    return position < view.begin ? tail_key(args, view, piece, position - piece.chunk)[i]
                                 : m.keys[(position - view.begin) * m.key_stride + i];
}

/* The state behind the chunk, of the warp's columns, to `state`. */
template <bool WHOLE>
static __device__ __forceinline__ void end_chunk(const scan_args &args, const decode_shared &m,
                                                 const state_view &view, const decode_piece &piece,
                                                 float *state) {
    const ln_state_shape &shape = args.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    const double last = m.c[LN_STATE_CHUNK - 1];
    float kept = expf((float)last);
    const unsigned k_dim = (unsigned)shape.k_dim, v_dim = (unsigned)shape.v_dim;
    const unsigned j = piece.loads + 4 * (unsigned)g;
#pragma unroll 1
    for (int from = 0; from < m.k_dim; from += 16) {
        float sums[4][4] = {};
#pragma unroll 1
        for (int s = t; s < LN_STATE_CHUNK; s += 8) {
            int position = piece.chunk + s;
            float near = expf((float)(last - m.c[s])), far = expf((float)(last - m.c[s + 4]));
            ln_tf32_pair<4> a;
#pragma unroll
            for (int i = 0; i < 4; i++)
                ln_tf32_put(
                    a, i,
                    key_at(args, m, view, piece, position + 4 * (i / 2), from + g + 8 * (i % 2)) *
                        (i < 2 ? near : far));
            float4 first = load_four<WHOLE>(tail_update(args, view, piece, s), j, v_dim);
            float4 second = load_four<WHOLE>(tail_update(args, view, piece, s + 4), j, v_dim);
#pragma unroll
            for (int n = 0; n < 4; n++)
                ln_mma_f32(sums[n], a, take_two(of_column(first, n), of_column(second, n)));
        }
#pragma unroll
        for (int at = 0; at < 16; at++) {
            const unsigned i = (unsigned)(from + g + 8 * (at % 4 / 2));
            const unsigned column = piece.column + element_column(at % 2, at / 4);
            if (i >= k_dim || column >= v_dim)
                continue;
            const unsigned element = i * v_dim + column;
            float before = piece.state != NULL ? piece.state[element] : 0.0f;
            state[element] = fmaf(kept, before, sums[at / 4][at % 4]);
        }
    }
}

/* The step's keys go to the tail by the first head that has them. */
static __device__ __forceinline__ void keep_keys(const scan_args &args, const decode_shared &m,
                                                 const state_view &view,
                                                 const decode_piece &piece) {
    const ln_state_shape &s = args.state.shape;
    const unsigned shares = (unsigned)s.n_heads / (unsigned)s.n_k_heads;
    if (piece.head != (args.p.tiled ? piece.k_head : piece.k_head * shares) || blockIdx.z > 0)
        return;
#pragma unroll 1
    for (int position = piece.begin; position < piece.end; position++) {
        float *to = tail_key(args, view, piece, position - piece.chunk);
        for (int i = (int)threadIdx.x; i < (int)s.k_dim; i += DECODE_THREADS)
            to[i] = m.keys[(position - view.begin) * m.key_stride + i];
    }
}

template <bool WHOLE>
static __device__ __forceinline__ void scan_piece(const scan_args &args, const decode_shared &m,
                                                  const state_view &view, const decode_piece &piece,
                                                  state_rows &state) {
    float memory[4][4] = {}, sums[4][4] = {};
    float value = first_value(args, view, piece);
    __syncwarp(); /* behind load_controls */
    if (threadIdx.x == DECODE_THREADS - LN_WARP)
        sum_decays(args, m, view, piece);
    __syncthreads();
    intra_chunk_scores<WHOLE>(args, m, view, piece);
    __syncthreads();
    inter_chunk_products<WHOLE>(args, m, view, piece, state, memory, sums);
    __syncthreads();
    find_updates(args, m, view, piece, value);
    keep_keys(args, m, view, piece);
    __syncthreads();
    give_results(args, m, view, piece, memory, sums);
    __syncthreads();
}

/* The piece from `begin` on, in its tile of its chunk. */
template <bool WHOLE>
static __device__ __forceinline__ void begin_piece(const scan_args &args, const decode_shared &m,
                                                   const state_view &view, int begin,
                                                   decode_piece &piece) {
    int next = begin - begin % TILE + TILE;
    piece.begin = begin;
    piece.end = next < view.end ? next : view.end;
    piece.tile = begin % LN_STATE_CHUNK / TILE;
    load_updates<WHOLE>(args, m, view, piece);
}

/* The chunk of a position, behind a state. */
static __device__ __forceinline__ void begin_chunk(const scan_args &args, int begin,
                                                   const float *state, decode_piece &piece) {
    piece.chunk = begin - begin % LN_STATE_CHUNK;
    piece.ring = (unsigned)piece.chunk % (unsigned)args.state.shape.n_rows;
    piece.state = state;
}

/* Grid: heads, sequences, blocks of columns. */
template <bool WHOLE>
static __global__ void __launch_bounds__(DECODE_THREADS, 2)
    scan_decode(const __grid_constant__ scan_args args) {
    extern __shared__ double memory[];
    const ln_state_shape &s = args.state.shape;
    ln_pdl_launch_dependents();
    state_view view = view_sequence(args.state, (int)blockIdx.y);
    bool is_taken = view.begin < view.end && view.end - view.begin <= args.decode_tokens;
    decode_shared m = place_shared(memory, s.k_dim);
    decode_piece piece = {};
    piece.head = blockIdx.x;
    piece.k_head = key_head(args, piece.head);
    piece.column = blockIdx.z * DECODE_COLUMNS + threadIdx.x / LN_WARP * WARP_COLUMNS;
    piece.loads = WHOLE ? min(piece.column, (unsigned)s.v_dim - WARP_COLUMNS) : piece.column;
    const unsigned matrix = piece.head * (unsigned)(s.k_dim * s.v_dim);
    begin_chunk(args, view.begin, NULL, piece);
    if (piece.chunk > 0 && is_taken)
        piece.state = state_at(args.state, view, piece.chunk) + matrix;
    state_rows rows;
    begin_state<WHOLE>(args, piece, rows);
    if (is_taken) {
        prefetch_tail(args, view, piece);
        load_decays(args, m, view, piece);
        begin_piece<WHOLE>(args, m, view, view.begin, piece);
        clear_rows(m);
    }
    __syncthreads();
    ln_pdl_wait(); /* what comes before is of earlier steps */
    if (!is_taken)
        return;
    load_controls(args, m, view, piece.head);
    load_rows(args, m, view, piece.k_head);
    for (;;) {
        scan_piece<WHOLE>(args, m, view, piece, rows);
        if (piece.end % LN_STATE_CHUNK == 0) {
            float *state = state_target(args.state, view, piece.end) + matrix;
            end_chunk<WHOLE>(args, m, view, piece, state);
            begin_chunk(args, piece.end, state, piece);
            __syncthreads();
        }
        if (piece.end == view.end)
            return;
        begin_state<WHOLE>(args, piece, rows);
        begin_piece<WHOLE>(args, m, view, piece.end, piece);
    }
}

static bool is_aligned(const float *start, size_t stride) {
    return ((uintptr_t)start / sizeof(float) | stride) % 4 == 0;
}

/* Whether there are whole steps of keys and whole warps of columns, which lie aligned. */
static bool is_whole(const ln_state_args &p) {
    return p.shape.k_dim % 16 == 0 && p.shape.v_dim % WARP_COLUMNS == 0 &&
           is_aligned(p.states, p.state_floats) &&
           is_aligned(p.tails + p.tail_keys, p.tail_floats) &&
           is_aligned(p.tails + p.tail_updates, p.tail_floats);
}

template <bool WHOLE>
static int launch(const scan_args &args, unsigned n_seqs, cudaStream_t stream) {
    const ln_state_shape &s = args.state.shape;
    size_t bytes = shared_bytes(s.k_dim);
    int code = cudaFuncSetAttribute(scan_decode<WHOLE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes);
    dim3 grid((unsigned)s.n_heads, n_seqs, ln_ceil_div(s.v_dim, DECODE_COLUMNS));
    return code != 0 ? code
                     : ln_pdl_launch(scan_decode<WHOLE>, grid, DECODE_THREADS, bytes, stream, args);
}

int ln_scan_decode(const scan_args &args, unsigned n_seqs, cudaStream_t stream) {
    return is_whole(args.state) ? launch<true>(args, n_seqs, stream)
                                : launch<false>(args, n_seqs, stream);
}
