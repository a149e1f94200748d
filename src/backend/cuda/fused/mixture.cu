/* Fused mixture on Hopper: all that the experts of one token do behind their router, as one launch
 * of persistent CTAs, where decode_mixture.cu does not take them with what is around them.
 *
 * Every block chooses the experts for itself, from the router's logits. Then it knows all weights
 * that it will read, and a pipeline for each warp (cp.async.bulk, mbarriers) brings them without a
 * break, as mixture_experts.cuh has their order.
 *
 * Grid: one block an SM. Shared memory: stages [16 warps][n_stages]; then what ln_mixture_memory
 * lists. Bytes moved: weights of the chosen experts once. */
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/fused/grid_barrier.cuh"
#include "backend/cuda/fused/mixture_experts.cuh"
#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/weights/dispatch.cuh"

typedef struct mixture_args {
    ln_mixture mixture;
    const float *x;
    unsigned n_stages, work_offset;
    unsigned *barrier_count;
    unsigned n_handoff_floats;
} mixture_args;

static_assert(LN_DECODE_WARPS * LN_DECODE_MAX_STAGES * sizeof(uint64_t) +
                      LN_MAX_WARPS * sizeof(float) + sizeof(ln_mixture_choice) <=
                  LN_DECODE_DECLARED_BYTES,
              "shared memory that the kernel declares");

/* The weights that a warp multiplies, one K split after the other, as they come. */
typedef struct mixture_pipeline {
    const ln_mixture *mixture;
    const int32_t *experts;
    uint8_t *stages;
    uint64_t *barriers;
    unsigned n_stages, stage, parity; /* stage: to be consumed next */
    /* of lane 0 */
    bool is_down;
    unsigned next;         /* number of the K split to come, of up or down */
    ln_mixture_tiles left; /* of the one under way */
} mixture_pipeline;

/* Queues the copy of the next tiles into a stage; by lane 0. */
template <int KIND>
static __device__ __forceinline__ void fetch_tiles(mixture_pipeline *r, unsigned stage) {
    if (r->left.bytes == 0 && !r->is_down) {
        r->left = ln_mixture_up_tiles<KIND>(*r->mixture, r->experts, r->next++);
        if (r->left.bytes == 0)
            r->is_down = true, r->next = 0;
    }
    if (r->left.bytes == 0)
        r->left = ln_mixture_down_tiles<KIND>(*r->mixture, r->experts, r->next++);
    if (r->left.bytes == 0)
        return;
    const unsigned bytes = min(r->left.bytes, r->left.most);
    ln_stage_fetch(r->stages + stage * ln_decode_stage_bytes(KIND), r->left.from, bytes,
                   &r->barriers[stage]);
    r->left.from += bytes;
    r->left.bytes -= bytes;
}

/* Refills the stage that all lanes have read, and moves on to the next one. */
template <int KIND>
static __device__ __forceinline__ void ln_mixture_release_stage(bool is_last, mixture_pipeline *r) {
    (void)is_last;
    __syncwarp();
    if (threadIdx.x % LN_WARP == 0)
        fetch_tiles<KIND>(r, r->stage);
    bool wraps = r->stage + 1 == r->n_stages;
    r->parity ^= wraps;
    r->stage = wraps ? 0 : r->stage + 1;
}

/* Begins with the weights of the chosen experts. */
template <int KIND> static __device__ __forceinline__ void begin_pipeline(mixture_pipeline *r) {
    if (threadIdx.x % LN_WARP == 0)
        for (unsigned stage = 0; stage < r->n_stages; stage++)
            fetch_tiles<KIND>(r, stage);
    __syncwarp();
}

