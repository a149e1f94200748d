/* Which linears share a launch, and what converts their activations. */
#include "backend/adapter_tiles.h"
#include "backend/cuda/activations/form.h"
#include "backend/cuda/ops/adapter_lists.h"
#include "backend/cuda/plan/planner.h"
#include "backend/cuda/weights/layout.h"

static bool takes_tiles(const ln_op *op) {
    const ln_op_linear *p = &op->linear;
    return op->kind == LN_OP_LINEAR && p->n_rows > 0 && p->weight->layout != LN_LAYOUT_NONE &&
           p->groups.n_groups == 0 && (p->gate == NULL || p->gate->layout == p->weight->layout) &&
           (p->weight->layout != LN_LAYOUT_F8_ROW || p->rows_per_x <= 1);
}

static bool stands_alone(const ln_op_linear *p) {
    return p->gate != NULL || p->residual != NULL || p->rows_per_x > 1;
}

/* Whether linears of two kinds can go together. */
static bool go_together(const ln_weight *a, const ln_weight *b, bool may_mix) {
    return a->n_cols == b->n_cols &&
           (a->layout == b->layout ||
            (may_mix && ln_weight_tile_dequantizes_to_f16((int)a->layout) &&
             ln_weight_tile_dequantizes_to_f16((int)b->layout)));
}

size_t ln_plan_linears(const ln_planner *p, size_t at, bool may_mix) {
    const ln_op *ops = p->ops;
    if (at >= p->n_ops || !takes_tiles(&ops[at]))
        return 0;
    const ln_op_linear *a = &ops[at].linear;
    size_t n = 1;
    for (; at + n < p->n_ops && n < LN_GEMM_MAX_PARTS && !stands_alone(a); n++) {
        const ln_op *op = &ops[at + n];
        const ln_op_linear *b = &op->linear;
        if (!takes_tiles(op) || stands_alone(b) || op->in[LN_IN_X] == 0 ||
            op->in[LN_IN_X] != ops[at].in[LN_IN_X] || b->x_stride != a->x_stride ||
            b->n_rows != a->n_rows || !go_together(a->weight, b->weight, may_mix))
            break;
    }
    return n;
}

bool ln_plan_any_precise(const ln_op *ops, size_t n_ops) {
    bool precise = false;
    for (size_t i = 0; i < n_ops; i++)
        precise |= ops[i].linear.precise;
    return precise;
}

bool ln_plan_any_lora(const ln_op *ops, size_t n_ops) {
    bool any = false;
    for (size_t i = 0; i < n_ops; i++)
        any |= ops[i].kind == LN_OP_LINEAR && ops[i].linear.adapters != NULL;
    return any;
}

/* Whether LN_OP_LORA_SHRINK made low, or nobody. */
static bool is_low_of(const ln_op_lora_shrink *shrink, const float *low) {
    bool found = low == NULL;
    for (size_t i = 0; i < shrink->n_weights; i++)
        found |= low == shrink->low[i];
    return found;
}

/* Whether the n linears behind LN_OP_LORA_SHRINK want all that it makes, and nothing else happens
 * between their sums and their adapters. */
static const char *refuses_adapters(const ln_op *shrink, size_t n) {
    const ln_op_lora_shrink *of = &shrink->lora_shrink;
    size_t n_weights = 0;
    for (size_t i = 1; i <= n; i++) {
        const ln_op_linear *p = &shrink[i].linear;
        if (p->weight->bias != NULL || (p->gate != NULL && p->gate->bias != NULL))
            return "linears with adapters have a bias";
        if (p->multiplies)
            return "an adapter multiplies results";
        if (p->adapters != NULL && p->adapters != of->rows)
            return "adapters are of other rows";
        if (!is_low_of(of, p->low) || !is_low_of(of, p->gate_low))
            return "adapters read something else";
        n_weights += (size_t)(p->low != NULL) + (size_t)(p->gate_low != NULL);
    }
    return n_weights == of->n_weights ? NULL : "other linears read the adapters' first half, too";
}

size_t ln_plan_lora_linears(const ln_planner *p, size_t at, const char **why) {
    const ln_op *op = &p->ops[at];
    const ln_op_lora_shrink *shrink = &op->lora_shrink;
    if (op->kind != LN_OP_LORA_SHRINK)
        return 0;
    size_t n = ln_plan_linears(p, at + 1, false);
    const ln_op_linear *first = &p->ops[at + 1].linear;
    const ln_cuda_adapter_rows *rows = ln_cuda_find_adapter_rows(op, shrink->rows, p->step);
    ln_converted_act x = ln_act_none(&p->target->act);
    *why = "adapters have a kernel of their own here";
    if (n == 0 || shrink->n_heads > 1 || p->step->adapter_scratch == NULL ||
        !p->target->has_sm90a || first->weight->layout != LN_LAYOUT_BF16 ||
        first->n_rows > LN_SMALL_M_ROWS || first->rows_per_x > 1 ||
        rows->most_runs > LN_ADAPTER_LIST_ROWS)
        return 0;
    *why = "precise linears take adapters apart";
    if (ln_plan_any_precise(&p->ops[at + 1], n))
        return 0;
    ln_act_require(&p->ops[at + 1], false, false, true, &x);
    *why = "fewer than 9 rows take adapters apart";
    if (!x.in_tiles)
        return 0;
    size_t n_steps = rows->most_runs * (shrink->low_stride / LN_ADAPTER_TILE);
    *why = "adapters have too many ranks for a list";
    if ((first->gate != NULL ? 2 : 1) * n_steps > LN_ADAPTER_MAX_STEPS)
        return 0;
    *why = refuses_adapters(op, n);
    return *why == NULL ? n : 0;
}

