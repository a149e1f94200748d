/* The scan of sequences of many tokens, on tensor cores: a chunk of LN_STATE_CHUNK tokens at a
 * time, for heads that decay as a whole.
 *
 * A block has a head of a sequence and CHUNK_COLUMNS columns of its state. Of a chunk it computes
 *
 *   weights   W[t][s] = e^{c_t - c_s} (k_s . q_t) of updates s <= t, and of k_t those of s < t
 *   memory    P[t] = S0 q_t, and S0 k_t
 *   updates   u_t = b (v_t - e^{c_t} S0 k_t - sum over s < t): 16 tokens at a time, whose sums over
 *             earlier 16 are products of matrices; within them one after the other
 *   results   e^{c_t} P[t] + sum over s <= t of W[t][s] u_s
 *   state     e^{c_C} S0 + sum over s of e^{c_C - c_s} k_s u_s
 *
 * by products of 16 x 8 x 8 elements (ln_mma_f32), whose rows do not depend on one another and
 * which are summed in order of 8 positions or channels. So a token's bits are those of
 * scan_decode.cu, and do not depend on how a chunk is cut. Sixteen channels are two steps: lane 4 g
 * + t has the channels 4 t and 4 t + 1 of the first, 4 t + 2 and 4 t + 3 of the second, four that
 * lie together.
 */
#include "backend/cuda/ops/scan.cuh"
#include "backend/cuda/ptx/mma_tf32.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"

enum {
    CHUNK = LN_STATE_CHUNK,
    CHUNK_COLUMNS = 32,
    CHUNK_WARPS = 8,
    CHUNK_THREADS = CHUNK_WARPS * LN_WARP,
    BLOCK_ROWS = 16,  /* tokens whose updates are found one after the other */
    ROWS_AT_ONCE = 4, /* rows whose loads are under way, of so many channels a lane */
    LANE_CHANNELS = 4,
    /* Floats of rows, of which those that a warp reads at once lie in different banks. */
    STATE_STRIDE = CHUNK_COLUMNS + 2,
    UPDATE_STRIDE = CHUNK_COLUMNS + 8,
    WEIGHT_STRIDE = CHUNK + 4
};

typedef struct chunk_shared {
    double *c;                          /* [CHUNK] sums of decays */
    float *scales;                      /* [CHUNK] of values */
    float *keys, *queries;              /* [CHUNK][key_stride] */
    float *state;                       /* [padded k_dim][STATE_STRIDE] */
    float *updates;                     /* [CHUNK][UPDATE_STRIDE] values, then updates */
    float *key_weights, *query_weights; /* [CHUNK][WEIGHT_STRIDE] */
    float *of_keys, *of_queries;        /* [CHUNK][UPDATE_STRIDE] P */
    int key_stride, k_dim;              /* k_dim: filled up to whole steps with zeros */
} chunk_shared;

/* The chunk at work: tokens first .. end - 1 are the step's, of which the first has row `row`. */
typedef struct chunk_span {
    int chunk, first, end;
    size_t row, head, column; /* column: the block's first */
} chunk_span;

static __host__ __device__ int padded_keys(size_t k_dim) {
    return (int)(k_dim + 15) / 16 * 16;
}

static __host__ __device__ int key_stride_of(size_t k_dim) {
    int n = padded_keys(k_dim);
    return n % 32 == 0 ? n + 16 : n;
}

static size_t shared_bytes(size_t k_dim) {
    size_t floats = CHUNK + 2 * CHUNK * (size_t)key_stride_of(k_dim) +
                    (size_t)padded_keys(k_dim) * STATE_STRIDE + 3 * CHUNK * UPDATE_STRIDE +
                    2 * CHUNK * WEIGHT_STRIDE;
    return CHUNK * sizeof(double) + floats * sizeof(float);
}

