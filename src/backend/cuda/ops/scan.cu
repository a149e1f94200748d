/* LN_OP_SCAN: linear attention with a decaying state. Heads that decay as a whole run on tensor
 * cores (scan_chunks.cu, scan_decode.cu); here are those whose channels decay by themselves, and
 * what is not done by them.
 *
 * A block has a head of a sequence and SCAN_COLUMNS columns of its state; columns do not depend on
 * one another. It goes through the tokens in order. Shared memory: the keys, updates and decays of
 * the chunk, and the block's columns of S0, the state where the chunk begins. Threads: SCAN_PARTS
 * rows of SCAN_COLUMNS; each sums every SCAN_PARTS-th term, and the parts are summed in order, so
 * the order of a sum depends on the position alone.
 *
 * A second kernel stores the step's keys and decays in the tail, because they may overwrite what
 * blocks of the first one still read. Bytes moved by decode: S0 once, and of the tail keys and
 * decays once for each block of columns, updates once. */
#include "backend/cuda/ops/scan.cuh"
#include "backend/cuda/ops/selective.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"

enum {
    SCAN_COLUMNS = 32,
    SCAN_PARTS = 8,
    SCAN_THREADS = SCAN_COLUMNS * SCAN_PARTS,
    KEEP_THREADS = 128,
    SCAN_DECODE_TOKENS = 8
};

/* The parts of the block's shared memory. */
typedef struct scan_shared {
    double *c;                          /* [LN_STATE_CHUNK][n_channels] sums of decays */
    float *keys;                        /* [LN_STATE_CHUNK][k_dim] */
    float *state;                       /* [k_dim][SCAN_COLUMNS] */
    float *updates;                     /* [LN_STATE_CHUNK][SCAN_COLUMNS] */
    float *query;                       /* [k_dim] */
    float *key_weights, *query_weights; /* [LN_STATE_CHUNK] */
    float *key_parts, *query_parts;     /* [SCAN_PARTS][SCAN_COLUMNS] */
} scan_shared;

static size_t shared_bytes(size_t k_dim, size_t n_channels) {
    size_t n = LN_STATE_CHUNK;
    return n * n_channels * sizeof(double) + (n * k_dim + k_dim * SCAN_COLUMNS + n * SCAN_COLUMNS +
                                              k_dim + 2 * n + 2 * SCAN_THREADS) *
                                                 sizeof(float);
}

static __device__ __forceinline__ scan_shared place_shared(double *memory, size_t k_dim,
                                                           size_t n_channels) {
    scan_shared m;
    size_t n = LN_STATE_CHUNK;
    m.c = memory;
    m.keys = (float *)(m.c + n * n_channels);
    m.state = m.keys + n * k_dim;
    m.updates = m.state + k_dim * SCAN_COLUMNS;
    m.query = m.updates + n * SCAN_COLUMNS;
    m.key_weights = m.query + k_dim;
    m.query_weights = m.key_weights + n;
    m.key_parts = m.query_weights + n;
    m.query_parts = m.key_parts + SCAN_THREADS;
    return m;
}

/* ---- a token --------------------------------------------------------------------------------- */

