/* Fused decode kernel (decode.cu) of one row whose tasks are mixtures of experts, too
 * (decode_mixture.cuh): a layer with such a feed-forward is inside one launch with its neighbours.
 * The kernels are compiled apart, so that those without mixtures keep their registers. */
#include "backend/cuda/launch.h"

#include "backend/cuda/fused/decode_attention.cuh"
#include "backend/cuda/fused/decode_kernel.cuh"
#include "backend/cuda/fused/decode_mixture.cuh"
#include "backend/cuda/fused/decode_tasks.cuh"
#include "backend/cuda/weights/dispatch.cuh"

template <> struct ln_decode_types<true> {
    typedef ln_decode_mixed_list list;
    typedef ln_decode_mixed_pipeline pipeline;
    typedef ln_decode_mixed_state state;
    enum { MAX_WEIGHTS = LN_DECODE_MIXED_MAX_WEIGHTS };
};

static_assert((int)LN_DECODE_MIXED_MAX_WEIGHTS * sizeof(ln_decode_weight_tiles) +
                      sizeof(ln_decode_mixed_state) <=
                  LN_DECODE_MAX_LINEARS * sizeof(ln_decode_weight_tiles),
              "declares no more shared memory than kernels without mixtures");

/* ---- arguments ------------------------------------------------------------------------------- */

static ln_decode_router make_router(const ln_decode_handoff_memory &m, const ln_op *op) {
    const ln_op_linear *p = &op->linear;
    const ln_gemm_part part = ln_gemm_make_part(p);
    ln_decode_router router = {part.weight, p->weight->row_bytes, p->weight->dtype, part.epilogue,
                               ln_decode_handoff_of(m, op->out[LN_OUT])};
    router.epilogue.out = ln_decode_plain_of(m, op->out[LN_OUT], p->out);
    return router;
}

/* What the router and the experts read. All blocks make it. */
static ln_decode_linear make_x(const ln_decode_handoff_memory &m, const ln_cuda_task &task,
                               const ln_op *up, const ln_op *ops, const ln_cuda_step *step) {
    const ln_mixture_linear experts = ln_mixture_make_linear(&up->linear);
    ln_decode_linear l = {};
    l.n_parts = 1;
    l.parts[0] = experts.part;
    l.k_tiles = experts.k_tiles;
    l.x_cols = experts.x_cols;
    l.n_output_tiles = (unsigned)up->linear.n_rows * experts.n_output_tiles;
    l.precise = experts.part.precise;
    l.x.n_cols = l.x.stride = experts.n_cols;
    if (task.has_norm)
        ln_decode_set_norm(m, &ops[task.first], step, &l);
    else
        l.x.at = ln_decode_source_of(m, up->in[LN_IN_X], up->linear.x, &l.x.is_handed_off);
    return l;
}

/* What the sum adds, and where it goes. */
static void set_sum(const ln_decode_handoff_memory &m, const ln_op *op, ln_mixture *mixture) {
    ln_op_combine *p = &mixture->combine;
    if (p->residual != NULL)
        p->residual = ln_decode_source_of(m, op->in[LN_IN_COMBINE_RESIDUAL], p->residual,
                                          &mixture->residual_is_handed_off);
    if (p->shared != NULL)
        p->shared =
            ln_decode_source_of(m, op->in[LN_IN_SHARED], p->shared, &mixture->shared_is_handed_off);
    if (p->shared_gate != NULL)
        p->shared_gate = ln_decode_source_of(m, op->in[LN_IN_SHARED_GATE], p->shared_gate,
                                             &mixture->shared_gate_is_handed_off);
    p->out = ln_decode_plain_of(m, op->out[LN_OUT], p->out);
    mixture->out_handoff = ln_decode_handoff_of(m, op->out[LN_OUT]);
}