static __device__ __forceinline__ chunk_shared place_shared(double *memory, size_t k_dim) {
    chunk_shared m;
    m.k_dim = padded_keys(k_dim);
    m.key_stride = key_stride_of(k_dim);
    m.c = memory;
    m.scales = (float *)(m.c + CHUNK);
    m.keys = m.scales + CHUNK;
    m.queries = m.keys + CHUNK * m.key_stride;
    m.state = m.queries + CHUNK * m.key_stride;
    m.updates = m.state + m.k_dim * STATE_STRIDE;
    m.key_weights = m.updates + CHUNK * UPDATE_STRIDE;
    m.query_weights = m.key_weights + CHUNK * WEIGHT_STRIDE;
    m.of_keys = m.query_weights + CHUNK * WEIGHT_STRIDE;
    m.of_queries = m.of_keys + CHUNK * UPDATE_STRIDE;
    return m;
}

/* ---- a chunk's inputs ------------------------------------------------------------------------ */

/* Sums of decays and scales of values; by the first warp, whose lanes have two tokens each. */
static __device__ void load_decays(const scan_args &args, const chunk_shared &m,
                                   const state_view &view, const chunk_span &span) {
    const double *tail = (const double *)view.tail;
    int lane = (int)(threadIdx.x % LN_WARP);
    double decays[2] = {0.0, 0.0}, sum = 0.0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int t = lane + half * LN_WARP;
        size_t row = span.row + (size_t)(t - span.first);
        if (t >= span.end)
            continue;
        decays[half] = t < span.first
                           ? tail[tail_row(args.state.shape, span.head, span.chunk + t, 1)]
                           : decay_of(args, row, span.head, 0);
        m.scales[t] = t < span.first ? 1.0f : value_scale(args, row, span.head);
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int at = 0; at < LN_WARP; at++) {
            double x = __shfl_sync(0xffffffffu, decays[half], at);
            sum = at + half * LN_WARP < span.first ? x : sum + x;
            if (lane == at)
                m.c[at + half * LN_WARP] = sum;
        }
}

/* Where a row of a key or query comes from, and whether it is one of the step's. */
static __device__ __forceinline__ const float *row_source(const scan_args &args,
                                                          const state_view &view,
                                                          const chunk_span &span, size_t k_head,
                                                          bool is_key, int t) {
    const ln_state_shape &s = args.state.shape;
    size_t row = span.row + (size_t)(t - span.first);
    if (t >= span.end || (t < span.first && !is_key))
        return NULL;
    if (t < span.first)
        return view.tail + args.state.tail_keys + tail_row(s, k_head, span.chunk + t, s.k_dim);
    return (is_key ? args.p.k + row * args.p.k_stride : args.p.q + row * args.p.q_stride) +
           k_head * s.k_dim;
}

/* ROWS_AT_ONCE rows of keys or queries as load_head gives them, zeros where there are none; by a
 * warp, for heads of up to LANE_CHANNELS channels a lane. */
static __device__ __forceinline__ void load_some_rows(const scan_args &args, const chunk_shared &m,
                                                      const state_view &view,
                                                      const chunk_span &span, bool is_key,
                                                      int first) {
    int lane = (int)(threadIdx.x % LN_WARP), k_dim = (int)args.state.shape.k_dim;
    size_t k_head = key_head(args, span.head);
    float x[ROWS_AT_ONCE][LANE_CHANNELS], squares[ROWS_AT_ONCE] = {};
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
        const float *row = row_source(args, view, span, k_head, is_key, first + r);
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; i++)
            x[r][i] = row != NULL && lane + i * LN_WARP < k_dim ? row[lane + i * LN_WARP] : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; i++)
            squares[r] = fmaf(x[r][i], x[r][i], squares[r]);
        squares[r] = ln_warp_sum(squares[r]);
    }
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
        bool scales = args.p.unit_qk && first + r >= span.first;
        float scale = scales ? 1.0f / sqrtf(squares[r] + 1e-6f) : 1.0f;
        float *to = (is_key ? m.keys : m.queries) + (first + r) * m.key_stride;
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; i++)
            if (lane + i * LN_WARP < m.k_dim)
                to[lane + i * LN_WARP] = x[r][i] * scale;
    }
}

