/* LN_OP_SCAN of Mamba 1, a selective scan, whose state's elements decay by themselves; and of
 * RG-LRU, which is one of a single row with keys and queries of 1.
 *
 * A thread has a column of a sequence's state and takes the tokens in order: first those that the
 * tail has behind the running state, then the step's. Columns do not depend on one another. Step
 * sizes and values of SELECTIVE_TILE tokens are loaded at once by each thread, and their keys and
 * queries by the block. A column of up to SELECTIVE_STATE elements lies in registers, a longer one
 * in shared memory.
 *
 * A second kernel keeps keys and counts, which all blocks of the first one read. */
#include "backend/cuda/ops/recurrent.cuh"
#include "backend/cuda/ops/selective.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"

enum { SELECTIVE_THREADS = 64, SELECTIVE_STATE = 16, SELECTIVE_TILE = 8, KEEP_THREADS = 128 };

typedef struct selective_args {
    ln_state_args state;
    ln_op_scan p;
    size_t tail_steps, tail_running, running_floats;
    size_t width, n_keys;     /* columns that share keys; floats of a token's keys of all heads */
    unsigned blocks_per_head; /* of the grid */
} selective_args;

/* ---- running states -------------------------------------------------------------------------- */

/* Of two running states that of the chunk at a position. */
static __device__ __forceinline__ int slot_of(const selective_args &args, int position) {
    return args.state.shape.n_rows > 0 ? position / LN_STATE_CHUNK % 2 : 0;
}

static __device__ __forceinline__ float *running_at(const selective_args &args,
                                                    const state_view &view, int position) {
    return view.tail + args.tail_running + slot_of(args, position) * args.running_floats;
}

/* How a sequence's step goes: from a state that has seen `start` tokens, over those that the tail
 * has behind it, to the step's own. */
typedef struct selective_run {
    int start;
    const float *from; /* [k_dim][v_dim] that state; NULL: zero */
    int sure;          /* tokens from here on may be drafts that the next steps refuse */
    int kept;          /* where a running state is kept that later steps begin with; 0: nowhere */
} selective_run;

static __device__ __forceinline__ selective_run run_of(const selective_args &args,
                                                       const state_view &view) {
    int chunk = view.begin - view.begin % LN_STATE_CHUNK;
    int n_drafts = (int)args.state.shape.n_rows / 2, n_seen = 0;
    if (view.begin > chunk) /* where a chunk begins the tail may be anything */
        n_seen = (int)view.tail[slot_of(args, chunk)];
    selective_run r = {};
    r.start = chunk + n_seen;
    if (n_seen > 0)
        r.from = running_at(args, view, chunk);
    else if (chunk > 0)
        r.from = state_target(args.state, view, chunk);
    r.sure = view.end > n_drafts ? view.end - n_drafts : 0;
    r.kept = r.sure > r.start && r.sure % LN_STATE_CHUNK > 0 ? r.sure : 0;
    return r;
}

/* ---- a column -------------------------------------------------------------------------------- */

/* N elements in registers; 0: any number in shared memory. */
template <int N> struct selective_column {
    float state[N], rate[N];

    __device__ __forceinline__ void open(const selective_args &args, float *, size_t j) {
#pragma unroll
        for (int i = 0; i < N; i++)
            rate[i] = i < (int)args.state.shape.k_dim
                          ? args.p.rate[(size_t)i * args.state.shape.v_dim + j]
                          : 0.0f;
    }
    template <typename F>
    __device__ __forceinline__ void for_each(const selective_args &args, F f) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < (int)args.state.shape.k_dim)
                f(i, state[i], rate[i]);
    }
};

template <> struct selective_column<0> {
    float *state;
    const float *rate;

    __device__ __forceinline__ void open(const selective_args &args, float *shared, size_t j) {
        state = shared + threadIdx.x;
        rate = args.p.rate + j;
    }
    template <typename F>
    __device__ __forceinline__ void for_each(const selective_args &args, F f) {
        for (int i = 0; i < (int)args.state.shape.k_dim; i++)
            f(i, state[i * SELECTIVE_THREADS], rate[(size_t)i * args.state.shape.v_dim]);
    }
};

template <int N>
static __device__ __forceinline__ void
load_column(const selective_args &args, selective_column<N> &column, const float *whole, size_t j) {
    size_t v_dim = args.state.shape.v_dim;
    column.for_each(args, [&](int i, float &x, float) {
        x = whole != NULL ? whole[(size_t)i * v_dim + j] : 0.0f;
    });
}

template <int N>
static __device__ __forceinline__ void
store_column(const selective_args &args, selective_column<N> &column, float *whole, size_t j) {
    size_t v_dim = args.state.shape.v_dim;
    column.for_each(args, [&](int i, float &x, float) { whole[(size_t)i * v_dim + j] = x; });
}

/* e^-x, rounded once where it is near 1: slow decays multiply a state many times. */
static __device__ __forceinline__ float decay_by(float x) {
    return x < 0.5f ? 1.0f + expm1f(-x) : expf(-x);
}

