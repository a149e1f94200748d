/* What the fused decode kernel is told of the tasks of a planned launch; host code. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_TASKS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_TASKS_CUH

#include "backend/cuda/fused/decode_args.cuh"
#include "backend/cuda/launch.h"

/* decode_mixture.cu: a launch that has mixtures. */
int ln_cuda_fused_decode_mixed(const ln_cuda_plan *plan, const ln_cuda_launch *launch,
                               const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream);

/* Whether a task is a mixture: its linears, the router and the shared expert's gate, have no weight
 * tiles, and what LN_MIXTURE_OPS are follows them. */
static inline bool ln_decode_is_mixture(const ln_cuda_task &task, const ln_op *ops) {
    return task.n_linears > 0 &&
           ops[task.first + task.has_norm].linear.weight->layout == LN_LAYOUT_NONE;
}

static inline bool ln_decode_has_mixtures(const ln_cuda_plan *plan, const ln_cuda_launch *launch,
                                          const ln_op *ops) {
    bool any = false;
    for (unsigned i = 0; i < launch->n_tasks; i++)
        any |= ln_decode_is_mixture(plan->tasks[launch->first_task + i], ops);
    return any;
}

/* Where a planned launch reads and stores values. */
typedef struct ln_decode_handoff_memory {
    const ln_cuda_plan *plan;
    const ln_cuda_launch *launch;
    float *floats;
} ln_decode_handoff_memory;

/* Where the kernel reads a value: from the hand-off, or where it lies. */
static inline const float *ln_decode_source_of(const ln_decode_handoff_memory &m, ln_value value,
                                               const float *at, bool *is_handed_off) {
    *is_handed_off = ln_cuda_reads_handoff(m.plan, m.launch, value);
    return *is_handed_off ? m.floats + m.plan->places[value].handoff : at;
}

/* Where the kernel hands a value off, or NULL. */
static inline float *ln_decode_handoff_of(const ln_decode_handoff_memory &m, ln_value value) {
    const ln_cuda_place &place = m.plan->places[value];
    return place.is_handed_off ? m.floats + place.handoff : NULL;
}

/* Where it stores the value for other kernels, or NULL. */
static inline float *ln_decode_plain_of(const ln_decode_handoff_memory &m, ln_value value,
                                        float *at) {
    return m.plan->places[value].is_left_out ? NULL : at;
}

static inline void ln_decode_set_norm(const ln_decode_handoff_memory &m, const ln_op *op,
                                      const ln_cuda_step *step, ln_decode_linear *l) {
    const ln_op_norm *p = &op->norm;
    l->normalizes = true;
    l->norm = *p->norm;
    l->rows = ln_cuda_norm_rows(op, step);
    l->normed = ln_decode_plain_of(m, op->out[LN_OUT], p->out);
    l->normed_handoff = ln_decode_handoff_of(m, op->out[LN_OUT]);
    l->x.at = ln_decode_source_of(m, op->in[LN_IN_X], p->x, &l->x.is_handed_off);
}

static inline ln_decode_linear ln_decode_make_linear(const ln_decode_handoff_memory &m,
                                                     const ln_cuda_task &task, const ln_op *ops,
                                                     const ln_cuda_step *step) {
    const ln_op *first = &ops[task.first + task.has_norm];
    const ln_op_linear *p = &first->linear;
    int kind = ln_decode_kind((int)p->weight->layout);
    ln_decode_linear l = {};
    l.n_parts = task.n_linears;
    const unsigned n_cols = (unsigned)p->weight->n_cols;
    l.x.n_cols = n_cols;
    l.x.stride = p->x_stride > 0 ? (unsigned)p->x_stride : n_cols;
    l.k_tiles = (unsigned)(ln_weight_tile_padded_cols(kind, n_cols) / ln_weight_tile_cols(kind));
    l.x_cols = (unsigned)ln_decode_x_cols(kind, n_cols);
    l.has_gate = p->gate != NULL;
    for (unsigned i = 0; i < l.n_parts; i++) {
        ln_gemm_part &part = l.parts[i];
        ln_value out = first[i].out[LN_OUT];
        part = ln_gemm_make_part(&first[i].linear);
        part.epilogue.out = ln_decode_plain_of(m, out, part.epilogue.out);
        l.handoff[i] = ln_decode_handoff_of(m, out);
        l.precise |= part.precise;
        l.n_output_tiles += ln_ceil_div(part.epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    }
    if (p->residual != NULL)
        l.parts[0].epilogue.residual = ln_decode_source_of(m, first->in[LN_IN_RESIDUAL],
                                                           p->residual, &l.residual_is_handed_off);
    if (task.has_norm)
        ln_decode_set_norm(m, &ops[task.first], step, &l);
    else
        l.x.at = ln_decode_source_of(m, first->in[LN_IN_X], p->x, &l.x.is_handed_off);
    return l;
}

static inline ln_decode_weight_tiles ln_decode_weights_of(const ln_decode_linear &l) {
    ln_decode_weight_tiles w = {};
    w.gate = l.parts[0].gate;
    w.k_tiles = l.k_tiles;
    for (unsigned i = 0, end = 0; i < LN_GEMM_MAX_PARTS; i++) {
        bool is_there = i < l.n_parts;
        end += is_there ? ln_ceil_div(l.parts[i].epilogue.n_out, LN_WEIGHT_TILE_ROWS) : 0;
        w.parts[i] = is_there ? l.parts[i].weight : NULL;
        w.tile_ends[i] = end;
        w.kinds[i] = l.parts[i].kind;
    }
    return w;
}

static inline ln_decode_attention ln_decode_make_attention(const ln_decode_handoff_memory &m,
                                                           const ln_op *qkv,
                                                           const ln_cuda_step *step) {
    const ln_op *attention = qkv + 1;
    ln_attention_args args = ln_make_attention_args(&attention->attention, step);
    ln_decode_attention a;
    bool is_handed_off;
    a.qkv = ln_make_qkv_args(&qkv->qkv, step);
    a.mma = ln_make_mma_attention_args(&args, step);
    a.qkv.q = (float *)ln_decode_source_of(m, qkv->in[LN_IN_Q], a.qkv.q, &is_handed_off);
    a.qkv.k = (float *)ln_decode_source_of(m, qkv->in[LN_IN_K], a.qkv.k, &is_handed_off);
    a.qkv.v = ln_decode_source_of(m, qkv->in[LN_IN_V], a.qkv.v, &is_handed_off);
    a.mma.a.out = ln_decode_plain_of(m, attention->out[LN_OUT], a.mma.a.out);
    a.handoff = ln_decode_handoff_of(m, attention->out[LN_OUT]);
    return a;
}

/* All that does not depend on single tasks, but the layout of shared memory. */
static inline void ln_decode_begin_args(const ln_cuda_launch *launch, size_t n_rows,
                                        const ln_cuda_step *step, ln_decode_args *args) {
    args->barrier_count = step->fused_workspace;
    args->handoff = (float *)((char *)step->fused_workspace + LN_DECODE_COUNTER_BYTES);
    args->n_handoff_floats = (unsigned)launch->n_handoff_floats;
    args->n_rows = (unsigned)n_rows;
    args->n_linears = args->n_attentions = 0;
    args->n_tasks = launch->n_tasks;
}

#endif