/* The key, query and decays of the chunk's token number `at`. */
static __device__ void load_token(const scan_args &args, const scan_shared &m, size_t row,
                                  size_t head, int at) {
    size_t k_dim = args.state.shape.k_dim, n = args.n_channels, k_head = key_head(args, head);
    unsigned warp = threadIdx.x / LN_WARP;
    if (warp == 0)
        load_head(args, args.p.k + row * args.p.k_stride + k_head * k_dim, m.keys + at * k_dim);
    if (warp == 1)
        load_head(args, args.p.q + row * args.p.q_stride + k_head * k_dim, m.query);
    for (size_t i = threadIdx.x; i < n; i += SCAN_THREADS)
        m.c[at * n + i] = (at > 0 ? m.c[(at - 1) * n + i] : 0.0) + decay_of(args, row, head, i);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The weights of updates s <= at for the token: e^{c_t - c_s} (k_s . k_t), and of q_t. A warp has
 * every SCAN_PARTS-th of them. */
static __device__ void weigh_updates(const scan_args &args, const scan_shared &m, int at) {
    size_t k_dim = args.state.shape.k_dim, n = args.n_channels;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    const float *key = m.keys + at * k_dim;
    const double *c = m.c + at * n;
    for (int s = (int)warp; s <= at; s += SCAN_THREADS / LN_WARP) {
        float of_key = 0.0f, of_query = 0.0f;
        for (size_t i = lane; i < k_dim; i += LN_WARP) {
            float x = m.keys[s * k_dim + i];
            if (n > 1)
                x *= expf((float)(c[i] - m.c[s * n + i]));
            of_key = fmaf(x, key[i], of_key);
            of_query = fmaf(x, m.query[i], of_query);
        }
        of_key = ln_warp_sum(of_key);
        of_query = ln_warp_sum(of_query);
        float kept = n > 1 ? 1.0f : expf((float)(c[0] - m.c[s]));
        if (lane == 0) {
            m.key_weights[s] = of_key * kept;
            m.query_weights[s] = of_query * kept;
        }
    }
}

/* A thread's part of e^{c_t} S0 k_t and of the sum over s < at, and the same of q_t. */
static __device__ void sum_parts(const scan_args &args, const scan_shared &m, int at) {
    size_t k_dim = args.state.shape.k_dim, n = args.n_channels;
    unsigned column = threadIdx.x % SCAN_COLUMNS, part = threadIdx.x / SCAN_COLUMNS;
    const float *key = m.keys + at * k_dim;
    const double *c = m.c + at * n;
    float of_key = 0.0f, of_query = 0.0f;
    for (size_t i = part; i < k_dim; i += SCAN_PARTS) {
        float x = m.state[i * SCAN_COLUMNS + column];
        if (n > 1)
            x *= expf((float)c[i]);
        of_key = fmaf(x, key[i], of_key);
        of_query = fmaf(x, m.query[i], of_query);
    }
    float kept = n > 1 ? 1.0f : expf((float)c[0]);
    of_key *= kept;
    of_query *= kept;
    for (int s = (int)part; s < at; s += SCAN_PARTS) {
        float u = m.updates[s * SCAN_COLUMNS + column];
        of_key = fmaf(m.key_weights[s], u, of_key);
        of_query = fmaf(m.query_weights[s], u, of_query);
    }
    m.key_parts[threadIdx.x] = of_key;
    m.query_parts[threadIdx.x] = of_query;
}

/* The update and the result of a column, by the first SCAN_COLUMNS threads. */
static __device__ void finish_token(const scan_args &args, const scan_shared &m,
                                    const state_view &view, size_t head, size_t j, int position) {
    const ln_op_scan &p = args.p;
    const ln_state_shape &s = args.state.shape;
    unsigned column = threadIdx.x;
    int at = position % LN_STATE_CHUNK;
    size_t row = (size_t)(view.row + position - view.begin);
    float of_key = 0.0f, of_query = 0.0f, scale = value_scale(args, row, head);
    for (int part = 0; part < SCAN_PARTS; part++) {
        of_key += m.key_parts[part * SCAN_COLUMNS + column];
        of_query += m.query_parts[part * SCAN_COLUMNS + column];
    }
    float v = p.v[row * p.v_stride + head * s.v_dim + j];
    float u = scale * (p.b != NULL ? v - of_key : v);
    float y = p.q_scale * fmaf(m.query_weights[at], u, of_query);
    m.updates[at * SCAN_COLUMNS + column] = u;
    p.out[(row * s.n_heads + head) * s.v_dim + j] = p.skip != NULL ? fmaf(p.skip[head], v, y) : y;
    if ((size_t)(view.end - position) <= s.n_rows)
        view.tail[args.state.tail_updates + tail_row(s, head, position, s.v_dim) + j] = u;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* What earlier steps left of the chunk, n tokens, and the state at its beginning (NULL: zero). */
static __device__ void load_chunk(const scan_args &args, const scan_shared &m,
                                  const state_view &view, size_t head, const float *state,
                                  int chunk, int n_tokens) {
    const ln_state_shape &s = args.state.shape;
    size_t n = args.n_channels, k_head = key_head(args, head);
    size_t first = (size_t)blockIdx.x * SCAN_COLUMNS;
    const double *decays = (const double *)view.tail;
    for (size_t at = threadIdx.x; at < s.k_dim * SCAN_COLUMNS; at += SCAN_THREADS) {
        size_t i = at / SCAN_COLUMNS, j = first + at % SCAN_COLUMNS;
        m.state[at] = state != NULL && j < s.v_dim ? state[i * s.v_dim + j] : 0.0f;
    }
    for (int t = 0; t < n_tokens; t++) {
        const float *key =
            view.tail + args.state.tail_keys + tail_row(s, k_head, chunk + t, s.k_dim);
        for (size_t i = threadIdx.x; i < s.k_dim; i += SCAN_THREADS)
            m.keys[t * s.k_dim + i] = key[i];
        const double *c = decays + tail_row(s, head, chunk + t, n);
        for (size_t i = threadIdx.x; i < n; i += SCAN_THREADS)
            m.c[t * n + i] = c[i];
    }
    for (int at = (int)threadIdx.x; at < n_tokens * SCAN_COLUMNS; at += SCAN_THREADS) {
        int t = at / SCAN_COLUMNS;
        size_t j = first + (size_t)(at % SCAN_COLUMNS);
        const float *u =
            view.tail + args.state.tail_updates + tail_row(s, head, chunk + t, s.v_dim);
        m.updates[at] = j < s.v_dim ? u[j] : 0.0f;
    }
    __syncthreads();
}

/* The state behind the chunk, in shared memory and at `state`. */
static __device__ void end_chunk(const scan_args &args, const scan_shared &m, float *state) {
    const ln_state_shape &s = args.state.shape;
    size_t n = args.n_channels, k_dim = s.k_dim;
    const double *last = m.c + (LN_STATE_CHUNK - 1) * n;
    for (size_t at = threadIdx.x; at < LN_STATE_CHUNK * k_dim; at += SCAN_THREADS) {
        size_t token = at / k_dim, channel = n > 1 ? at % k_dim : 0;
        m.keys[at] *= expf((float)(last[channel] - m.c[token * n + channel]));
    }
    __syncthreads();
    unsigned column = threadIdx.x % SCAN_COLUMNS, part = threadIdx.x / SCAN_COLUMNS;
    size_t j = (size_t)blockIdx.x * SCAN_COLUMNS + column;
    for (size_t i = part; i < k_dim; i += SCAN_PARTS) {
        float sum = m.state[i * SCAN_COLUMNS + column] * expf((float)last[n > 1 ? i : 0]);
        for (int t = 0; t < LN_STATE_CHUNK; t++)
            sum = fmaf(m.keys[t * k_dim + i], m.updates[t * SCAN_COLUMNS + column], sum);
        m.state[i * SCAN_COLUMNS + column] = sum;
        if (j < s.v_dim)
            state[i * s.v_dim + j] = sum;
    }
    __syncthreads();
}

/* Grid: blocks of columns, heads, sequences. */
static __global__ void __launch_bounds__(SCAN_THREADS)
    scan_tokens(const __grid_constant__ scan_args args) {
    extern __shared__ double memory[];
    const ln_state_shape &s = args.state.shape;
    ln_pdl_launch_and_wait();
    scan_shared m = place_shared(memory, s.k_dim, args.n_channels);
    state_view view = view_sequence(args.state, (int)blockIdx.z);
    if (view.begin == view.end)
        return;
    size_t head = blockIdx.y, matrix = head * s.k_dim * s.v_dim;
    size_t j = (size_t)blockIdx.x * SCAN_COLUMNS + threadIdx.x;
    int chunk = view.begin - view.begin % LN_STATE_CHUNK;
    const float *begins = chunk > 0 ? state_at(args.state, view, chunk) + matrix : NULL;
    load_chunk(args, m, view, head, begins, chunk, view.begin - chunk);
    for (int position = view.begin; position < view.end; position++) {
        int at = position % LN_STATE_CHUNK;
        load_token(args, m, (size_t)(view.row + position - view.begin), head, at);
        __syncthreads();
        weigh_updates(args, m, at);
        __syncthreads();
        sum_parts(args, m, at);
        __syncthreads();
        if (threadIdx.x < SCAN_COLUMNS && j < s.v_dim)
            finish_token(args, m, view, head, j, position);
        __syncthreads();
        if (at == LN_STATE_CHUNK - 1)
            end_chunk(args, m, state_target(args.state, view, position + 1) + matrix);
    }
}

/* ---- the tail's keys and decays -------------------------------------------------------------- */

/* Keys of the last tokens, as many as the tail has rows, of one head. */
static __device__ void keep_keys(const scan_args &args, const state_view &view, size_t k_head) {
    const ln_state_shape &s = args.state.shape;
    int n = view.end - view.begin, n_rows = (int)s.n_rows, warp = (int)(threadIdx.x / LN_WARP);
    n = n < n_rows ? n : n_rows;
    for (int position = view.end - n + warp; position < view.end;
         position += KEEP_THREADS / LN_WARP) {
        size_t row = (size_t)(view.row + position - view.begin);
        load_head(args, args.p.k + row * args.p.k_stride + k_head * s.k_dim,
                  view.tail + args.state.tail_keys + tail_row(s, k_head, position, s.k_dim));
    }
}

/* The same of a head's sums of decays, which are summed from the first one's chunk on. */
static __device__ void keep_decays(const scan_args &args, const state_view &view, size_t head) {
    const ln_state_shape &s = args.state.shape;
    int n = view.end - view.begin, n_rows = (int)s.n_rows;
    int kept = view.end - (n < n_rows ? n : n_rows), first = kept - kept % LN_STATE_CHUNK;
    first = first > view.begin ? first : view.begin;
    double *tail = (double *)view.tail;
    for (size_t i = threadIdx.x; i < args.n_channels; i += KEEP_THREADS) {
        double c = 0.0;
        if (first % LN_STATE_CHUNK != 0)
            c = tail[tail_row(s, head, first - 1, args.n_channels) + i];
        for (int position = first; position < view.end; position++) {
            size_t row = (size_t)(view.row + position - view.begin);
            c = (position % LN_STATE_CHUNK != 0 ? c : 0.0) + decay_of(args, row, head, i);
            if (position >= kept)
                tail[tail_row(s, head, position, args.n_channels) + i] = c;
        }
    }
}

/* Grid: heads, sequences. */
static __global__ void keep_tail(const __grid_constant__ scan_args args) {
    ln_pdl_launch_and_wait();
    state_view view = view_sequence(args.state, (int)blockIdx.y);
    if (view.end - view.begin <= args.decode_tokens)
        return;
    keep_decays(args, view, blockIdx.x);
    if (blockIdx.x < args.state.shape.n_k_heads)
        keep_keys(args, view, blockIdx.x);
}

/* Token by token: heads whose channels decay by themselves, and those that are too large. */
static int scan_by_token(const scan_args &args, unsigned n_seqs, cudaStream_t stream) {
    const ln_state_shape *s = &args.state.shape;
    size_t bytes = shared_bytes(s->k_dim, args.n_channels);
    unsigned most;
    int code = ln_max_shared_bytes(&most);
    if (code != 0 || bytes > most)
        return code != 0 ? code : (int)cudaErrorInvalidConfiguration;
    code =
        cudaFuncSetAttribute(scan_tokens, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    dim3 blocks(ln_ceil_div(s->v_dim, SCAN_COLUMNS), (unsigned)s->n_heads, n_seqs);
    return code != 0 ? code : ln_pdl_launch(scan_tokens, blocks, SCAN_THREADS, bytes, stream, args);
}

/* Sequences of few tokens, which cannot go round the tail's ring, keep their tails themselves. */
static int decode_tokens(const ln_state_shape *s) {
    int n = 1 + (int)s->n_rows - LN_STATE_CHUNK;
    return n < SCAN_DECODE_TOKENS ? n : SCAN_DECODE_TOKENS;
}

int ln_cuda_scan(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    if (op->scan.decay == LN_DECAY_SELECTIVE || op->scan.decay == LN_DECAY_LRU)
        return ln_cuda_selective_scan(op, step, stream);
    scan_args args = {};
    args.state = ln_state_args_of(op->scan.cache, step);
    args.p = op->scan;
    const ln_state_shape *s = &args.state.shape;
    args.n_channels = s->n_decays / s->n_heads;
    unsigned n_seqs = (unsigned)step->batch.n_seqs;
    bool by_chunk = args.n_channels == 1 && ln_scan_fits_chunks(args);
    args.decode_tokens = by_chunk ? decode_tokens(s) : 0;
    bool is_decode = step->most_tokens <= (size_t)args.decode_tokens;
    int code = 0;
    if (!by_chunk)
        code = scan_by_token(args, n_seqs, stream);
    else if (is_decode || n_seqs > 1)
        code = ln_scan_decode(args, n_seqs, stream);
    if (code != 0 || is_decode)
        return code;
    if (by_chunk)
        code = ln_scan_chunks(args, n_seqs, stream);
    return code != 0 ? code
                     : ln_pdl_launch(keep_tail, dim3((unsigned)s->n_heads, n_seqs), KEEP_THREADS, 0,
                                     stream, args);
}
