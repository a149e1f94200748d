/* What the kernels of LN_OP_SCAN share: a token's inputs, and who takes which sequences. */
#ifndef LN_BACKEND_CUDA_OPS_SCAN_CUH
#define LN_BACKEND_CUDA_OPS_SCAN_CUH

#include "backend/cuda/ops/recurrent.cuh"
#include "backend/cuda/ptx/reduce.cuh"

typedef struct scan_args {
    ln_state_args state;
    ln_op_scan p;
    size_t n_channels; /* decays of a head: 1, or k_dim */
    int decode_tokens; /* sequences of at most so many tokens are those of ln_scan_decode */
} scan_args;

/* Sequences of a few tokens each, whose decays are of heads; keeps their tails, too. */
int ln_scan_decode(const scan_args &args, unsigned n_seqs, cudaStream_t stream);

/* Those of more, chunk by chunk. False: a head is too large for a block's shared memory. */
bool ln_scan_fits_chunks(const scan_args &args);
int ln_scan_chunks(const scan_args &args, unsigned n_seqs, cudaStream_t stream);

/* A row of a head, divided by its length when that is asked for; by one warp. */
static __device__ void load_head(const scan_args &args, const float *x, float *out) {
    unsigned lane = threadIdx.x % LN_WARP;
    float squares = 0.0f;
    for (size_t i = lane; i < args.state.shape.k_dim; i += LN_WARP)
        squares = fmaf(x[i], x[i], squares);
    float scale = args.p.unit_qk ? 1.0f / sqrtf(ln_warp_sum(squares) + 1e-6f) : 1.0f;
    for (size_t i = lane; i < args.state.shape.k_dim; i += LN_WARP)
        out[i] = x[i] * scale;
}

/* dt of decay number i of a row. */
static __device__ __forceinline__ float step_size(const scan_args &args, size_t row, size_t i) {
    const ln_op_scan &p = args.p;
    float a = p.a[row * args.state.shape.n_decays + i];
    a += p.a_bias != NULL ? p.a_bias[i] : 0.0f;
    float dt = a > 20.0f ? a : log1pf(expf(a));
    return fminf(fmaxf(dt, p.dt_min), p.dt_max);
}

/* The logarithm of a channel's decay. */
static __device__ __forceinline__ double decay_of(const scan_args &args, size_t row, size_t head,
                                                  size_t channel) {
    float rate = args.p.rate[head];
    if (args.p.decay == LN_DECAY_FIXED)
        return -(double)rate;
    if (args.p.decay == LN_DECAY_BOUNDED) {
        size_t i = head * args.n_channels + channel;
        float a = args.p.a[row * args.state.shape.n_decays + i];
        a += args.p.a_bias != NULL ? args.p.a_bias[i] : 0.0f;
        return -(double)(args.p.bound / (1.0f + expf(-(rate * a))));
    }
    return -(double)(rate * step_size(args, row, head * args.n_channels + channel));
}

static __device__ __forceinline__ size_t key_head(const scan_args &args, size_t head) {
    const ln_state_shape &s = args.state.shape;
    return args.p.tiled ? head % s.n_k_heads : head / (s.n_heads / s.n_k_heads);
}

/* What a token's value is multiplied with before it becomes an update. */
static __device__ __forceinline__ float value_scale(const scan_args &args, size_t row,
                                                    size_t head) {
    if (args.p.b != NULL)
        return (args.p.doubles_b ? 2.0f : 1.0f) /
               (1.0f + expf(-args.p.b[row * args.state.shape.n_heads + head]));
    return args.p.scales_v ? step_size(args, row, head) : 1.0f;
}

#endif
