/* The longest run of linears of BF16 for 9 to 64 rows, with the norms between them, that
 * fused/linear_norm.cu takes as one kernel. Halves of the memory of converted activations serve by
 * turns: a linear reads one while what the next one reads goes to the other. */
#include "backend/cuda/activations/form.h"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/plan/planner.h"

typedef struct linear_norm {
    const ln_planner *p;
    ln_cuda_task *tasks;
    size_t n_tasks, n_rows;
    ln_converted_act x; /* of the last task */
} linear_norm;

static const char *refuses_linears(const ln_planner *p, size_t at, size_t n) {
    const ln_op_linear *linear = &p->ops[at].linear;
    if (n == 0)
        return "no kernel fuses this operation";
    if (linear->weight->layout != LN_LAYOUT_BF16)
        return "only bf16 weights fuse linears and norms";
    if (ln_plan_any_lora(&p->ops[at], n))
        return "rows have adapters";
    if (linear->n_rows > LN_SMALL_M_ROWS)
        return "more than 64 rows have no fused kernel";
    if (linear->rows_per_x > 1)
        return "rows of x are read more than once";
    if (ln_plan_any_precise(&p->ops[at], n))
        return "precise linears do not fuse with norms";
    return ln_plan_by_blas(p, at, n) ? "cuBLASLt serves the linear" : NULL;
}

/* Whether x is activation tiles that half of its memory has room for. */
static bool fits_half(const ln_converted_act *x) {
    size_t bytes = ln_act_cols(x) * LN_SMALL_M_ROWS * sizeof(uint16_t);
    return x->in_tiles && bytes <= ln_act_half(x);
}

/* Whether the norm in front of a task's linears can be made between tasks. */
static const char *refuses_norm(const ln_op *norm, const ln_op *ops, size_t cols) {
    const ln_op_norm *p = &norm->norm;
    if (norm->out[LN_OUT] == 0 || norm->out[LN_OUT] != ops->in[LN_IN_X])
        return "linears behind the norm read something else";
    bool fits = p->n_rows == ops->linear.n_rows && p->norm->dim == cols && p->residual == NULL;
    return fits && ln_plan_norm_converts(p) ? NULL : "the norm has a residual, or another width";
}

/* Whether the linear of the task before, behind operation `at`, can write its result as the next
 * one's x. */
static const char *refuses_gate(const linear_norm *f, size_t at, size_t cols) {
    const ln_op *ops = f->p->ops, *gate = &ops[at - 1];
    const ln_op_linear *p = &gate->linear;
    if (f->tasks[f->n_tasks - 1].n_linears > 1 || gate->out[LN_OUT] == 0 ||
        gate->out[LN_OUT] != ops[at].in[LN_IN_X])
        return "the linear reads something else";
    bool is_dense = p->out_stride == 0 || p->out_stride == p->weight->n_rows;
    bool fits = p->weight->n_rows == cols && is_dense && ln_plan_is_plain(p);
    return fits ? NULL : "the linear before has more than an activation to do";
}

/* Adds n linears from `at` on, behind the norm in front of them or not. */
static const char *add_linears(linear_norm *f, bool has_norm, size_t at, size_t n) {
    const ln_op *ops = &f->p->ops[at];
    if (f->n_tasks == LN_LINEAR_NORM_MAX_TASKS)
        return "the kernel's list of linears is full";
    const char *why = refuses_linears(f->p, at, n);
    if (why != NULL)
        return why;
    ln_converted_act x = ln_act_none(&f->x);
    ln_act_require(ops, false, false, f->p->target->has_sm90a, &x);
    size_t cols = ln_act_cols(&x);
    if (!fits_half(&x) || x.n_rows != f->n_rows || x.stride != cols)
        return "its activations have another shape, or no room";
    why = has_norm ? refuses_norm(ops - 1, ops, cols) : refuses_gate(f, at, cols);
    if (why != NULL)
        return why;
    x.is_behind = !f->x.is_behind;
    f->x = x;
    f->tasks[f->n_tasks++] = (ln_cuda_task){(uint32_t)(at - has_norm), (uint8_t)n, has_norm};
    ln_op const *producer = ops - 1;
    ln_value value = producer->out[LN_OUT];
    f->p->plan->places[value].is_left_out = ln_value_stays_within(&f->p->plan->uses[value], n);
    return NULL;
}

size_t ln_plan_linear_norm(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    size_t n_first = ln_plan_linears(p, at, false), end = at + n_first;
    launch->apart = NULL;
    if (n_first == 0)
        return 0;
    launch->apart = "no fused kernels run here";
    if (p->step->fused_workspace == NULL || !p->target->has_sm90a)
        return 0;
    launch->apart = refuses_linears(p, at, n_first);
    if (launch->apart != NULL)
        return 0;
    linear_norm f = {.p = p,
                     .tasks = p->plan->tasks + p->plan->n_tasks,
                     .n_rows = p->ops[at].linear.n_rows,
                     .x = p->x};
    launch->converts_x = ln_act_require(&p->ops[at], false, false, true, &f.x);
    launch->x = f.x;
    if (!fits_half(&f.x)) {
        launch->apart = "fewer than 9 rows fuse as decode alone";
        return 0;
    }
    f.tasks[f.n_tasks++] = (ln_cuda_task){(uint32_t)at, (uint8_t)n_first, false};
    while (end < p->n_ops && launch->apart == NULL) {
        bool has_norm = p->ops[end].kind == LN_OP_NORM;
        size_t n = ln_plan_linears(p, end + has_norm, false);
        launch->apart = add_linears(&f, has_norm, end + has_norm, n);
        end += launch->apart == NULL ? n + has_norm : 0;
    }
    if (f.n_tasks == 1)
        return 0;
    launch->kind = LN_CUDA_LINEAR_NORM;
    launch->first_task = (uint32_t)p->plan->n_tasks;
    launch->n_tasks = (uint32_t)f.n_tasks;
    p->plan->n_tasks += f.n_tasks;
    return end - at;
}