/* The same of one row of any length. */
static __device__ void load_row(const scan_args &args, const chunk_shared &m,
                                const state_view &view, const chunk_span &span, bool is_key,
                                int t) {
    int lane = (int)(threadIdx.x % LN_WARP), k_dim = (int)args.state.shape.k_dim;
    float *to = (is_key ? m.keys : m.queries) + t * m.key_stride;
    const float *row = row_source(args, view, span, key_head(args, span.head), is_key, t);
    for (int i = (row != NULL ? k_dim : 0) + lane; i < m.k_dim; i += LN_WARP)
        to[i] = 0.0f;
    if (row != NULL && t >= span.first)
        load_head(args, row, to);
    for (int i = lane; i < k_dim && row != NULL && t < span.first; i += LN_WARP)
        to[i] = row[i];
}

/* Keys and queries up to the next whole BLOCK_ROWS; by all warps but the first. */
static __device__ void load_rows(const scan_args &args, const chunk_shared &m,
                                 const state_view &view, const chunk_span &span) {
    int warp = (int)(threadIdx.x / LN_WARP) - 1;
    int end = (span.end + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
    if (m.k_dim > LANE_CHANNELS * LN_WARP) {
        for (int at = warp; at < 2 * end; at += CHUNK_WARPS - 1)
            load_row(args, m, view, span, at % 2 == 0, at / 2);
        return;
    }
    for (int at = warp; at < 2 * end / ROWS_AT_ONCE; at += CHUNK_WARPS - 1)
        load_some_rows(args, m, view, span, at % 2 == 0, at / 2 * ROWS_AT_ONCE);
}

/* The tail's updates and the step's values. */
static __device__ void load_values(const scan_args &args, const chunk_shared &m,
                                   const state_view &view, const chunk_span &span) {
    const ln_state_shape &s = args.state.shape;
    int column = (int)threadIdx.x % CHUNK_COLUMNS, end = (span.end + BLOCK_ROWS - 1) / BLOCK_ROWS;
    size_t j = span.column + (size_t)column;
    constexpr int STEP = CHUNK_THREADS / CHUNK_COLUMNS, N = CHUNK / STEP;
    float x[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        int t = (int)threadIdx.x / CHUNK_COLUMNS + i * STEP;
        size_t row = span.row + (size_t)(t - span.first);
        x[i] = 0.0f;
        if (j < s.v_dim && t < span.first)
            x[i] = view.tail[args.state.tail_updates +
                             tail_row(s, span.head, span.chunk + t, s.v_dim) + j];
        else if (j < s.v_dim && t < span.end)
            x[i] = args.p.v[row * args.p.v_stride + span.head * s.v_dim + j];
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        int t = (int)threadIdx.x / CHUNK_COLUMNS + i * STEP;
        if (t < end * BLOCK_ROWS)
            m.updates[t * UPDATE_STRIDE + column] = x[i];
    }
}

static __device__ void load_state(const scan_args &args, const chunk_shared &m, const float *state,
                                  size_t column) {
    const ln_state_shape &s = args.state.shape;
    for (int at = (int)threadIdx.x; at < m.k_dim * CHUNK_COLUMNS; at += CHUNK_THREADS) {
        size_t i = (size_t)at / CHUNK_COLUMNS, j = column + (size_t)at % CHUNK_COLUMNS;
        bool is_there = state != NULL && i < s.k_dim && j < s.v_dim;
        m.state[i * STATE_STRIDE + (size_t)at % CHUNK_COLUMNS] =
            is_there ? state[i * s.v_dim + j] : 0.0f;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Elements of a row and of that eight below it for two steps of channels. */
static __device__ __forceinline__ void take_rows(const float *row, int stride,
                                                 ln_tf32_pair<4> (&a)[2]) {
    float4 upper = *(const float4 *)row, lower = *(const float4 *)(row + 8 * stride);
    ln_tf32_put(a[0], 0, upper.x), ln_tf32_put(a[0], 1, lower.x);
    ln_tf32_put(a[0], 2, upper.y), ln_tf32_put(a[0], 3, lower.y);
    ln_tf32_put(a[1], 0, upper.z), ln_tf32_put(a[1], 1, lower.z);
    ln_tf32_put(a[1], 2, upper.w), ln_tf32_put(a[1], 3, lower.w);
}

/* Rows 16 `tile` .. of x times 16 keys from `first` on. */
static __device__ __forceinline__ void multiply_keys(const chunk_shared &m, const float *x,
                                                     int tile, int first, float (&sums)[2][4]) {
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    const float *row = x + (BLOCK_ROWS * tile + g) * m.key_stride + 4 * t;
    const float *key = m.keys + (first + g) * m.key_stride + 4 * t;
#pragma unroll 2
    for (int i = 0; i < m.k_dim; i += 16) {
        ln_tf32_pair<4> a[2];
        take_rows(row + i, m.key_stride, a);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float4 k = *(const float4 *)(key + 8 * n * m.key_stride + i);
            ln_tf32_pair<2> b[2];
            ln_tf32_put(b[0], 0, k.x), ln_tf32_put(b[0], 1, k.y);
            ln_tf32_put(b[1], 0, k.z), ln_tf32_put(b[1], 1, k.w);
            ln_mma_f32(sums[n], a[0], b[0]);
            ln_mma_f32(sums[n], a[1], b[1]);
        }
    }
}

/* Rows 16 `tile` .. of x times 16 columns of the state from `first` on. */
static __device__ __forceinline__ void multiply_state(const chunk_shared &m, const float *x,
                                                      int tile, int first, float (&sums)[2][4]) {
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    const float *row = x + (BLOCK_ROWS * tile + g) * m.key_stride + 4 * t;
    const float *state = m.state + 4 * t * STATE_STRIDE + first + g;
#pragma unroll 2
    for (int i = 0; i < m.k_dim; i += 16) {
        ln_tf32_pair<4> a[2];
        take_rows(row + i, m.key_stride, a);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float *at = state + i * STATE_STRIDE + 8 * n;
            ln_tf32_pair<2> b[2];
            ln_tf32_put(b[0], 0, at[0]), ln_tf32_put(b[0], 1, at[STATE_STRIDE]);
            ln_tf32_put(b[1], 0, at[2 * STATE_STRIDE]), ln_tf32_put(b[1], 1, at[3 * STATE_STRIDE]);
            ln_mma_f32(sums[n], a[0], b[0]);
            ln_mma_f32(sums[n], a[1], b[1]);
        }
    }
}

/* Rows 16 `tile` .. of weights times updates 0 .. n - 1, of eight columns from `first` on. */
static __device__ __forceinline__ void multiply_updates(const chunk_shared &m, const float *weights,
                                                        int tile, int first, int n,
                                                        float (&sums)[4]) {
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    const float *row = weights + (BLOCK_ROWS * tile + g) * WEIGHT_STRIDE + t;
    const float *update = m.updates + t * UPDATE_STRIDE + first + g;
#pragma unroll 2
    for (int s = 0; s < n; s += 8) {
        ln_tf32_pair<4> a;
        ln_tf32_pair<2> b;
        ln_tf32_put(a, 0, row[s]), ln_tf32_put(a, 1, row[8 * WEIGHT_STRIDE + s]);
        ln_tf32_put(a, 2, row[s + 4]), ln_tf32_put(a, 3, row[8 * WEIGHT_STRIDE + s + 4]);
        ln_tf32_put(b, 0, update[s * UPDATE_STRIDE]);
        ln_tf32_put(b, 1, update[(s + 4) * UPDATE_STRIDE]);
        ln_mma_f32(sums, a, b);
    }
}

/* ---- weights and memory ---------------------------------------------------------------------- */

/* Where element i of eight columns from `first` on is in a tile of 16 rows. */
static __device__ __forceinline__ void place_element(int tile, int first, int i, int *row,
                                                     int *column) {
    int lane = (int)(threadIdx.x % LN_WARP);
    *row = BLOCK_ROWS * tile + lane / 4 + 8 * (i / 2);
    *column = first + 2 * (lane % 4) + i % 2;
}

static __device__ __forceinline__ void intra_chunk_scores(const chunk_shared &m, bool is_key,
                                                          int tile, int first, int end) {
    float sums[2][4] = {};
    float *weights = is_key ? m.key_weights : m.query_weights;
    multiply_keys(m, is_key ? m.keys : m.queries, tile, first, sums);
#pragma unroll
    for (int at = 0; at < 8; at++) {
        int t, s;
        place_element(tile, first + 8 * (at / 4), at % 4, &t, &s);
        bool counts = t < end && (is_key ? s < t : s <= t);
        weights[t * WEIGHT_STRIDE + s] =
            counts ? sums[at / 4][at % 4] * expf((float)(m.c[t] - m.c[s])) : 0.0f;
    }
}

static __device__ __forceinline__ void inter_chunk_products(const chunk_shared &m, bool is_key,
                                                            int tile, int first) {
    float sums[2][4] = {};
    float *of = is_key ? m.of_keys : m.of_queries;
    multiply_state(m, is_key ? m.keys : m.queries, tile, first, sums);
#pragma unroll
    for (int at = 0; at < 8; at++) {
        int t, column;
        place_element(tile, first + 8 * (at / 4), at % 4, &t, &column);
        of[t * UPDATE_STRIDE + column] = sums[at / 4][at % 4];
    }
}

/* Weights and memory of keys, or queries, of the step, a tile of 16 x 16 for each of the warps from
 * `first` on in turn. */
static __device__ void intra_and_inter_chunk(const chunk_shared &m, const chunk_span &span,
                                             bool is_key, int first) {
    int warp = (int)(threadIdx.x / LN_WARP) - first, unit = 0;
    for (int tile = span.first / BLOCK_ROWS; tile * BLOCK_ROWS < span.end; tile++)
        for (int part = 0; part < tile + 3; part++, unit++) {
            if (unit % (CHUNK_WARPS - first) != warp)
                continue;
            if (part <= tile)
                intra_chunk_scores(m, is_key, tile, part * BLOCK_ROWS, span.end);
            else
                inter_chunk_products(m, is_key, tile, (part - tile - 1) * BLOCK_ROWS);
        }
}

/* ---- updates and results --------------------------------------------------------------------- */

/* What is left of the values of a tile when what earlier tiles and the state have of it is gone; of
 * the warp's eight columns. */
static __device__ void subtract_memory(const chunk_shared &m, const chunk_span &span, int tile,
                                       int first) {
    float sums[4] = {};
    multiply_updates(m, m.key_weights, tile, first, BLOCK_ROWS * tile, sums);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int t, column;
        place_element(tile, first, i, &t, &column);
        if (t < span.first || t >= span.end)
            continue;
        float kept = expf((float)m.c[t]);
        float of_key = fmaf(kept, m.of_keys[t * UPDATE_STRIDE + column], sums[i]);
        m.updates[t * UPDATE_STRIDE + column] -= of_key;
    }
}

