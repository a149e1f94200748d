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

/* Where a channel's input at a position of an earlier step is: in the tail or the state. */
static __device__ __forceinline__ const float *old_input(const conv_args &p, const state_view &view,
                                                         int position, size_t channel) {
    const ln_state_args &args = p.state;
    const ln_state_shape &s = args.shape;
    int chunk = view.begin - view.begin % LN_STATE_CHUNK;
    if (position >= chunk)
        return view.tail + args.tail_conv + (size_t)position % s.n_conv_rows * s.conv_dim +
               p.begin + channel;
    size_t row = (size_t)(position - chunk + (int)s.n_taps - 1);
    return state_at(args, view, chunk) + args.state_conv + row * s.conv_dim + p.begin + channel;
}

/* A channel's input at a position, from the step or an earlier one. */
static __device__ __forceinline__ float input_at(const conv_args &p, const state_view &view,
                                                 int position, size_t channel) {
    if (position < 0)
        return 0.0f;
    if (position < view.begin)
        return *old_input(p, view, position, channel);
    return p.x[(size_t)(view.row + position - view.begin) * p.n + channel];
}

/* Asks for what the kernel in front does not make. */
static __device__ __forceinline__ void prefetch_channel(const conv_args &p, const state_view &view,
                                                        size_t channel) {
    const ln_state_shape &s = p.state.shape;
    int n_taps = (int)s.n_taps, first = view.begin + 1 - n_taps;
    for (int tap = 0; tap < n_taps; tap++)
        prefetch_line(p.weight + (size_t)tap * p.n + channel);
    for (int position = first > 0 ? first : 0; position < view.begin; position++)
        prefetch_line(old_input(p, view, position, channel));
}

