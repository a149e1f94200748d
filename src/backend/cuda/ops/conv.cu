/* LN_OP_CONV and LN_OP_GATED_NORM of recurrent layers.
 *
 * Convolution over time, each channel by itself. With few tokens of each sequence one kernel has a
 * thread for each channel of a sequence: it takes the tokens in order, then stores the last inputs
 * as the sequence's state. With more tokens a first kernel has a thread for each token and channel.
 * It reads the old state, so a second kernel stores the new one. */
#include "backend/cuda/ops/recurrent.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { CONV_THREADS = 128, CONV_FEW_TOKENS = 8, GATED_THREADS = 128 };

typedef struct conv_args {
    ln_state_args state;
    const float *x, *weight, *bias;
    bool silu;
    size_t begin, n; /* channels of the cache */
    const float *dynamic;
    size_t n_groups;
    const int32_t *token_seqs;
    float *out;
} conv_args;

/* A channel of a sequence. Offsets within a block are of 32 bits: a step of one token takes as long
 * as its instructions. */
typedef struct conv_view {
    state_view seq;
    unsigned channel; /* of p.n */
    unsigned ring;    /* row of seq.begin in the tail's ring */
} conv_view;

static __device__ __forceinline__ conv_view view_channel(const conv_args &p, int seq) {
    conv_view view;
    view.seq = view_sequence(p.state, seq);
    view.channel = blockIdx.x * CONV_THREADS + threadIdx.x;
    view.ring = (unsigned)view.seq.begin % (unsigned)p.state.shape.n_conv_rows;
    return view;
}

static __device__ __forceinline__ float *tail_input(const conv_args &p, const conv_view &view,
                                                    unsigned row) {
    return view.seq.tail + p.state.tail_conv + row * (unsigned)p.state.shape.conv_dim +
           (unsigned)p.begin + view.channel;
}

/* Where a channel's input at a position of an earlier step, fewer than n_conv_rows back, is: in the
 * tail or the state. */
static __device__ __forceinline__ const float *old_input(const conv_args &p, const conv_view &view,
                                                         int position) {
    const ln_state_args &args = p.state;
    const ln_state_shape &s = args.shape;
    const int chunk = view.seq.begin - view.seq.begin % LN_STATE_CHUNK;
    if (position >= chunk) {
        const unsigned back = (unsigned)(view.seq.begin - position);
        return tail_input(p, view,
                          view.ring + (view.ring < back ? (unsigned)s.n_conv_rows : 0) - back);
    }
    const unsigned row = (unsigned)(position - chunk + (int)s.n_taps - 1);
    return state_at(args, view.seq, chunk) + args.state_conv + row * (unsigned)s.conv_dim +
           (unsigned)p.begin + view.channel;
}

/* A channel's input at a position, from the step or an earlier one. */
static __device__ __forceinline__ float input_at(const conv_args &p, const conv_view &view,
                                                 int position) {
    if (position < 0)
        return 0.0f;
    if (position < view.seq.begin)
        return *old_input(p, view, position);
    return p.x[(size_t)(view.seq.row + position - view.seq.begin) * p.n + view.channel];
}

/* Asks for what the kernel in front does not make. */
static __device__ __forceinline__ void prefetch_channel(const conv_args &p, const conv_view &view) {
    const int n_taps = (int)p.state.shape.n_taps, first = view.seq.begin + 1 - n_taps;
#pragma unroll 1
    for (unsigned tap = 0; tap < (unsigned)n_taps; tap++)
        prefetch_line(p.weight + tap * (unsigned)p.n + view.channel);
#pragma unroll 1
    for (int position = first > 0 ? first : 0; position < view.seq.begin; position++)
        prefetch_line(old_input(p, view, position));
}

