/* The longest run of linears of BF16, F8_ROW or INT8_ROW for 9 to 64 rows, with the norms between
 * them, and of BF16 adapters, that fused/linear_norm.cu takes as one kernel. Halves of the memory
 * of converted activations serve by turns: a linear reads one while what the next one reads goes to
 * the other. */
#include "backend/adapter_tiles.h"
#include "backend/cuda/activations/form.h"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/plan/planner.h"

typedef struct linear_norm {
    const ln_planner *p;
    ln_cuda_task *tasks;
    size_t n_tasks, n_rows;
    uint32_t layout;
    size_t n_adapted, n_tiles;   /* weights with adapters, and what these have at most */
    const ln_adapter_rows *rows; /* of all adapters, or NULL */
    ln_converted_act x;          /* of the last task */
} linear_norm;

/* Whether rows of a layout are quantised by themselves, with a scale each. */
static bool has_row_scales(uint32_t layout) {
    return layout == LN_LAYOUT_F8_ROW || layout == LN_LAYOUT_INT8_ROW;
}

static const char *refuses_linears(const ln_planner *p, size_t at, size_t n, bool has_shrink) {
    const ln_op_linear *linear = &p->ops[at].linear;
    if (n == 0)
        return "no kernel fuses this operation";
    if (linear->weight->layout != LN_LAYOUT_BF16 && !has_row_scales(linear->weight->layout))
        return "only bf16, fp8 and int8 weights fuse linears and norms";
    if (linear->weight->layout == LN_LAYOUT_INT8_ROW &&
        linear->n_rows < LN_LINEAR_NORM_MIN_INT8_ROWS)
        return "int8 weights of up to 16 rows are faster apart";
    if (!has_shrink && ln_plan_any_lora(&p->ops[at], n))
        return "rows have adapters";
    if (linear->n_rows > LN_SMALL_M_ROWS)
        return "more than 64 rows have no fused kernel";
    if (linear->rows_per_x > 1)
        return "rows of x are read more than once";
    if (linear->weight->layout == LN_LAYOUT_BF16 && ln_plan_any_precise(&p->ops[at], n))
        return "precise linears do not fuse with norms";
    return ln_plan_by_blas(p, at, n) ? "cuBLASLt serves the linear" : NULL;
}