bool ln_plan_by_blas(const ln_planner *p, size_t at, size_t n) {
    const ln_cuda_target *target = p->target;
    return !ln_plan_any_lora(&p->ops[at], n) && target->act.blas != NULL &&
           target->blas_takes != NULL && target->blas_takes(target->act.blas, &p->ops[at], n);
}

bool ln_plan_is_aligned(const void *at) {
    return (uintptr_t)at % 16 == 0;
}

bool ln_plan_norm_converts(const ln_op_norm *op) {
    enum { LEAST = 512, MOST = 4 * 4 * 512 }; /* that a block holds: ops/norm.cuh */
    const ln_norm *norm = op->norm;
    return op->n_rows > 0 && op->out_stride == 0 && norm->dim % LN_SCALE_BLOCK == 0 &&
           norm->dim >= LEAST && norm->dim <= MOST && ln_plan_is_aligned(op->x) &&
           ln_plan_is_aligned(op->residual) && ln_plan_is_aligned(op->out) &&
           ln_plan_is_aligned(norm->weight) && ln_plan_is_aligned(norm->bias);
}

bool ln_plan_is_plain(const ln_op_linear *p) {
    size_t n_out = p->weight->n_rows, stride = p->out_stride > 0 ? p->out_stride : n_out;
    const float *gate_bias = p->gate != NULL ? p->gate->bias : NULL;
    bool is_bare = p->weight->bias == NULL && gate_bias == NULL && p->residual == NULL;
    bool suits =
        p->gate != NULL ? p->activation == LN_ACT_SILU && is_bare : p->activation == LN_ACT_NONE;
    return suits && p->softcap <= 0.0f && ln_plan_is_aligned(p->out) &&
           ln_plan_is_aligned(p->residual) && ln_plan_is_aligned(p->weight->bias) &&
           ln_plan_is_aligned(gate_bias) && (n_out | stride) % 4 == 0;
}

/* Whether n matrices are of one type and lie at equal distances. */
static bool lie_evenly(const ln_weight *weights, size_t n) {
    if (weights == NULL || n < 2)
        return true;
    ptrdiff_t step = (const char *)weights[1].data - (const char *)weights[0].data;
    const float *bias = weights[0].bias;
    ptrdiff_t bias_step = bias != NULL && weights[1].bias != NULL ? weights[1].bias - bias : 0;
    for (size_t i = 1; i < n; i++)
        if (weights[i].dtype != weights[0].dtype || weights[i].layout != weights[0].layout ||
            (const char *)weights[i].data != (const char *)weights[0].data + (ptrdiff_t)i * step ||
            weights[i].bias != (bias != NULL ? bias + (ptrdiff_t)i * bias_step : NULL))
            return false;
    return true;
}

bool ln_plan_takes_grouped(const ln_op *op) {
    const ln_op_linear *p = &op->linear;
    if (op->kind != LN_OP_LINEAR || p->n_rows == 0 || p->groups.n_groups == 0 ||
        p->weight->layout == LN_LAYOUT_NONE || p->weight->layout == LN_LAYOUT_F8_ROW ||
        (p->gate != NULL && p->gate->layout != p->weight->layout))
        return false;
    size_t rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    size_t n_rows = (p->n_rows + rows_per_x - 1) / rows_per_x;
    size_t cols = ln_weight_tile_padded_cols((int)p->weight->layout, p->weight->n_cols);
    return lie_evenly(p->weight, p->groups.n_groups) && lie_evenly(p->gate, p->groups.n_groups) &&
           n_rows <= UINT32_MAX / cols; /* which a lane's offsets count */
}

bool ln_plan_convert_to(const ln_planner *p, size_t producer, size_t n_rows, size_t dim, size_t at,
                        size_t n, ln_cuda_launch *launch) {
    ln_value value = p->ops[producer].out[LN_OUT];
    ln_converted_act *to = &launch->to;
    bool by_blas = ln_plan_by_blas(p, at, n);
    *to = ln_act_none(&p->target->act);
    ln_act_require(&p->ops[at], ln_plan_any_precise(&p->ops[at], n), by_blas, p->target->has_sm90a,
                   to);
    launch->leaves_out = ln_value_stays_within(&p->plan->uses[value], n) && !by_blas;
    return value != 0 && p->ops[at].in[LN_IN_X] == value && to->n_rows == n_rows &&
           to->stride == dim && ln_act_cols(to) == dim;
}
