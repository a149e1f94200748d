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
 * The tokens go round no ring, so the block keeps the tail itself. */
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
    double *c;           /* [LN_STATE_CHUNK] the chunk's sums of decays */
    double *decays;      /* [DECODE_TOKENS] of the step's tokens */
    float *scales;       /* [DECODE_TOKENS] of their values */
    float *x;            /* [2 DECODE_TOKENS][x_stride]: keys, then queries */
    float *weights;      /* [2 DECODE_TOKENS][WEIGHT_STRIDE] of updates, for each row of x */
    float *updates;      /* [TILE][UPDATE_STRIDE] of the tile at work */
    float *of_keys;      /* [DECODE_TOKENS][UPDATE_STRIDE] what keys find in memory */
    int x_stride, k_dim; /* k_dim: filled up to whole steps with zeros */
} decode_shared;

/* Tokens begin .. end - 1 of the step, in one tile of their chunk. */
typedef struct decode_piece {
    int chunk, begin, end; /* positions */
    int tile;              /* of the chunk */
    size_t head, k_head;
    size_t column;      /* the first of the warp */
    const float *state; /* of the head; NULL: zero */
} decode_piece;

/* How many floats of rows lie together where four are wanted. */
typedef struct decode_args {
    scan_args scan;
    int of_states, of_keys, of_updates;
} decode_args;

static __host__ __device__ int padded_keys(size_t k_dim) {
    return (int)(k_dim + 15) / 16 * 16;
}

static size_t shared_bytes(size_t k_dim) {
    size_t floats = DECODE_TOKENS + 2 * DECODE_TOKENS * ((size_t)padded_keys(k_dim) + 16) +
                    2 * DECODE_TOKENS * WEIGHT_STRIDE + (TILE + DECODE_TOKENS) * UPDATE_STRIDE;
    return (LN_STATE_CHUNK + DECODE_TOKENS) * sizeof(double) + floats * sizeof(float);
}