static __device__ __forceinline__ void convolve(const conv_args &p, const conv_view &view,
                                                int position) {
    enum { AT_ONCE = 4 }; /* taps whose loads are under way */
    const ln_state_shape &s = p.state.shape;
    const unsigned n = (unsigned)p.n;
    int n_taps = (int)s.n_taps;
    size_t row = (size_t)(view.seq.row + position - view.seq.begin);
    const float *own = p.dynamic;
    if (own != NULL)
        own += (row * p.n_groups + view.channel / (n / (unsigned)p.n_groups)) * s.n_taps;
    float sum = p.bias != NULL ? p.bias[view.channel] : 0.0f;
#pragma unroll 1
    for (int first = 0; first < n_taps; first += AT_ONCE) {
        float x[AT_ONCE], weights[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int tap = first + j < n_taps ? first + j : n_taps - 1;
            x[j] = input_at(p, view, position + tap + 1 - n_taps);
            weights[j] = p.weight[(unsigned)tap * n + view.channel];
            if (own != NULL)
                weights[j] += own[n_taps - 1 - tap];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (first + j < n_taps)
                sum = fmaf(weights[j], x[j], sum);
    }
    p.out[row * n + view.channel] = p.silu ? sum / (1.0f + expf(-sum)) : sum;
}

/* Keeps the channel's last inputs in the tail, and at each state that is kept in its block. */
static __device__ __forceinline__ void keep_inputs(const conv_args &p, const conv_view &view) {
    const ln_state_args &args = p.state;
    const ln_state_shape &s = args.shape;
    const int begin = view.seq.begin, end = view.seq.end, n_rows = (int)s.n_taps - 1;
#pragma unroll 1
    for (int boundary = begin - begin % LN_STATE_CHUNK + LN_STATE_CHUNK; boundary <= end;
         boundary += LN_STATE_CHUNK) {
        float *state = state_at(args, view.seq, boundary);
#pragma unroll 1
        for (int i = 0; i < n_rows && state != NULL; i++)
            state[args.state_conv + (unsigned)i * (unsigned)s.conv_dim + (unsigned)p.begin +
                  view.channel] = input_at(p, view, boundary + i - n_rows);
    }
    const int n_kept = min(end - begin, (int)s.n_conv_rows);
#pragma unroll 1
    for (int at = end - n_kept; at < end; at++)
        *tail_input(p, view, (view.ring + (unsigned)(at - begin)) % (unsigned)s.n_conv_rows) =
            input_at(p, view, at);
}

/* Grid: blocks of CONV_THREADS channels, sequences. */
static __global__ void convolve_sequences(const __grid_constant__ conv_args p) {
    ln_pdl_launch_dependents();
    const conv_view view = view_channel(p, (int)blockIdx.y);
    const bool is_there = view.channel < p.n;
    if (is_there)
        prefetch_channel(p, view);
    ln_pdl_wait();
    if (!is_there)
        return;
#pragma unroll 1
    for (int position = view.seq.begin; position < view.seq.end; position++)
        convolve(p, view, position);
    keep_inputs(p, view);
}

/* Grid: blocks of CONV_THREADS channels, tokens. */
static __global__ void convolve_tokens(const __grid_constant__ conv_args p) {
    ln_pdl_launch_and_wait();
    const conv_view view = view_channel(p, p.token_seqs[blockIdx.y]);
    if (view.channel < p.n)
        convolve(p, view, view.seq.begin + (int)blockIdx.y - view.seq.row);
}

/* Grid: blocks of CONV_THREADS channels, sequences. */
static __global__ void keep_sequences(const __grid_constant__ conv_args p) {
    ln_pdl_launch_and_wait();
    const conv_view view = view_channel(p, (int)blockIdx.y);
    if (view.channel < p.n)
        keep_inputs(p, view);
}

int ln_cuda_conv(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_conv *conv = &op->conv;
    conv_args args = {};
    args.state = ln_state_args_of(conv->cache, step);
    args.x = conv->x;
    args.weight = conv->weight;
    args.bias = conv->bias;
    args.silu = conv->silu;
    args.begin = conv->begin;
    args.n = ln_conv_channels(conv);
    args.dynamic = conv->dynamic;
    args.n_groups = conv->n_groups;
    args.token_seqs = step->token_seqs;
    args.out = conv->out;
    unsigned n_parts = ln_ceil_div(args.n, CONV_THREADS);
    dim3 sequences(n_parts, (unsigned)step->batch.n_seqs);
    dim3 tokens(n_parts, (unsigned)step->batch.n_tokens);
    if (step->most_tokens <= CONV_FEW_TOKENS)
        return ln_pdl_launch(convolve_sequences, sequences, CONV_THREADS, 0, stream, args);
    int code = ln_pdl_launch(convolve_tokens, tokens, CONV_THREADS, 0, stream, args);
    return code != 0 ? code
                     : ln_pdl_launch(keep_sequences, sequences, CONV_THREADS, 0, stream, args);
}

/* ---- gated norm ------------------------------------------------------------------------------ */

typedef struct gated_args {
    ln_op_gated_norm p;
    ln_norm norm;
    size_t width;            /* of a group */
    bool has_weights_of_row; /* [dim], not [width] */
} gated_args;

static __device__ __forceinline__ float gate_of(const ln_op_gated_norm &p, float x) {
    float sigmoid = 1.0f / (1.0f + expf(-x));
    return p.sigmoid ? sigmoid : x * sigmoid;
}

static __device__ __forceinline__ float normed_element(const gated_args &args, size_t at) {
    return args.p.gate_first ? args.p.x[at] * gate_of(args.p, args.p.gate[at]) : args.p.x[at];
}

/* Grid: groups of rows. Reads x and gate twice, the second time from the cache. What a thread needs
 * of its first element is under way early. */
static __global__ void gated_norm(const __grid_constant__ gated_args args) {
    __shared__ float shared[LN_MAX_WARPS];
    const ln_op_gated_norm &p = args.p;
    const ln_norm &norm = args.norm;
    const unsigned n = (unsigned)args.width, first = threadIdx.x;
    const unsigned of_row = args.has_weights_of_row ? blockIdx.x % (unsigned)p.n_groups * n : 0;
    const bool weighs = norm.kind != LN_NORM_NONE && norm.weight != NULL;
    const bool adds = norm.kind != LN_NORM_NONE && norm.bias != NULL;
    const size_t row_at = (size_t)blockIdx.x * n;
    const float first_weight = weighs && first < n ? norm.weight[of_row + first] : 0.0f;
    ln_pdl_launch_and_wait();
    const float first_gate = first < n ? p.gate[row_at + first] : 0.0f;
    float mean = 0.0f, inverse = 1.0f, sum = 0.0f;
    if (norm.kind == LN_NORM_LAYER) {
#pragma unroll 1
        for (unsigned i = first; i < n; i += GATED_THREADS)
            sum += normed_element(args, row_at + i);
        mean = ln_block_sum(sum, shared) / (float)n;
        sum = 0.0f;
    }
    if (norm.kind != LN_NORM_NONE) {
#pragma unroll 1
        for (unsigned i = first; i < n; i += GATED_THREADS) {
            float x = normed_element(args, row_at + i) - mean;
            sum = fmaf(x, x, sum);
        }
        inverse = 1.0f / sqrtf(ln_block_sum(sum, shared) / (float)n + norm.eps);
    }
#pragma unroll 1
    for (unsigned i = first; i < n; i += GATED_THREADS) {
        float y = (normed_element(args, row_at + i) - mean) * inverse;
        if (weighs)
            y *= (i == first ? first_weight : norm.weight[of_row + i]) +
                 (norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f);
        if (adds)
            y += norm.bias[of_row + i];
        float gate = i == first ? first_gate : p.gate[row_at + i];
        p.out[row_at + i] = p.gate_first ? y : y * gate_of(p, gate);
    }
}

int ln_cuda_gated_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_gated_norm *p = &op->gated_norm;
    (void)step;
    gated_args args = {*p, *p->norm, p->dim / p->n_groups, p->norm->dim == p->dim};
    return ln_pdl_launch(gated_norm, dim3((unsigned)(p->n_rows * p->n_groups)), GATED_THREADS, 0,
                         stream, args);
}