static __device__ __forceinline__ void convolve(const conv_args &p, const state_view &view,
                                                int position, size_t channel) {
    enum { AT_ONCE = 4 }; /* taps whose loads are under way */
    const ln_state_shape &s = p.state.shape;
    int n_taps = (int)s.n_taps;
    size_t row = (size_t)(view.row + position - view.begin);
    const float *own = p.dynamic;
    if (own != NULL)
        own += (row * p.n_groups + channel / (p.n / p.n_groups)) * s.n_taps;
    float sum = p.bias != NULL ? p.bias[channel] : 0.0f;
    for (int first = 0; first < n_taps; first += AT_ONCE) {
        float x[AT_ONCE], weights[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int tap = first + j < n_taps ? first + j : n_taps - 1;
            x[j] = input_at(p, view, position + tap + 1 - n_taps, channel);
            weights[j] = p.weight[(size_t)tap * p.n + channel];
            if (own != NULL)
                weights[j] += own[n_taps - 1 - tap];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (first + j < n_taps)
                sum = fmaf(weights[j], x[j], sum);
    }
    p.out[row * p.n + channel] = p.silu ? sum / (1.0f + expf(-sum)) : sum;
}

/* Keeps the channel's last inputs in the tail, and at each state that is kept in its block. */
static __device__ void keep_inputs(const conv_args &p, const state_view &view, size_t channel) {
    const ln_state_args &args = p.state;
    const ln_state_shape &s = args.shape;
    int n_rows = (int)s.n_taps - 1, n_kept = view.end - view.begin;
    int boundary = view.begin - view.begin % LN_STATE_CHUNK + LN_STATE_CHUNK;
    for (; boundary <= view.end; boundary += LN_STATE_CHUNK) {
        float *state = state_at(args, view, boundary);
        for (int i = 0; i < n_rows && state != NULL; i++)
            state[args.state_conv + (size_t)i * s.conv_dim + p.begin + channel] =
                input_at(p, view, boundary + i - n_rows, channel);
    }
    n_kept = n_kept < (int)s.n_conv_rows ? n_kept : (int)s.n_conv_rows;
    for (int at = view.end - n_kept; at < view.end; at++)
        view.tail[args.tail_conv + (size_t)at % s.n_conv_rows * s.conv_dim + p.begin + channel] =
            input_at(p, view, at, channel);
}

/* Grid: blocks of CONV_THREADS channels, sequences. */
static __global__ void convolve_sequences(const __grid_constant__ conv_args p) {
    size_t channel = (size_t)blockIdx.x * CONV_THREADS + threadIdx.x;
    bool is_there = channel < p.n;
    ln_pdl_launch_dependents();
    state_view view = view_sequence(p.state, (int)blockIdx.y);
    if (is_there)
        prefetch_channel(p, view, channel);
    ln_pdl_wait();
    if (!is_there)
        return;
    for (int position = view.begin; position < view.end; position++)
        convolve(p, view, position, channel);
    keep_inputs(p, view, channel);
}

/* Grid: blocks of CONV_THREADS channels, tokens. */
static __global__ void convolve_tokens(const __grid_constant__ conv_args p) {
    ln_pdl_launch_and_wait();
    size_t channel = (size_t)blockIdx.x * CONV_THREADS + threadIdx.x;
    if (channel >= p.n)
        return;
    state_view view = view_sequence(p.state, p.token_seqs[blockIdx.y]);
    convolve(p, view, view.begin + (int)blockIdx.y - view.row, channel);
}

/* Grid: blocks of CONV_THREADS channels, sequences. */
static __global__ void keep_sequences(const __grid_constant__ conv_args p) {
    ln_pdl_launch_and_wait();
    size_t channel = (size_t)blockIdx.x * CONV_THREADS + threadIdx.x;
    if (channel < p.n)
        keep_inputs(p, view_sequence(p.state, (int)blockIdx.y), channel);
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

/* Grid: groups of rows. Reads x and gate twice, the second time from the cache. */
static __global__ void gated_norm(const __grid_constant__ gated_args args) {
    __shared__ float shared[LN_MAX_WARPS];
    const ln_op_gated_norm &p = args.p;
    const ln_norm &norm = args.norm;
    ln_pdl_launch_and_wait();
    size_t n = args.width, group = blockIdx.x % p.n_groups, row_at = blockIdx.x * n;
    float first_gate = threadIdx.x < n ? p.gate[row_at + threadIdx.x] : 0.0f; /* under way early */
    float mean = 0.0f, inverse = 1.0f, sum = 0.0f;
    if (norm.kind == LN_NORM_LAYER) {
        for (size_t i = threadIdx.x; i < n; i += GATED_THREADS)
            sum += normed_element(args, row_at + i);
        mean = ln_block_sum(sum, shared) / (float)n;
        sum = 0.0f;
    }
    if (norm.kind != LN_NORM_NONE) {
        for (size_t i = threadIdx.x; i < n; i += GATED_THREADS) {
            float x = normed_element(args, row_at + i) - mean;
            sum = fmaf(x, x, sum);
        }
        inverse = 1.0f / sqrtf(ln_block_sum(sum, shared) / (float)n + norm.eps);
    }
    for (size_t i = threadIdx.x; i < n; i += GATED_THREADS) {
        size_t at = row_at + i, weight = args.has_weights_of_row ? group * n + i : i;
        float y = (normed_element(args, at) - mean) * inverse;
        if (norm.kind != LN_NORM_NONE && norm.weight != NULL)
            y *= norm.weight[weight] + (norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f);
        if (norm.kind != LN_NORM_NONE && norm.bias != NULL)
            y += norm.bias[weight];
        float gate = i < GATED_THREADS ? first_gate : p.gate[at];
        p.out[at] = p.gate_first ? y : y * gate_of(p, gate);
    }
}

int ln_cuda_gated_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_gated_norm *p = &op->gated_norm;
    (void)step;
    gated_args args = {*p, *p->norm, p->dim / p->n_groups, p->norm->dim == p->dim};
    return ln_pdl_launch(gated_norm, dim3((unsigned)(p->n_rows * p->n_groups)), GATED_THREADS, 0,
                         stream, args);
}