/* Whether the shrink half of adapters can be made with the n linears behind it; counts them. */
static const char *refuses_shrink(linear_norm *f, size_t at, size_t n) {
    enum { UNIT = 4 }; /* tiles of sixteen ranks */
    size_t tile_cols = ln_weight_tile_cols(LN_LAYOUT_BF16);
    const ln_op *op = &f->p->ops[at];
    const ln_op_lora_shrink *shrink = &op->lora_shrink;
    const char *why = "no linears";
    if (n == 0 || ln_plan_lora_linears(f->p, at, &why) != n)
        return why;
    size_t n_cols = shrink->weights[0]->n_cols;
    if (f->rows != NULL && f->rows != shrink->rows)
        return "adapters are of other rows";
    f->rows = shrink->rows;
    if (op->in[LN_IN_X] == 0 || op->in[LN_IN_X] != op[1].in[LN_IN_X] ||
        (shrink->x_stride != 0 && shrink->x_stride != n_cols))
        return "adapters read something else";
    if (n_cols % (2 * tile_cols) != 0)
        return "adapters of such a width run apart";
    size_t most_runs = ln_cuda_find_adapter_rows(op, shrink->rows, f->p->step)->most_runs;
    size_t n_units = (most_runs * (shrink->low_stride / LN_ADAPTER_TILE) + UNIT - 1) / UNIT;
    size_t n_parts = (n_cols + LN_LINEAR_NORM_PART_COLS - 1) / LN_LINEAR_NORM_PART_COLS;
    f->n_adapted += shrink->n_weights;
    f->n_tiles += shrink->n_weights * n_units * UNIT;
    bool fits = f->n_adapted <= LN_LINEAR_NORM_MAX_ADAPTED &&
                f->n_tiles <= LN_LINEAR_NORM_MAX_ADAPTER_TILES &&
                shrink->n_weights * n_units * UNIT * n_parts <= LN_LINEAR_NORM_MAX_ADAPTER_ITEMS;
    return fits ? NULL : "adapters have too many ranks for a fused kernel";
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

/* Whether the linear of the task before can write its result as the next one's x, or in rows that
 * become it. */
static const char *refuses_gate(const linear_norm *f, const ln_op *gate, const ln_op *ops,
                                size_t cols) {
    const ln_op_linear *p = &gate->linear;
    if (has_row_scales(f->layout) && p->gate == NULL)
        return "only a gate's rows are quantised on the way";
    if (f->tasks[f->n_tasks - 1].n_linears > 1 || gate->out[LN_OUT] == 0 ||
        gate->out[LN_OUT] != ops->in[LN_IN_X])
        return "the linear reads something else";
    bool is_dense = p->out_stride == 0 || p->out_stride == p->weight->n_rows;
    bool fits = p->weight->n_rows == cols && is_dense && ln_plan_is_plain(p);
    return fits ? NULL : "the linear before has more than an activation to do";
}

/* What begins with operation `at`: a norm or not, the shrink half of adapters or not, n linears. */
static ln_cuda_task find_task(const ln_planner *p, size_t at) {
    ln_cuda_task task = {.first = (uint32_t)at};
    task.has_norm = at < p->n_ops && p->ops[at].kind == LN_OP_NORM;
    at += task.has_norm;
    task.has_shrink = at < p->n_ops && p->ops[at].kind == LN_OP_LORA_SHRINK;
    task.n_linears = (uint8_t)ln_plan_linears(p, at + task.has_shrink, false);
    return task;
}

static size_t ops_of(const ln_cuda_task *task) {
    return (size_t)task->has_norm + task->has_shrink + task->n_linears;
}

/* Whether the linears of a task can be taken: counts their adapters, but adds nothing else. */
static const char *refuses_task(linear_norm *f, const ln_cuda_task *task) {
    size_t at = (size_t)task->first + task->has_norm;
    const char *why =
        refuses_linears(f->p, at + task->has_shrink, task->n_linears, task->has_shrink);
    if (why == NULL && f->n_tasks > 0 &&
        f->p->ops[at + task->has_shrink].linear.weight->layout != f->layout)
        why = "weights have another layout than those in front";
    return why == NULL && task->has_shrink ? refuses_shrink(f, at, task->n_linears) : why;
}

static const char *add_task(linear_norm *f, const ln_cuda_task *task) {
    size_t n = task->n_linears;
    const ln_op *behind_norm = &f->p->ops[task->first + task->has_norm];
    const ln_op *ops = behind_norm + task->has_shrink, *producer = behind_norm - 1;
    if (f->n_tasks == LN_LINEAR_NORM_MAX_TASKS)
        return "the kernel's list of linears is full";
    const char *why = refuses_task(f, task);
    if (why != NULL)
        return why;
    ln_converted_act x = ln_act_none(&f->x);
    ln_act_require(ops, false, false, f->p->target->has_sm90a, &x);
    size_t cols = ln_act_cols(&x);
    if (!fits_half(&x) || x.n_rows != f->n_rows || x.stride != cols)
        return "its activations have another shape, or no room";
    why = task->has_norm ? refuses_norm(producer, ops, cols) : refuses_gate(f, producer, ops, cols);
    if (why != NULL)
        return why;
    x.is_behind = !f->x.is_behind;
    f->x = x;
    f->tasks[f->n_tasks++] = *task;
    ln_value value = producer->out[LN_OUT]; /* rows that are quantised are read */
    f->p->plan->places[value].is_left_out =
        (task->has_norm || !has_row_scales(f->layout)) &&
        ln_value_stays_within(&f->p->plan->uses[value], n + task->has_shrink);
    return NULL;
}

size_t ln_plan_linear_norm(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    ln_cuda_task task = find_task(p, at);
    launch->apart = NULL;
    if (task.has_norm || task.n_linears == 0)
        return 0;
    launch->apart = "no fused kernels run here";
    if (p->step->fused_workspace == NULL || !p->target->has_sm90a)
        return 0;
    const ln_op *ops = &p->ops[at + task.has_shrink];
    linear_norm f = {.p = p,
                     .tasks = p->plan->tasks + p->plan->n_tasks,
                     .n_rows = ops->linear.n_rows,
                     .layout = ops->linear.weight->layout,
                     .x = p->x};
    launch->apart = refuses_task(&f, &task);
    if (launch->apart != NULL)
        return 0;
    launch->converts_x = ln_act_require(ops, false, false, true, &f.x);
    launch->x = f.x;
    if (!fits_half(&f.x)) {
        launch->apart = "fewer than 9 rows fuse as decode alone";
        return 0;
    }
    size_t end = at + ops_of(&task);
    f.tasks[f.n_tasks++] = task;
    while (end < p->n_ops && launch->apart == NULL) {
        task = find_task(p, end);
        launch->apart = add_task(&f, &task);
        end += launch->apart == NULL ? ops_of(&task) : 0;
    }
    if (f.n_tasks == 1)
        return 0;
    launch->kind = LN_CUDA_LINEAR_NORM;
    launch->first_task = (uint32_t)p->plan->n_tasks;
    launch->n_tasks = (uint32_t)f.n_tasks;
    p->plan->n_tasks += f.n_tasks;
    return end - at;
}