/* The state takes a token; its result, if it has a query. */
template <int N>
static __device__ __forceinline__ float take(const selective_args &args,
                                             selective_column<N> &column, const float *k,
                                             const float *q, float dt, float u) {
    float sum = 0.0f;
    column.for_each(args, [&](int i, float &x, float rate) {
        x = fmaf(decay_by(rate * dt), x, k[i] * u);
        sum = fmaf(q != NULL ? q[i] : 0.0f, x, sum);
    });
    return sum;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ float *step_row(const selective_args &args,
                                                  const state_view &view, size_t part, int position,
                                                  size_t width) {
    return view.tail + part + (size_t)position % args.state.shape.n_rows * width;
}

/* What a token does to a column, besides its key. */
typedef struct column_step {
    float dt, u;
} column_step;

template <bool IS_LRU>
static __device__ __forceinline__ column_step step_of(const selective_args &args, size_t row,
                                                      int position, float v, size_t j) {
    const ln_op_scan &p = args.p;
    float a = p.a[row * args.state.shape.v_dim + j];
    a += p.a_bias != NULL ? p.a_bias[j] : 0.0f;
    if (IS_LRU) {
        float dt = 1.0f / (1.0f + expf(-a));
        return {dt, position == 0 ? v : sqrtf(-expm1f(-2.0f * (p.rate[j] * dt))) * v};
    }
    float dt = a > 20.0f ? a : log1pf(expf(a));
    dt = fminf(fmaxf(dt, p.dt_min), p.dt_max);
    return {dt, dt * v};
}

/* The tokens that the tail has behind the running state. */
template <int N, bool IS_LRU>
static __device__ void take_tail(const selective_args &args, const state_view &view,
                                 selective_column<N> &column, const selective_run &r,
                                 size_t first_key, size_t j) {
    const ln_state_shape &s = args.state.shape;
    for (int position = r.start; position < view.begin; position++) {
        if (position == r.kept && position > r.start)
            store_column(args, column, running_at(args, view, r.kept), j);
        const float one = 1.0f;
        const float *k = &one;
        if (!IS_LRU)
            k = step_row(args, view, args.state.tail_keys, position, args.n_keys) + first_key;
        float dt = step_row(args, view, args.tail_steps, position, s.v_dim)[j];
        float u = step_row(args, view, args.state.tail_updates, position, s.v_dim)[j];
        take(args, column, k, NULL, dt, u);
    }
}

/* One of the step's tokens. */
template <int N>
static __device__ __forceinline__ void
take_token(const selective_args &args, const state_view &view, selective_column<N> &column,
           const selective_run &r, int position, const float *k, const float *q,
           const column_step &step, float v, size_t j) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    size_t row = (size_t)(view.row + position - view.begin);
    if (position == r.kept && position > r.start)
        store_column(args, column, running_at(args, view, r.kept), j);
    float y = p.q_scale * take(args, column, k, q, step.dt, step.u);
    p.out[row * s.v_dim + j] = p.skip != NULL ? fmaf(p.skip[j], v, y) : y;
    if (position + (int)s.n_rows >= view.end && s.n_rows > 0) {
        step_row(args, view, args.tail_steps, position, s.v_dim)[j] = step.dt;
        step_row(args, view, args.state.tail_updates, position, s.v_dim)[j] = step.u;
    }
    if ((position + 1) % LN_STATE_CHUNK == 0)
        store_column(args, column, state_target(args.state, view, position + 1), j);
}

/* Keys and queries of a tile of tokens, [SELECTIVE_TILE][k_dim] each, of one head. */
template <bool IS_LRU>
static __device__ __forceinline__ void load_tile(const selective_args &args, const state_view &view,
                                                 size_t first_key, int position, int n, float *keys,
                                                 float *queries) {
    size_t k_dim = args.state.shape.k_dim, row = (size_t)(view.row + position - view.begin);
    for (size_t at = threadIdx.x; at < (size_t)n * k_dim; at += SELECTIVE_THREADS) {
        size_t t = row + at / k_dim, i = at % k_dim;
        keys[at] = IS_LRU ? 1.0f : args.p.k[t * args.p.k_stride + first_key + i];
        queries[at] = IS_LRU ? 1.0f : args.p.q[t * args.p.q_stride + first_key + i];
    }
}

/* Grid: blocks of columns by head of keys, sequences. Shared memory: keys and queries of a tile,
 * long columns. */