/* The updates of a tile, one token after the other; a lane has a column. */
static __device__ void solve_tile(const chunk_shared &m, const chunk_span &span, int tile,
                                  int column) {
    float u[BLOCK_ROWS];
    const float *weights = m.key_weights + BLOCK_ROWS * tile * (WEIGHT_STRIDE + 1);
    float *updates = m.updates + BLOCK_ROWS * tile * UPDATE_STRIDE + column;
#pragma unroll
    for (int t = 0; t < BLOCK_ROWS; t++)
        u[t] = updates[t * UPDATE_STRIDE];
#pragma unroll
    for (int t = 0; t < BLOCK_ROWS; t++) {
        int at = BLOCK_ROWS * tile + t;
        if (at < span.first || at >= span.end)
            continue;
#pragma unroll
        for (int s = 0; s < t; s++)
            u[t] = fmaf(-weights[t * WEIGHT_STRIDE + s], u[s], u[t]);
        u[t] *= m.scales[at];
    }
#pragma unroll
    for (int t = 0; t < BLOCK_ROWS; t++)
        updates[t * UPDATE_STRIDE] = u[t];
}

/* The delta rule's updates, tile after tile; each of the first warps has eight columns. */
static __device__ void find_updates(const chunk_shared &m, const chunk_span &span) {
    int lane = (int)(threadIdx.x % LN_WARP), first = 8 * (int)(threadIdx.x / LN_WARP);
    for (int tile = span.first / BLOCK_ROWS; tile * BLOCK_ROWS < span.end; tile++) {
        subtract_memory(m, span, tile, first);
        __syncwarp();
        if (lane < 8)
            solve_tile(m, span, tile, first + lane);
        __syncwarp();
    }
}