static __device__ __forceinline__ decode_shared place_shared(double *memory, size_t k_dim) {
    decode_shared m;
    m.k_dim = padded_keys(k_dim);
    m.x_stride = m.k_dim % 32 == 0 ? m.k_dim + 16 : m.k_dim;
    m.c = memory;
    m.decays = m.c + LN_STATE_CHUNK;
    m.scales = (float *)(m.decays + DECODE_TOKENS);
    m.x = m.scales + DECODE_TOKENS;
    m.weights = m.x + 2 * DECODE_TOKENS * m.x_stride;
    m.updates = m.weights + 2 * DECODE_TOKENS * WEIGHT_STRIDE;
    m.of_keys = m.updates + TILE * UPDATE_STRIDE;
    return m;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Elements i .. i + 3 of a row of n, zeros behind its end; `together` of them lie aligned. */
static __device__ __forceinline__ float4 load_four(const float *row, size_t i, size_t n,
                                                   int together) {
    if (i + 4 <= n && together == 4)
        return *(const float4 *)(row + i);
    if (i + 4 <= n && together == 2) {
        float2 a = *(const float2 *)(row + i), b = *(const float2 *)(row + i + 2);
        return make_float4(a.x, a.y, b.x, b.y);
    }
    return make_float4(i < n ? row[i] : 0.0f, i + 1 < n ? row[i + 1] : 0.0f,
                       i + 2 < n ? row[i + 2] : 0.0f, i + 3 < n ? row[i + 3] : 0.0f);
}

/* The step's keys and queries, a warp a row, in turns; zeros behind them. */
static __device__ void load_rows(const scan_args &args, const decode_shared &m,
                                 const state_view &view, size_t k_head) {
    const ln_state_shape &s = args.state.shape;
    int n = view.end - view.begin;
    for (int at = (int)(threadIdx.x / LN_WARP); at < 2 * DECODE_TOKENS; at += DECODE_WARPS) {
        int token = at / 2;
        bool is_key = at % 2 == 0;
        float *to = m.x + (is_key ? token : DECODE_TOKENS + token) * m.x_stride;
        size_t row = (size_t)(view.row + token);
        const float *x =
            is_key ? args.p.k + row * args.p.k_stride : args.p.q + row * args.p.q_stride;
        if (token < n)
            load_head(args, x + k_head * s.k_dim, to);
        for (int i = (token < n ? (int)s.k_dim : 0) + (int)(threadIdx.x % LN_WARP); i < m.k_dim;
             i += LN_WARP)
            to[i] = 0.0f;
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
    for (int t = (int)threadIdx.x; t < view.begin - piece.chunk; t += DECODE_THREADS)
        m.c[t] = tail[tail_row(args.state.shape, piece.head, piece.chunk + t, 1)];
}

/* The chunk's sums of decays from the piece's begin to its end, in the tail, too; by one thread. */
static __device__ void sum_decays(const scan_args &args, const decode_shared &m,
                                  const state_view &view, const decode_piece &piece) {
    double *tail = (double *)view.tail;
    for (int position = piece.begin; position < piece.end; position++) {
        int t = position - piece.chunk;
        m.c[t] = m.decays[position - view.begin] + (t > 0 ? m.c[t - 1] : 0.0);
        if (blockIdx.z == 0)
            tail[tail_row(args.state.shape, piece.head, position, 1)] = m.c[t];
    }
}

static __device__ __forceinline__ const float *
tail_update(const scan_args &args, const state_view &view, const decode_piece &piece, int t) {
    const ln_state_shape &s = args.state.shape;
    return view.tail + args.state.tail_updates + tail_row(s, piece.head, piece.chunk + t, s.v_dim);
}

/* Asks for what the tail has of the piece's chunk: keys, and updates of the block's columns. */
static __device__ void prefetch_tail(const scan_args &args, const state_view &view,
                                     const decode_piece &piece) {
    enum { LINE = 128 / sizeof(float) };
    const ln_state_shape &s = args.state.shape;
    int n = view.begin - piece.chunk, n_keys = (int)(s.k_dim + LINE - 1) / LINE;
    size_t column = (size_t)blockIdx.z * DECODE_COLUMNS;
    int n_updates = (int)(min(s.v_dim - column, (size_t)DECODE_COLUMNS) + LINE - 1) / LINE;
    for (int i = (int)threadIdx.x; i < n * n_keys; i += DECODE_THREADS)
        prefetch_line(view.tail + args.state.tail_keys +
                      tail_row(s, piece.k_head, piece.chunk + i / n_keys, s.k_dim) +
                      i % n_keys * LINE);
    for (int i = (int)threadIdx.x; i < n * n_updates; i += DECODE_THREADS)
        prefetch_line(tail_update(args, view, piece, i / n_updates) + column +
                      i % n_updates * LINE);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Two steps of channels of the step's keys and queries, from channel i on. */
static __device__ __forceinline__ void take_x(const decode_shared &m, int i,
                                              ln_tf32_pair<4> (&a)[2]) {
    int lane = (int)(threadIdx.x % LN_WARP);
    const float *row = m.x + lane / 4 * m.x_stride + 4 * (lane % 4) + i;
    float4 key = *(const float4 *)row, query = *(const float4 *)(row + DECODE_TOKENS * m.x_stride);
    ln_tf32_put(a[0], 0, key.x), ln_tf32_put(a[0], 1, query.x);
    ln_tf32_put(a[0], 2, key.y), ln_tf32_put(a[0], 3, query.y);
    ln_tf32_put(a[1], 0, key.z), ln_tf32_put(a[1], 1, query.z);
    ln_tf32_put(a[1], 2, key.w), ln_tf32_put(a[1], 3, query.w);
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
static __device__ void multiply_keys(const decode_args &args, const decode_shared &m,
                                     const state_view &view, const decode_piece &piece, int first,
                                     float (&sums)[4]) {
    const ln_state_shape &s = args.scan.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), position = piece.chunk + first + lane / 4;
    bool is_old = position < view.begin, is_there = position < view.end;
    const float *row = is_old ? view.tail + args.scan.state.tail_keys +
                                    tail_row(s, piece.k_head, position, s.k_dim)
                              : m.x + (is_there ? position - view.begin : 0) * m.x_stride;
    int together = is_old ? args.of_keys : 4;
    size_t n = !is_there ? 0 : s.k_dim;
    for (int from = 0; from < m.k_dim; from += 16 * KEYS_AT_ONCE) {
        float4 keys[KEYS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < KEYS_AT_ONCE; i++)
            keys[i] = load_four(row, (size_t)(from + 16 * i + 4 * (lane % 4)), n, together);
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

/* Step `i` of those that are under way, from channel `from` on. */
static __device__ __forceinline__ void
load_state_step(const decode_args &args, const decode_piece &piece, int from, float4 (&rows)[4]) {
    const ln_state_shape &s = args.scan.state.shape;
    size_t lane = threadIdx.x % LN_WARP, j = piece.column + 4 * (lane / 4);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        size_t channel = (size_t)from + 4 * (lane % 4) + (size_t)i;
        rows[i] = load_four(piece.state + channel * s.v_dim, j, channel < s.k_dim ? s.v_dim : 0,
                            args.of_states);
    }
}

/* The first steps, long before they are wanted. */
static __device__ __forceinline__ void begin_state(const decode_args &args,
                                                   const decode_piece &piece, state_rows &state) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (piece.state != NULL)
            load_state_step(args, piece, 16 * i, state.rows[i]);
}

/* The step's rows times the warp's columns of the state. */
static __device__ __forceinline__ void multiply_state(const decode_args &args,
                                                      const decode_shared &m,
                                                      const decode_piece &piece, state_rows &state,
                                                      float (&sums)[4][4]) {
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
                load_state_step(args, piece, from + 16 * (i + AT_ONCE), state.rows[i]);
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
static __device__ void intra_chunk_scores(const decode_args &args, const decode_shared &m,
                                          const state_view &view, const decode_piece &piece) {
    int lane = (int)(threadIdx.x % LN_WARP), warp = (int)(threadIdx.x / LN_WARP);
    for (int first = 8 * warp; first < TILE * (piece.tile + 1); first += 8 * DECODE_WARPS) {
        float sums[4] = {};
        multiply_keys(args, m, view, piece, first, sums);
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
static __device__ __forceinline__ size_t element_column(int i, int n) {
    return 8 * (threadIdx.x % 4) + 4 * (size_t)(i % 2) + (size_t)n;
}

/* What keys find in the state and in updates of earlier tiles, to shared memory; `sums` keeps the
 * latter for queries, `memory` the former. */
static __device__ void inter_chunk_products(const decode_args &args, const decode_shared &m,
                                            const state_view &view, const decode_piece &piece,
                                            state_rows &state, float (&memory)[4][4],
                                            float (&sums)[4][4]) {
    const ln_state_shape &s = args.scan.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), position = view.begin + lane / 4;
    size_t j = piece.column + 4 * (size_t)(lane / 4);
    if (piece.state != NULL)
        multiply_state(args, m, piece, state, memory);
#pragma unroll 2
    for (int at = 0; at < TILE * piece.tile; at += 8)
        add_updates(m, at,
                    load_four(tail_update(args.scan, view, piece, at + lane % 4), j, s.v_dim,
                              args.of_updates),
                    load_four(tail_update(args.scan, view, piece, at + lane % 4 + 4), j, s.v_dim,
                              args.of_updates),
                    sums);
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

/* The updates of the piece's tile before it; a thread has a column. */
static __device__ void load_updates(const decode_args &args, const decode_shared &m,
                                    const state_view &view, const decode_piece &piece) {
    const ln_state_shape &s = args.scan.state.shape;
    size_t j = (size_t)blockIdx.z * DECODE_COLUMNS + threadIdx.x;
    int first = piece.chunk + TILE * piece.tile;
    float before[TILE];
#pragma unroll
    for (int t = 0; t < TILE; t++)
        before[t] = first + t < piece.begin && j < s.v_dim
                        ? tail_update(args.scan, view, piece, TILE * piece.tile + t)[j]
                        : 0.0f;
#pragma unroll
    for (int t = 0; t < TILE; t++)
        m.updates[t * UPDATE_STRIDE + threadIdx.x] = before[t];
}

/* The value of the piece's first token in a thread's column. */
static __device__ float first_value(const decode_args &args, const state_view &view,
                                    const decode_piece &piece) {
    const ln_op_scan &p = args.scan.p;
    const ln_state_shape &s = args.scan.state.shape;
    size_t j = (size_t)blockIdx.z * DECODE_COLUMNS + threadIdx.x;
    size_t row = (size_t)(view.row + piece.begin - view.begin);
    return j < s.v_dim ? p.v[row * p.v_stride + piece.head * s.v_dim + j] : 0.0f;
}

/* The piece's updates, one token after the other, of which the first has `value`. */
static __device__ void find_updates(const decode_args &args, const decode_shared &m,
                                    const state_view &view, const decode_piece &piece,
                                    float value) {
    const ln_op_scan &p = args.scan.p;
    const ln_state_shape &s = args.scan.state.shape;
    size_t j = (size_t)blockIdx.z * DECODE_COLUMNS + threadIdx.x;
    int first = piece.chunk + TILE * piece.tile;
    float *updates = m.updates + threadIdx.x;
    for (int position = piece.begin; position < piece.end && j < s.v_dim; position++) {
        int token = position - view.begin;
        size_t row = (size_t)(view.row + token);
        float u =
            position == piece.begin ? value : p.v[row * p.v_stride + piece.head * s.v_dim + j];
        if (p.b != NULL) {
            const float *weights = m.weights + token * WEIGHT_STRIDE + TILE * piece.tile;
            u -= m.of_keys[token * UPDATE_STRIDE + threadIdx.x];
            for (int t = 0; t < position - first; t++)
                u = fmaf(-weights[t], updates[t * UPDATE_STRIDE], u);
        }
        u *= m.scales[token];
        updates[(position - first) * UPDATE_STRIDE] = u;
        view.tail[args.scan.state.tail_updates + tail_row(s, piece.head, position, s.v_dim) + j] =
            u;
    }
}

static __device__ void give_results(const decode_args &args, const decode_shared &m,
                                    const state_view &view, const decode_piece &piece,
                                    const float (&memory)[4][4], float (&sums)[4][4]) {
    const ln_op_scan &p = args.scan.p;
    const ln_state_shape &s = args.scan.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), position = view.begin + lane / 4;
    size_t warp = threadIdx.x / LN_WARP;
#pragma unroll
    for (int at = 0; at < TILE; at += 8) {
        const float *row = m.updates + (at + lane % 4) * UPDATE_STRIDE + warp * WARP_COLUMNS +
                           4 * (size_t)(lane / 4);
        add_updates(m, TILE * piece.tile + at, *(const float4 *)row,
                    *(const float4 *)(row + 4 * UPDATE_STRIDE), sums);
    }
    if (position < piece.begin || position >= piece.end)
        return;
    size_t row = (size_t)(view.row + position - view.begin);
    float kept = expf((float)m.c[position - piece.chunk]);
#pragma unroll
    for (int i = 2; i < 4; i++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            size_t j = piece.column + element_column(i, n);
            if (j >= s.v_dim)
                continue;
            float y = p.q_scale * fmaf(kept, memory[n][i], sums[n][i]);
            if (p.skip != NULL)
                y = fmaf(p.skip[piece.head], p.v[row * p.v_stride + piece.head * s.v_dim + j], y);
            p.out[(row * s.n_heads + piece.head) * s.v_dim + j] = y;
        }
}

/* Channel i of the key at a position of the chunk. */
static __device__ __forceinline__ float key_at(const scan_args &args, const decode_shared &m,
                                               const state_view &view, const decode_piece &piece,
                                               int position, int i) {
    const ln_state_shape &s = args.state.shape;
    if (position >= view.begin)
        return m.x[(position - view.begin) * m.x_stride + i];
    return i < (int)s.k_dim
               ? view.tail[args.state.tail_keys + tail_row(s, piece.k_head, position, s.k_dim) + i]
               : 0.0f;
}

/* The state behind the chunk, of the warp's columns, to `state`. */
static __device__ void end_chunk(const decode_args &args, const decode_shared &m,
                                 const state_view &view, const decode_piece &piece, float *state) {
    const ln_state_shape &shape = args.scan.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    const double last = m.c[LN_STATE_CHUNK - 1];
    float kept = expf((float)last);
    size_t j = piece.column + 4 * (size_t)g;
    for (int from = 0; from < m.k_dim; from += 16) {
        float sums[4][4] = {};
        for (int s = t; s < LN_STATE_CHUNK; s += 8) {
            int position = piece.chunk + s;
            float near = expf((float)(last - m.c[s])), far = expf((float)(last - m.c[s + 4]));
            ln_tf32_pair<4> a;
#pragma unroll
            for (int i = 0; i < 4; i++)
                ln_tf32_put(a, i,
                            key_at(args.scan, m, view, piece, position + 4 * (i / 2),
                                   from + g + 8 * (i % 2)) *
                                (i < 2 ? near : far));
            float4 first =
                load_four(tail_update(args.scan, view, piece, s), j, shape.v_dim, args.of_updates);
            float4 second = load_four(tail_update(args.scan, view, piece, s + 4), j, shape.v_dim,
                                      args.of_updates);
#pragma unroll
            for (int n = 0; n < 4; n++)
                ln_mma_f32(sums[n], a, take_two(of_column(first, n), of_column(second, n)));
        }
#pragma unroll
        for (int at = 0; at < 16; at++) {
            int i = from + g + 8 * (at % 4 / 2);
            size_t column = piece.column + element_column(at % 2, at / 4);
            if (i >= (int)shape.k_dim || column >= shape.v_dim)
                continue;
            size_t element = (size_t)i * shape.v_dim + column;
            float before = piece.state != NULL ? piece.state[element] : 0.0f;
            state[element] = fmaf(kept, before, sums[at / 4][at % 4]);
        }
    }
}

static __device__ __forceinline__ void scan_piece(const decode_args &args, const decode_shared &m,
                                                  const state_view &view, const decode_piece &piece,
                                                  state_rows &state) {
    float memory[4][4] = {}, sums[4][4] = {};
    float value = first_value(args, view, piece);
    if (threadIdx.x == 0)
        sum_decays(args.scan, m, view, piece);
    __syncthreads();
    intra_chunk_scores(args, m, view, piece);
    __syncthreads();
    inter_chunk_products(args, m, view, piece, state, memory, sums);
    __syncthreads();
    find_updates(args, m, view, piece, value);
    __syncthreads();
    give_results(args, m, view, piece, memory, sums);
    __syncthreads();
}

/* The step's keys go to the tail by the first head that has them. */
static __device__ void keep_keys(const scan_args &args, const decode_shared &m,
                                 const state_view &view, const decode_piece &piece) {
    const ln_state_shape &s = args.state.shape;
    size_t first = args.p.tiled ? piece.k_head : piece.k_head * (s.n_heads / s.n_k_heads);
    if (piece.head != first || blockIdx.z > 0)
        return;
    for (int position = view.begin; position < view.end; position++) {
        float *to = view.tail + args.state.tail_keys + tail_row(s, piece.k_head, position, s.k_dim);
        for (size_t i = threadIdx.x; i < s.k_dim; i += DECODE_THREADS)
            to[i] = m.x[(position - view.begin) * m.x_stride + (int)i];
    }
}

/* The piece from `begin` on, in its tile. */
static __device__ void begin_piece(const decode_args &args, const decode_shared &m,
                                   const state_view &view, int begin, decode_piece &piece) {
    int next = begin - begin % TILE + TILE;
    piece.begin = begin;
    piece.end = next < view.end ? next : view.end;
    piece.tile = begin % LN_STATE_CHUNK / TILE;
    load_updates(args, m, view, piece);
}

/* Grid: heads, sequences, blocks of columns. */
static __global__ void __launch_bounds__(DECODE_THREADS, 3)
    scan_decode(const __grid_constant__ decode_args args) {
    extern __shared__ double memory[];
    const ln_state_shape &s = args.scan.state.shape;
    ln_pdl_launch_dependents();
    state_view view = view_sequence(args.scan.state, (int)blockIdx.y);
    bool is_taken = view.begin < view.end && view.end - view.begin <= args.scan.decode_tokens;
    decode_shared m = place_shared(memory, s.k_dim);
    decode_piece piece = {};
    piece.head = blockIdx.x;
    piece.k_head = key_head(args.scan, piece.head);
    piece.column =
        (size_t)blockIdx.z * DECODE_COLUMNS + threadIdx.x / LN_WARP * (size_t)WARP_COLUMNS;
    piece.chunk = view.begin - view.begin % LN_STATE_CHUNK;
    size_t matrix = piece.head * s.k_dim * s.v_dim;
    if (piece.chunk > 0 && is_taken)
        piece.state = state_at(args.scan.state, view, piece.chunk) + matrix;
    state_rows rows;
    begin_state(args, piece, rows);
    if (is_taken) {
        prefetch_tail(args.scan, view, piece);
        load_decays(args.scan, m, view, piece);
        begin_piece(args, m, view, view.begin, piece);
    }
    ln_pdl_wait(); /* what comes before is of earlier steps */
    if (!is_taken)
        return;
    load_controls(args.scan, m, view, piece.head);
    load_rows(args.scan, m, view, piece.k_head);
    __syncthreads();
    keep_keys(args.scan, m, view, piece);
    for (;;) {
        scan_piece(args, m, view, piece, rows);
        if (piece.end % LN_STATE_CHUNK == 0) {
            float *state = state_target(args.scan.state, view, piece.end) + matrix;
            end_chunk(args, m, view, piece, state);
            piece.state = state;
            piece.chunk = piece.end;
            __syncthreads();
        }
        if (piece.end == view.end)
            return;
        begin_state(args, piece, rows);
        begin_piece(args, m, view, piece.end, piece);
    }
}

/* 4, 2 or 1: how many floats lie aligned at rows of `width` behind `start`. */
static int floats_together(const float *start, size_t stride, size_t width) {
    size_t parts = (uintptr_t)start / sizeof(float) | stride | width;
    return parts % 4 == 0 ? 4 : parts % 2 == 0 ? 2 : 1;
}

int ln_scan_decode(const scan_args &args, unsigned n_seqs, cudaStream_t stream) {
    const ln_state_args &state = args.state;
    const ln_state_shape &s = state.shape;
    decode_args decode = {};
    decode.scan = args;
    decode.of_states = floats_together(state.states, state.state_floats, s.v_dim);
    decode.of_keys = floats_together(state.tails + state.tail_keys, state.tail_floats, s.k_dim);
    decode.of_updates =
        floats_together(state.tails + state.tail_updates, state.tail_floats, s.v_dim);
    size_t bytes = shared_bytes(s.k_dim);
    int code =
        cudaFuncSetAttribute(scan_decode, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    dim3 grid((unsigned)s.n_heads, n_seqs, ln_ceil_div(s.v_dim, DECODE_COLUMNS));
    return code != 0 ? code
                     : ln_pdl_launch(scan_decode, grid, DECODE_THREADS, bytes, stream, decode);
}