template <int N, bool IS_LRU>
static __global__ void __launch_bounds__(SELECTIVE_THREADS)
    scan_selective(const __grid_constant__ selective_args args) {
    extern __shared__ float memory[];
    const ln_state_shape &s = args.state.shape;
    ln_pdl_launch_and_wait();
    state_view view = view_sequence(args.state, (int)blockIdx.y);
    if (view.begin == view.end)
        return;
    unsigned k_head = blockIdx.x / args.blocks_per_head;
    size_t j = (size_t)(blockIdx.x % args.blocks_per_head) * SELECTIVE_THREADS + threadIdx.x;
    size_t first_key = k_head * s.k_dim;
    bool is_column = j < args.width;
    j += k_head * args.width;
    float *keys = memory, *queries = keys + SELECTIVE_TILE * s.k_dim;
    selective_run r = run_of(args, view);
    selective_column<N> column;
    if (is_column) {
        column.open(args, queries + SELECTIVE_TILE * s.k_dim, j);
        load_column(args, column, r.from, j);
        take_tail<N, IS_LRU>(args, view, column, r, first_key, j);
    }
    for (int tile = view.begin; tile < view.end; tile += SELECTIVE_TILE) {
        int n = view.end - tile < SELECTIVE_TILE ? view.end - tile : SELECTIVE_TILE;
        size_t row = (size_t)(view.row + tile - view.begin);
        column_step steps[SELECTIVE_TILE];
        float v[SELECTIVE_TILE];
        load_tile<IS_LRU>(args, view, first_key, tile, n, keys, queries);
#pragma unroll
        for (int t = 0; t < SELECTIVE_TILE; t++)
            if (t < n && is_column) {
                v[t] = args.p.v[(row + t) * args.p.v_stride + j];
                steps[t] = step_of<IS_LRU>(args, row + t, tile + t, v[t], j);
            }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < SELECTIVE_TILE; t++)
            if (t < n && is_column)
                take_token(args, view, column, r, tile + t, keys + t * s.k_dim,
                           queries + t * s.k_dim, steps[t], v[t], j);
        __syncthreads();
    }
    if (is_column && r.kept == view.end)
        store_column(args, column, running_at(args, view, r.kept), j);
}

/* ---- the tail's keys and counts -------------------------------------------------------------- */

/* The chunk of the last token that is sure has a running state, or begins with its state; the next
 * one begins with its. */
static __device__ void keep_counts(const selective_args &args, const state_view &view) {
    selective_run r = run_of(args, view);
    int kept = r.sure > r.start ? r.sure : r.start;
    view.tail[slot_of(args, kept)] = (float)(kept % LN_STATE_CHUNK);
    if (kept / LN_STATE_CHUNK < view.end / LN_STATE_CHUNK)
        view.tail[slot_of(args, view.end)] = 0.0f;
}

/* Grid: sequences. */
static __global__ void keep_selective(const __grid_constant__ selective_args args) {
    const ln_state_shape &s = args.state.shape;
    ln_pdl_launch_and_wait();
    state_view view = view_sequence(args.state, (int)blockIdx.x);
    if (view.begin == view.end)
        return;
    int first = args.p.k != NULL ? view.end - (int)s.n_rows : view.end;
    for (int position = first > view.begin ? first : view.begin; position < view.end; position++) {
        size_t row = (size_t)(view.row + position - view.begin);
        float *to = step_row(args, view, args.state.tail_keys, position, args.n_keys);
        for (size_t i = threadIdx.x; i < args.n_keys; i += KEEP_THREADS)
            to[i] = args.p.k[row * args.p.k_stride + i];
    }
    if (threadIdx.x == 0)
        keep_counts(args, view);
}

int ln_cuda_selective_scan(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    selective_args args = {};
    args.state = ln_state_args_of(op->scan.cache, step);
    args.p = op->scan;
    const ln_state_shape *s = &args.state.shape;
    args.tail_steps = ln_tail_steps(s);
    args.tail_running = ln_tail_running(s, 0);
    args.running_floats = ln_state_matrix_floats(s);
    args.width = ln_selective_width(s);
    args.n_keys = ln_selective_keys(s);
    args.blocks_per_head = ln_ceil_div(args.width, SELECTIVE_THREADS);
    bool is_short = s->k_dim <= SELECTIVE_STATE;
    bool is_lru = op->scan.decay == LN_DECAY_LRU;
    void (*kernel)(selective_args) = is_lru     ? scan_selective<1, true>
                                     : is_short ? scan_selective<SELECTIVE_STATE, false>
                                                : scan_selective<0, false>;
    size_t bytes =
        (2 * SELECTIVE_TILE + (is_short ? 0 : SELECTIVE_THREADS)) * s->k_dim * sizeof(float);
    unsigned most;
    int code = ln_max_shared_bytes(&most);
    if (code != 0 || bytes > most)
        return code != 0 ? code : (int)cudaErrorInvalidConfiguration;
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != 0)
        return code;
    unsigned n_seqs = (unsigned)step->batch.n_seqs;
    unsigned n_blocks = (unsigned)s->n_k_heads * args.blocks_per_head;
    code = ln_pdl_launch(kernel, dim3(n_blocks, n_seqs), SELECTIVE_THREADS, bytes, stream, args);
    return code != 0 ? code
                     : ln_pdl_launch(keep_selective, dim3(n_seqs), KEEP_THREADS, 0, stream, args);
}