/* Updates of scans without the delta rule. */
static __device__ void scale_values(const chunk_shared &m, const chunk_span &span) {
    for (int at = (int)threadIdx.x; at < span.end * CHUNK_COLUMNS; at += CHUNK_THREADS) {
        int t = at / CHUNK_COLUMNS;
        if (t >= span.first)
            m.updates[t * UPDATE_STRIDE + at % CHUNK_COLUMNS] *= m.scales[t];
    }
}

/* Weights, memory and updates. With the delta rule the first half of the warps finds updates while
 * the others work for queries. */
static __device__ void prepare_chunk(const scan_args &args, const chunk_shared &m,
                                     const chunk_span &span) {
    if (args.p.b == NULL) {
        intra_and_inter_chunk(m, span, false, 0);
        scale_values(m, span);
        return;
    }
    intra_and_inter_chunk(m, span, true, 0);
    __syncthreads();
    if (threadIdx.x < CHUNK_THREADS / 2)
        find_updates(m, span);
    else
        intra_and_inter_chunk(m, span, false, CHUNK_WARPS / 2);
}

static __device__ void give_results(const scan_args &args, const chunk_shared &m,
                                    const chunk_span &span) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    int warp = (int)(threadIdx.x / LN_WARP), unit = 0;
    for (int tile = span.first / BLOCK_ROWS; tile * BLOCK_ROWS < span.end; tile++)
        for (int first = 0; first < CHUNK_COLUMNS; first += 8, unit++) {
            if (unit % CHUNK_WARPS != warp)
                continue;
            float sums[4] = {};
            multiply_updates(m, m.query_weights, tile, first, BLOCK_ROWS * (tile + 1), sums);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int t, column;
                place_element(tile, first, i, &t, &column);
                size_t j = span.column + (size_t)column;
                if (t < span.first || t >= span.end || j >= s.v_dim)
                    continue;
                size_t row = span.row + (size_t)(t - span.first);
                float kept = expf((float)m.c[t]);
                float y = p.q_scale * fmaf(kept, m.of_queries[t * UPDATE_STRIDE + column], sums[i]);
                if (p.skip != NULL)
                    y = fmaf(p.skip[span.head], p.v[row * p.v_stride + span.head * s.v_dim + j], y);
                p.out[(row * s.n_heads + span.head) * s.v_dim + j] = y;
            }
        }
}

