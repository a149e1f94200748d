/* Whether the experts of one token run as one kernel (fused/mixture.cu), or as a task of one
 * (fused/decode_mixture.cu): the choice of experts, their linears and their sum, as models record
 * them. */
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/plan/planner.h"

/* A linear of all the chosen experts, of which the sum of a column is that of tensor cores. */
static bool is_of_experts(const ln_op *op, const ln_op *group) {
    const ln_op_linear *p = &op->linear;
    return ln_plan_takes_grouped(op) && !ln_plan_any_lora(op, 1) &&
           p->n_rows == group->group.n_rows && p->groups.n_groups == group->group.n_experts &&
           p->groups.order == group->group.order && p->groups.starts == group->group.starts &&
           p->residual == NULL && p->weight->n_cols % 4 == 0 &&
           (p->out_stride == 0 || p->out_stride == p->weight->n_rows);
}

/* The choice among all experts, and the order of what was chosen. */
static bool is_whole_choice(const ln_op *route, const ln_op *group) {
    const ln_op_route *p = &route->route;
    return route->kind == LN_OP_ROUTE && group->kind == LN_OP_GROUP &&
           p->n_used <= LN_MIXTURE_MAX_USED && p->n_experts <= LN_MIXTURE_MAX_EXPERTS &&
           p->n_shared == 0 && group->group.experts == p->experts &&
           group->group.n_rows == p->n_used && group->group.first_expert == 0 &&
           group->group.n_experts == p->n_experts;
}

/* The sum of what down gives, weighted as chosen. */
static bool is_sum(const ln_op *op, const ln_op *route, const ln_op *down) {
    const ln_op_combine *p = &op->combine;
    const ln_op_linear *up = &down[-1].linear;
    return op->kind == LN_OP_COMBINE && p->x == down->linear.out &&
           p->n_used == route->route.n_used && p->dim == down->linear.weight->n_rows &&
           p->weights == route->route.weights &&
           p->out != up->x && /* which late blocks still read */
           p->out != route->route.logits &&
           (p->experts == NULL || (p->first_expert == 0 && p->n_experts == route->route.n_experts));
}

size_t ln_plan_mixture_work_bytes(const ln_op *ops, bool has_router) {
    const ln_op_linear *up = &ops[LN_MIXTURE_UP].linear, *down = &ops[LN_MIXTURE_DOWN].linear;
    const int kind = ln_decode_kind((int)up->weight->layout);
    size_t n_used = ops->route.n_used, n_cols = up->weight->n_cols;
    size_t n_floats = (has_router ? 4 : 3) * ops->route.n_experts + LN_MIXTURE_MORE_FLOATS +
                      n_used * LN_MIXTURE_FLOATS_OF_CHOICE;
    size_t hidden = ln_decode_act_bytes(kind, n_used, down->weight->n_cols, down->precise);
    size_t plain = has_router ? n_cols * sizeof(float) : 0;
    return ln_decode_act_bytes(kind, 1, n_cols, up->precise) + (hidden > plain ? hidden : plain) +
           n_floats * sizeof(float);
}

/* Whether the linears go together: gate and up of one x, and down of what these give. */
static const char *refuses_linears(const ln_planner *p, const ln_op *up, const ln_op *down) {
    const ln_op_linear *u = &up->linear, *d = &down->linear;
    if (u->gate == NULL || d->gate != NULL || u->rows_per_x != u->n_rows || d->rows_per_x > 1)
        return "experts have no gate, or rows of x of their own";
    if (ln_decode_kind((int)u->weight->layout) != ln_decode_kind((int)d->weight->layout))
        return "weights of another kind follow";
    bool is_chain = d->x == u->out && d->x_stride == 0 && d->weight->n_cols == u->weight->n_rows &&
                    (uintptr_t)u->x % 16 == 0 &&
                    ln_value_stays_within(&p->plan->uses[up->out[LN_OUT]], 1) &&
                    ln_value_stays_within(&p->plan->uses[down->out[LN_OUT]], 1);
    return is_chain ? NULL : "others read what experts give, or it is not aligned";
}

const char *ln_plan_refuses_mixture(const ln_planner *p, size_t at) {
    const ln_op *ops = &p->ops[at];
    const size_t n_ops = p->n_ops - at;
    const ln_op *group = &ops[LN_MIXTURE_GROUP];
    const ln_op *up = &ops[LN_MIXTURE_UP], *down = &ops[LN_MIXTURE_DOWN];
    if (p->step->fused_workspace == NULL || !p->target->has_sm90a)
        return "no fused kernels run here";
    if (p->step->batch.n_tokens != 1)
        return "more than one token has no fused mixture";
    if (n_ops < LN_MIXTURE_OPS || !is_whole_choice(ops, group))
        return "a part of the experts, or too many, have no fused mixture";
    if (!is_of_experts(up, group) || !is_of_experts(down, group))
        return "experts have adapters, or weights without tiles";
    if (!is_sum(&ops[LN_MIXTURE_COMBINE], ops, down))
        return "something else follows than the sum of the experts";
    return refuses_linears(p, up, down);
}

size_t ln_plan_mixture(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *ops = &p->ops[at];
    if (ops->kind != LN_OP_ROUTE)
        return 0;
    launch->apart = ln_plan_refuses_mixture(p, at);
    if (launch->apart != NULL)
        return 0;
    const ln_op_linear *up = &ops[LN_MIXTURE_UP].linear, *down = &ops[LN_MIXTURE_DOWN].linear;
    const int kind = ln_decode_kind((int)up->weight->layout);
    const size_t n_hidden = up->n_rows * down->weight->n_cols,
                 bytes = ln_plan_mixture_work_bytes(ops, false);
    if (n_hidden > LN_DECODE_HANDOFF_FLOATS ||
        ln_decode_stages_beside(kind, bytes) < LN_DECODE_MIN_STAGES) {
        launch->apart = "shared memory has no room for so many columns";
        return 0;
    }
    launch->kind = LN_CUDA_MIXTURE;
    launch->work_bytes = bytes;
    launch->n_handoff_floats = n_hidden;
    return LN_MIXTURE_OPS;
}