/* The row that gate and up read. shared [LN_MAX_WARPS] */
template <int KIND>
static __device__ __forceinline__ void convert_x(const mixture_args &p, const ln_act_view &x,
                                                 float *shared) {
    const ln_mixture_linear &up = p.mixture.up;
    const ln_decode_rows row = {p.x, up.n_cols, up.n_cols, false};
    const unsigned padded = up.k_tiles * (unsigned)ln_weight_tile_cols(KIND);
    if constexpr (ln_weight_tile_has_act_row_scales(KIND))
        ln_decode_convert_row_scaled<KIND>(row, 1, x, padded, shared);
    else
        ln_decode_convert<KIND>(row, 1, x, padded);
}

template <int KIND>
static __global__ void __launch_bounds__(LN_DECODE_THREADS, 1)
    fused_mixture(const __grid_constant__ mixture_args p) {
    extern __shared__ __align__(128) uint8_t memory[];
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ uint64_t barriers[LN_DECODE_WARPS * LN_DECODE_MAX_STAGES];
    __shared__ ln_mixture_choice chosen;
    const ln_mixture_memory m =
        ln_mixture_find_memory(p.mixture, memory + p.work_offset, KIND, false);
    const ln_act_view x = ln_mixture_place_act<KIND>(p.mixture.up, 1, m.x);
    const unsigned warp = threadIdx.x / LN_WARP;
    mixture_pipeline r = {};
    ln_pdl_launch_dependents();
    r.mixture = &p.mixture;
    r.experts = chosen.experts;
    r.n_stages = p.n_stages;
    r.stages = memory + (size_t)warp * p.n_stages * ln_decode_stage_bytes(KIND);
    r.barriers = barriers + warp * p.n_stages;
    if (threadIdx.x % LN_WARP == 0)
        for (unsigned stage = 0; stage < p.n_stages; stage++)
            ln_stage_init(&r.barriers[stage]);
    ln_pdl_wait();
    unsigned grid_phase = ln_grid_barrier_phase(p.barrier_count); /* thread 0's is kept */
    ln_handoff_clear(p.mixture.hidden, p.n_handoff_floats);
    if (warp == 0)
        ln_route_token(p.mixture.route, p.mixture.route.logits, p.mixture.token, m.scores,
                       {chosen.experts, chosen.weights, NULL});
    __syncthreads();
    if (threadIdx.x == 0)
        ln_grid_barrier_arrive(p.barrier_count);
    begin_pipeline<KIND>(&r);
    convert_x<KIND>(p, x, shared);
    if (threadIdx.x == 0)
        ln_grid_barrier_wait(p.barrier_count, &grid_phase); /* the hand-off memory is clear */
    __syncthreads();
    ln_mixture_run<KIND>(p.mixture, chosen, x, m, &r);
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND>
static int launch_kind(mixture_args &args, size_t work_bytes, cudaStream_t stream) {
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code =
            cudaFuncSetAttribute(fused_mixture<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 LN_DECODE_SHARED_BYTES);
    if (code != 0)
        return code;
    args.n_stages = (unsigned)ln_decode_stages_beside(KIND, work_bytes);
    args.work_offset = args.n_stages * LN_DECODE_WARPS * ln_decode_stage_bytes(KIND);
    /* all of it, so that blocks do not share an SM */
    return ln_pdl_launch(fused_mixture<KIND>, dim3(n_sms), LN_DECODE_THREADS,
                         LN_DECODE_SHARED_BYTES, stream, args);
}

int ln_cuda_mixture(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                    ln_cuda_stream stream) {
    const ln_op *first = &ops[launch->first];
    const ln_op_linear *up = &first[LN_MIXTURE_UP].linear;
    mixture_args args = {};
    args.mixture = ln_mixture_make(
        first, step, (float *)((char *)step->fused_workspace + LN_DECODE_COUNTER_BYTES));
    args.x = up->x;
    args.barrier_count = step->fused_workspace;
    args.n_handoff_floats = (unsigned)launch->n_handoff_floats;
    return ln_dispatch_layout<ln_decode_is_mixture_kind>(
        ln_decode_kind((int)up->weight->layout), [&](auto kind) {
            return launch_kind<decltype(kind)::LAYOUT>(args, launch->work_bytes, stream);
        });
}