/* The tail's updates of those tokens that are the sequence's last. */
static __device__ void keep_updates(const scan_args &args, const chunk_shared &m,
                                    const state_view &view, const chunk_span &span) {
    const ln_state_shape &s = args.state.shape;
    for (int at = (int)threadIdx.x; at < span.end * CHUNK_COLUMNS; at += CHUNK_THREADS) {
        int t = at / CHUNK_COLUMNS, position = span.chunk + t;
        size_t j = span.column + (size_t)(at % CHUNK_COLUMNS);
        if (t >= span.first && j < s.v_dim && view.end - position <= (int)s.n_rows)
            view.tail[args.state.tail_updates + tail_row(s, span.head, position, s.v_dim) + j] =
                m.updates[t * UPDATE_STRIDE + at % CHUNK_COLUMNS];
    }
}

/* The state behind the chunk, in shared memory and at `state`. A warp has 16 channels. */
static __device__ void end_chunk(const scan_args &args, const chunk_shared &m, float *state,
                                 size_t column) {
    const ln_state_shape &shape = args.state.shape;
    int lane = (int)(threadIdx.x % LN_WARP), g = lane / 4, t = lane % 4;
    float kept = expf((float)m.c[CHUNK - 1]);
    for (int tile = (int)(threadIdx.x / LN_WARP); tile * 16 < m.k_dim; tile += CHUNK_WARPS) {
        float sums[CHUNK_COLUMNS / 8][4] = {};
        for (int s = t; s < CHUNK; s += 8) {
            const float *key = m.keys + s * m.key_stride + 16 * tile + g;
            float near = expf((float)(m.c[CHUNK - 1] - m.c[s]));
            float far = expf((float)(m.c[CHUNK - 1] - m.c[s + 4]));
            ln_tf32_pair<4> a;
            ln_tf32_put(a, 0, key[0] * near), ln_tf32_put(a, 1, key[8] * near);
            ln_tf32_put(a, 2, key[4 * m.key_stride] * far);
            ln_tf32_put(a, 3, key[4 * m.key_stride + 8] * far);
#pragma unroll
            for (int n = 0; n < CHUNK_COLUMNS / 8; n++) {
                const float *update = m.updates + s * UPDATE_STRIDE + 8 * n + g;
                ln_tf32_pair<2> b;
                ln_tf32_put(b, 0, update[0]), ln_tf32_put(b, 1, update[4 * UPDATE_STRIDE]);
                ln_mma_f32(sums[n], a, b);
            }
        }
#pragma unroll
        for (int at = 0; at < CHUNK_COLUMNS / 2; at++) {
            int i, j;
            place_element(tile, 8 * (at / 4), at % 4, &i, &j);
            float *x = &m.state[i * STATE_STRIDE + j];
            *x = fmaf(kept, *x, sums[at / 4][at % 4]);
            if (i < (int)shape.k_dim && column + (size_t)j < shape.v_dim)
                state[(size_t)i * shape.v_dim + column + (size_t)j] = *x;
        }
    }
}