static ln_decode_mixture make_mixture(const ln_decode_handoff_memory &m, const ln_cuda_task &task,
                                      const ln_op *ops, const ln_cuda_step *step) {
    const ln_op *routers = &ops[task.first + task.has_norm], *route = routers + task.n_linears;
    const ln_op *up = &route[LN_MIXTURE_UP];
    ln_decode_mixture mixture = {};
    mixture.x = make_x(m, task, up, ops, step);
    mixture.router = make_router(m, route - 1);
    if (task.n_linears > 1)
        mixture.shared_gate = make_router(m, routers);
    mixture.mixture = ln_mixture_make(route, step, ln_decode_handoff_of(m, up->out[LN_OUT]));
    set_sum(m, &route[LN_MIXTURE_COMBINE], &mixture.mixture);
    return mixture;
}

/* What the weight pipeline is told of gate and up, or of down. */
static ln_decode_weight_tiles make_weights(const ln_mixture &m, ln_decode_owner owner,
                                           unsigned number) {
    const ln_mixture_linear &l = owner == LN_DECODE_OF_EXPERTS_UP ? m.up : m.down;
    ln_decode_weight_tiles w = {};
    w.experts = {l.weight.data, (uint32_t)(l.weight.data_stride / 16),
                 (uint32_t)(l.gate.data_stride / 16)};
    w.gate = l.gate.data;
    w.k_tiles = l.k_tiles;
    w.kinds[0] = l.part.kind;
    for (unsigned i = 0; i < LN_GEMM_MAX_PARTS; i++)
        w.tile_ends[i] = l.n_output_tiles;
    w.owner = (uint8_t)owner;
    w.mixture = (uint8_t)number;
    w.n_used = (uint8_t)m.route.n_used;
    return w;
}

static void make_list(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                      const ln_cuda_step *step, ln_decode_mixed_list *list) {
    const ln_cuda_task *tasks = plan->tasks + launch->first_task;
    ln_decode_args *args = &list->p;
    unsigned n_linears = 0, n_mixtures = 0;
    ln_decode_begin_args(launch, 1, step, args);
    const ln_decode_handoff_memory m = {plan, launch, args->handoff};
    for (unsigned i = 0; i < args->n_tasks; i++) {
        list->is_mixture[i] = ln_decode_is_mixture(tasks[i], ops);
        args->is_attention[i] = tasks[i].n_linears == 0;
        if (args->is_attention[i]) {
            list->attentions[args->n_attentions++] =
                ln_decode_make_attention(m, &ops[tasks[i].first], step);
        } else if (list->is_mixture[i]) {
            const ln_decode_mixture &mixture = list->mixtures[n_mixtures] =
                make_mixture(m, tasks[i], ops, step);
            for (int owner = LN_DECODE_OF_EXPERTS_UP; owner <= LN_DECODE_OF_EXPERTS_DOWN; owner++)
                list->weights[args->n_linears++] =
                    make_weights(mixture.mixture, (ln_decode_owner)owner, n_mixtures);
            n_mixtures++;
        } else {
            ln_decode_linear &l = list->linears[n_linears++];
            l = ln_decode_make_linear(m, tasks[i], ops, step);
            list->weights[args->n_linears++] = ln_decode_weights_of(l);
        }
    }
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND>
static int launch_kind(ln_decode_mixed_list &list, size_t work_bytes, cudaStream_t stream) {
    if (list.p.n_attentions == 0)
        return ln_decode_launch<KIND, 0, true, true>(list, work_bytes, stream);
    return list.attentions[0].mma.a.kv.k_dim == 64
               ? ln_decode_launch<KIND, 64, true, true>(list, work_bytes, stream)
               : ln_decode_launch<KIND, 128, true, true>(list, work_bytes, stream);
}

int ln_cuda_fused_decode_mixed(const ln_cuda_plan *plan, const ln_cuda_launch *launch,
                               const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    ln_decode_mixed_list list;
    make_list(plan, launch, ops, step, &list);
    return ln_dispatch_layout<ln_decode_is_mixture_kind>(
        ln_decode_kind(list.linears[0].parts[0].kind), [&](auto kind) {
            return launch_kind<decltype(kind)::LAYOUT>(list, launch->work_bytes, stream);
        });
}