/* Grid: blocks of columns, heads, sequences. */
static __global__ void __launch_bounds__(CHUNK_THREADS, 1)
    scan_chunks(const __grid_constant__ scan_args args) {
    extern __shared__ double memory[];
    const ln_state_shape &s = args.state.shape;
    ln_pdl_launch_and_wait();
    state_view view = view_sequence(args.state, (int)blockIdx.z);
    if (view.end - view.begin <= args.decode_tokens)
        return;
    chunk_shared m = place_shared(memory, s.k_dim);
    chunk_span span = {};
    span.head = blockIdx.y;
    span.column = (size_t)blockIdx.x * CHUNK_COLUMNS;
    size_t matrix = span.head * s.k_dim * s.v_dim;
    int first_chunk = view.begin - view.begin % CHUNK;
    load_state(args, m, first_chunk > 0 ? state_at(args.state, view, first_chunk) + matrix : NULL,
               span.column);
    for (int chunk = first_chunk; chunk < view.end; chunk += CHUNK) {
        span.chunk = chunk;
        span.first = view.begin > chunk ? view.begin - chunk : 0;
        span.end = view.end - chunk < CHUNK ? view.end - chunk : CHUNK;
        span.row = (size_t)(view.row + chunk + span.first - view.begin);
        if (threadIdx.x < LN_WARP)
            load_decays(args, m, view, span);
        else
            load_rows(args, m, view, span);
        load_values(args, m, view, span);
        __syncthreads();
        prepare_chunk(args, m, span);
        __syncthreads();
        give_results(args, m, span);
        keep_updates(args, m, view, span);
        if (span.end == CHUNK)
            end_chunk(args, m, state_target(args.state, view, chunk + CHUNK) + matrix, span.column);
        __syncthreads();
    }
}

bool ln_scan_fits_chunks(const scan_args &args) {
    unsigned most;
    return ln_max_shared_bytes(&most) == 0 && shared_bytes(args.state.shape.k_dim) <= most;
}

int ln_scan_chunks(const scan_args &args, unsigned n_seqs, cudaStream_t stream) {
    const ln_state_shape &s = args.state.shape;
    size_t bytes = shared_bytes(s.k_dim);
    int code =
        cudaFuncSetAttribute(scan_chunks, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    dim3 grid(ln_ceil_div(s.v_dim, CHUNK_COLUMNS), (unsigned)s.n_heads, n_seqs);
    return code != 0 ? code : ln_pdl_launch(scan_chunks, grid, CHUNK_THREADS, bytes, stream, args);
}
