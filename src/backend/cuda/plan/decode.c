/* The longest run of norms, linears, attentions and mixtures of experts that fused/decode.cu takes
 * as one kernel, and what its blocks hand to each other.
 *
 * Blocks pass results to each other one by one, without barriers between tasks: a task finds what
 * earlier tasks made in the kernel's hand-off memory. So blocks may be tasks apart, and a block
 * that is behind must not find its inputs overwritten:
 *
 *   - Inputs from before the kernel: a block that reads them in a task also makes results of that
 *     task, and all others wait for these results sooner or later.
 *   - Results: one goes to its own memory as well only if an operation outside of the kernel reads
 *     it and no later task writes to the same memory.
 *   - No task writes what other blocks still read in it. */
#include "backend/cuda/attention/select.h"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/plan/planner.h"

/* Rows that a task writes. */
typedef struct result {
    ln_value value;
    const float *at;
    size_t n_cols, stride;
} result;

typedef struct decode {
    const ln_planner *p;
    ln_cuda_task *tasks;
    size_t n_tasks, n_linears, n_attentions, n_mixtures, n_rows;
    int kind; /* of weight tiles */
    size_t head_dim, work_bytes, n_handoff_floats;
    size_t n_results;
    result results[LN_DECODE_MAX_LINEARS * (LN_GEMM_MAX_PARTS + 1) + LN_DECODE_MAX_ATTENTIONS];
} decode;

/* Work memory for another task. */
static const char *make_room(decode *d, size_t bytes) {
    if (d->n_tasks == LN_DECODE_MAX_TASKS)
        return "the kernel's list of tasks is full";
    if (ln_decode_stages_beside(d->kind, bytes) < LN_DECODE_MIN_STAGES)
        return "shared memory has no room for so many columns";
    d->work_bytes = bytes > d->work_bytes ? bytes : d->work_bytes;
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const result *find(const decode *d, ln_value value) {
    for (size_t i = d->n_results; i-- > 0;)
        if (d->results[i].value == value)
            return &d->results[i];
    return NULL;
}

/* Floats of hand-off memory, whole vectors of 4. Nothing lies behind the last row. */
static size_t handoff_floats(const decode *d, const result *r) {
    return ((d->n_rows - 1) * r->stride + r->n_cols + 3) / 4 * 4;
}

/* Whether rows that lie like those of a result are meant; a row alone has no stride. */
static bool has_stride(const decode *d, const result *r, size_t stride) {
    return d->n_rows == 1 || r->stride == stride;
}

/* What reading a value takes of it: nothing more if another task reads it, too. */
static size_t floats_to_read(const decode *d, ln_value value) {
    const result *r = find(d, value);
    return r == NULL || d->p->plan->places[value].is_handed_off ? 0 : handoff_floats(d, r);
}

/* Whether a task can read a value: from the hand-off, if a task made it, else from its memory. */
static bool can_read(const decode *d, ln_value value, size_t n_cols, size_t stride) {
    enum { MOST_READ = 3 }; /* values of one task */
    const result *r = find(d, value);
    if (value == 0 || r == NULL)
        return value != 0;
    return n_cols <= r->n_cols && (uintptr_t)r->at % 16 == 0 && has_stride(d, r, stride) &&
           d->n_handoff_floats + MOST_READ * floats_to_read(d, value) <= LN_DECODE_HANDOFF_FLOATS;
}

static void read_value(decode *d, ln_value value) {
    const result *r = find(d, value);
    ln_cuda_place *place = &d->p->plan->places[value];
    if (r == NULL || place->is_handed_off)
        return;
    place->is_handed_off = true;
    place->handoff = (uint32_t)d->n_handoff_floats;
    d->n_handoff_floats += handoff_floats(d, r);
}

/* Whether rows can be written: others that tasks write there are the same, or none. */
static bool can_write(const decode *d, ln_value value, const float *at, size_t n_cols,
                      size_t stride) {
    uintptr_t begin = (uintptr_t)at, end = (uintptr_t)(at + (d->n_rows - 1) * stride + n_cols);
    for (size_t i = 0; i < d->n_results; i++) {
        const result *r = &d->results[i];
        uintptr_t r_end = (uintptr_t)(r->at + (d->n_rows - 1) * r->stride + r->n_cols);
        bool is_same = r->at == at && r->n_cols == n_cols && has_stride(d, r, stride);
        if (!is_same && begin < r_end && (uintptr_t)r->at < end)
            return false;
    }
    return value != 0;
}

/* Notes rows that a task writes; earlier ones need not write others there any more. */
static void write_value(decode *d, ln_value value, const float *at, size_t n_cols, size_t stride) {
    for (size_t i = 0; i < d->n_results; i++)
        if (d->results[i].at == at)
            d->p->plan->places[d->results[i].value].is_left_out = true;
    d->results[d->n_results++] = (result){value, at, n_cols, stride};
}

/* ---- linears --------------------------------------------------------------------------------- */

static size_t out_stride(const ln_op_linear *p) {
    return p->out_stride > 0 ? p->out_stride : p->weight->n_rows;
}

/* Whether the blocks that multiply the norm's result can make it. */
static const char *refuses_norm(const ln_op *norm, const ln_op *ops, size_t n_ops) {
    const ln_op_norm *p = &norm->norm;
    const ln_op_linear *linear = &ops->linear;
    size_t dim = p->norm->dim;
    size_t stride = linear->x_stride > 0 ? linear->x_stride : linear->weight->n_cols;
    if (norm->out[LN_OUT] == 0 || ops->in[LN_IN_X] != norm->out[LN_OUT])
        return "linears behind the norm read something else";
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].in[LN_IN_RESIDUAL] == norm->out[LN_OUT] || ops[i].linear.out == p->x ||
            ops[i].linear.out == p->out) /* blocks are not done with these when others write */
            return "a linear writes over what the norm reads, or adds its result";
    if (p->out == p->x || p->residual != NULL)
        return "the norm has a residual, or is in place";
    bool fits = p->n_rows == linear->n_rows && linear->weight->n_cols == dim && stride == dim &&
                ln_weight_tile_padded_cols((int)linear->weight->layout, dim) == dim;
    return fits && ln_plan_norm_converts(p) ? NULL : "the norm's width is no multiple of a tile's";
}

static const char *refuses_kind(const decode *d, const ln_op_linear *p) {
    int kind = ln_decode_kind((int)p->weight->layout);
    if (p->n_rows > LN_DECODE_MAX_ROWS)
        return "more than 4 rows have no fused decode kernel";
    if (p->rows_per_x > 1)
        return "rows of x are read more than once";
    if (d->n_tasks > 0 && p->n_rows != d->n_rows)
        return "the number of rows changes";
    if (d->n_linears > 0 && kind != d->kind)
        return "weights of another kind follow";
    size_t most = d->n_mixtures > 0 ? LN_DECODE_MIXED_MAX_LINEARS : LN_DECODE_MAX_LINEARS;
    return d->n_linears >= most ? "the kernel's list of linears is full" : NULL;
}

static const char *pass_linears(decode *d, const ln_op *norm, const ln_op *ops, size_t n_ops) {
    const ln_op_linear *p = &ops->linear;
    size_t n_cols = p->weight->n_cols, stride = p->x_stride > 0 ? p->x_stride : n_cols;
    ln_value x = norm != NULL ? norm->in[LN_IN_X] : ops->in[LN_IN_X];
    ln_value residual = ops->in[LN_IN_RESIDUAL];
    bool fits =
        can_read(d, x, n_cols, stride) &&
        (p->residual == NULL || can_read(d, residual, p->weight->n_rows, p->weight->n_rows)) &&
        (norm == NULL || can_write(d, norm->out[LN_OUT], norm->norm.out, n_cols, n_cols));
    for (size_t i = 0; i < n_ops; i++) {
        const ln_op_linear *q = &ops[i].linear;
        fits = fits && can_write(d, ops[i].out[LN_OUT], q->out, q->weight->n_rows, out_stride(q));
    }
    if (!fits)
        return "its activations share memory, or are not aligned";
    read_value(d, x);
    if (p->residual != NULL)
        read_value(d, residual);
    if (norm != NULL)
        write_value(d, norm->out[LN_OUT], norm->norm.out, n_cols, n_cols);
    for (size_t i = 0; i < n_ops; i++) {
        const ln_op_linear *q = &ops[i].linear;
        write_value(d, ops[i].out[LN_OUT], q->out, q->weight->n_rows, out_stride(q));
    }
    return NULL;
}

/* Adds n linears from `at` on, behind the norm in front of them or not. */
static const char *add_linears(decode *d, bool has_norm, size_t at, size_t n) {
    const ln_op *ops = &d->p->ops[at], *norm = has_norm ? ops - 1 : NULL;
    const ln_op_linear *p = &ops->linear;
    const char *why = ln_plan_any_lora(ops, n) ? "rows have adapters" : refuses_kind(d, p);
    if (why == NULL && norm != NULL)
        why = refuses_norm(norm, ops, n);
    if (why != NULL)
        return why;
    size_t n_cols = p->weight->n_cols, stride = p->x_stride > 0 ? p->x_stride : n_cols;
    const float *x = norm != NULL ? norm->norm.x : p->x;
    if (n_cols % 4 != 0 || stride % 4 != 0 || (uintptr_t)x % 16 != 0)
        return "its activations are not aligned";
    d->kind = ln_decode_kind((int)p->weight->layout);
    d->n_rows = p->n_rows;
    bool precise = ln_plan_any_precise(ops, n) && p->weight->layout == LN_LAYOUT_BF16;
    size_t sums_bytes = ln_decode_sums_floats(p->n_rows, p->gate != NULL) * sizeof(float);
    why = make_room(d, sums_bytes + ln_decode_act_bytes(d->kind, p->n_rows, n_cols, precise));
    if (why == NULL)
        why = pass_linears(d, norm, ops, n);
    if (why != NULL)
        return why;
    d->tasks[d->n_tasks++] = (ln_cuda_task){
        .first = (uint32_t)(at - has_norm), .n_linears = (uint8_t)n, .has_norm = has_norm};
    d->n_linears++;
    return NULL;
}

/* ---- attention ------------------------------------------------------------------------------- */

static const char *refuses_attention(const decode *d, const ln_op *qkv, const ln_op *attention) {
    const ln_op_attention *p = &attention->attention;
    const ln_cuda_step *step = d->p->step;
    const ln_kv_layer *kv = p->kv;
    if (step->least_tokens != 1 || step->most_tokens != 1 || step->batch.n_tokens != d->n_rows)
        return "sequences have more tokens than one";
    if (step->shares_new)
        return "sequences read what others write in this step";
    size_t most = d->n_mixtures > 0 ? LN_DECODE_MIXED_MAX_ATTENTIONS : LN_DECODE_MAX_ATTENTIONS;
    if (d->n_attentions >= most)
        return "the kernel's list of attentions is full";
    if (d->n_tasks == 0 || qkv->qkv.kv != kv || attention->in[LN_IN_Q] == 0 ||
        attention->in[LN_IN_Q] != qkv->out[LN_OUT_Q] || p->sees_all ||
        qkv->qkv.n_heads != p->n_heads)
        return "attention does not read what was made before";
    if (ln_qkv_takes_more(&qkv->qkv) || (qkv->qkv.rope != NULL && qkv->qkv.rope->last))
        return "heads take more than a norm and a rotation";
    if (qkv->qkv.qk_norm == LN_QK_NORM_FULL)
        return "q and k are normalised as whole rows";
    if (kv->dtype != LN_KV_F16)
        return "the cache is not f16";
    if ((kv->k_dim != 64 && kv->k_dim != 128) || (d->n_attentions > 0 && kv->k_dim != d->head_dim))
        return "heads are not of 64 or 128 columns";
    return ln_takes_mma_attention(p, step) ? NULL : "attention runs without tensor cores";
}

static const char *add_attention(decode *d, size_t at) {
    const ln_op *qkv = &d->p->ops[at], *attention = qkv + 1;
    const ln_op_attention *p = &attention->attention;
    const ln_kv_layer *kv = p->kv;
    const char *why = refuses_attention(d, qkv, attention);
    if (why != NULL)
        return why;
    ln_attention_split split = ln_attention_find_split(kv, p->n_heads, d->p->step);
    if (!split.uses_split_kv || split.heads_per_kv > LN_DECODE_MAX_HEADS)
        return "too many heads share K and V";
    if (d->n_rows * kv->n_heads * split.n_splits > LN_DECODE_MAX_SPLITS)
        return "the cache is long, which a kernel of its own reads faster";
    why = make_room(d, ln_decode_attention_work_bytes(kv->k_dim, split.heads_per_kv));
    if (why != NULL)
        return why;
    size_t q_cols = p->n_heads * kv->k_dim, kv_cols = kv->n_heads * kv->k_dim;
    const ln_value *in = qkv->in;
    bool fits = find(d, in[LN_IN_Q]) != NULL && find(d, in[LN_IN_K]) != NULL &&
                find(d, in[LN_IN_V]) != NULL && can_read(d, in[LN_IN_Q], q_cols, q_cols) &&
                can_read(d, in[LN_IN_K], kv_cols, kv_cols) &&
                can_read(d, in[LN_IN_V], kv_cols, kv_cols) &&
                can_write(d, attention->out[LN_OUT], p->out, q_cols, q_cols);
    if (!fits)
        return "q, k and v are not made by this kernel";
    read_value(d, in[LN_IN_Q]);
    read_value(d, in[LN_IN_K]);
    read_value(d, in[LN_IN_V]);
    write_value(d, attention->out[LN_OUT], p->out, q_cols, q_cols);
    d->head_dim = kv->k_dim;
    d->tasks[d->n_tasks++] = (ln_cuda_task){.first = (uint32_t)at};
    d->n_attentions++;
    return NULL;
}

/* ---- mixtures -------------------------------------------------------------------------------- */

/* A mixture as a task: a norm or NULL, the shared expert's gate or NULL, the router, and then the
 * operations from the route on, which end with the sum. */
typedef struct mixture {
    const ln_op *norm, *gate, *router, *route, *up, *sum;
    size_t n_routers;
} mixture;

/* Whether there is one at operation `at`, as models record it. */
static bool find_mixture(const ln_planner *p, size_t at, mixture *m) {
    const ln_op *op = &p->ops[at];
    const size_t n_ops = p->n_ops - at;
    const bool has_norm = op->kind == LN_OP_NORM;
    size_t n = has_norm;
    while (n < n_ops && n < (size_t)has_norm + 2 && ln_plan_is_untiled(&op[n]))
        n++;
    if (n == has_norm || n + LN_MIXTURE_OPS > n_ops || op[n].kind != LN_OP_ROUTE)
        return false;
    const ln_op *route = &op[n];
    *m = (mixture){.norm = has_norm ? op : NULL,
                   .gate = n == (size_t)has_norm + 2 ? route - 2 : NULL,
                   .router = route - 1,
                   .route = route,
                   .up = &route[LN_MIXTURE_UP],
                   .sum = &route[LN_MIXTURE_COMBINE],
                   .n_routers = n - has_norm};
    return true;
}

/* A linear of the router's kind, which reads what the experts read. */
static bool is_router(const ln_op *op, const ln_op *up) {
    const ln_op_linear *p = &op->linear;
    return p->n_rows == 1 && p->residual == NULL &&
           p->weight->n_cols == up->linear.weight->n_cols && p->weight->n_cols % 8 == 0 &&
           op->in[LN_IN_X] != 0 && op->in[LN_IN_X] == up->in[LN_IN_X];
}

/* Whether the router's blocks can make its norm, whose result the sum must not add: others write
 * it meanwhile. */
static bool takes_norm(const mixture *m) {
    const ln_op_norm *p = &m->norm->norm;
    const ln_weight *up = m->up->linear.weight;
    const ln_value normed = m->norm->out[LN_OUT];
    size_t dim = p->norm->dim;
    return normed == m->up->in[LN_IN_X] && m->sum->in[LN_IN_SHARED] != normed &&
           m->sum->in[LN_IN_COMBINE_RESIDUAL] != normed && p->out != p->x && p->residual == NULL &&
           p->n_rows == 1 && up->n_cols == dim &&
           ln_weight_tile_padded_cols((int)up->layout, dim) == dim && ln_plan_norm_converts(p);
}

static const char *refuses_mixture(const decode *d, const mixture *m, size_t at) {
    const ln_op_linear *up = &m->up->linear;
    const ln_op_combine *sum = &m->sum->combine;
    const char *why = ln_plan_refuses_mixture(d->p, at);
    if (why != NULL)
        return why;
    if (d->n_tasks == 0)
        return "a router begins no fused kernel";
    if (d->n_rows != 1 || d->kind != ln_decode_kind((int)up->weight->layout))
        return "experts are of another kind than the linears in front";
    if (d->n_mixtures == LN_DECODE_MAX_MIXTURES || d->n_linears > LN_DECODE_MIXED_MAX_LINEARS ||
        d->n_attentions > LN_DECODE_MIXED_MAX_ATTENTIONS)
        return "the kernel's list of mixtures is full";
    if (!is_router(m->router, m->up) || (m->gate != NULL && !is_router(m->gate, m->up)) ||
        m->router->linear.weight->n_rows != m->route->route.n_experts ||
        m->route->in[LN_IN_X] != m->router->out[LN_OUT])
        return "the router reads something else than the experts";
    if ((sum->shared_gate != NULL) != (m->gate != NULL) ||
        (m->gate != NULL && (m->gate->linear.weight->n_rows != 1 || sum->shared == NULL ||
                             m->sum->in[LN_IN_SHARED_GATE] != m->gate->out[LN_OUT])))
        return "the shared expert's gate is not right in front of the router";
    if (m->norm != NULL && !takes_norm(m))
        return "the norm's width is no multiple of a tile's";
    return NULL;
}

/* Whether the hand-off has room for all that a mixture reads: values from before it, and what its
 * router, the shared expert's gate and its experts make. */
static bool has_room_for_mixture(const decode *d, const mixture *m, ln_value x) {
    const ln_op_linear *up = &m->up->linear;
    const result gate = {.n_cols = 1}, logits = {.n_cols = m->router->linear.weight->n_rows},
                 hidden = {.n_cols = up->n_rows * up->weight->n_rows};
    size_t n_read = floats_to_read(d, x) + floats_to_read(d, m->sum->in[LN_IN_COMBINE_RESIDUAL]) +
                    floats_to_read(d, m->sum->in[LN_IN_SHARED]);
    size_t n_made =
        handoff_floats(d, &gate) + handoff_floats(d, &logits) + handoff_floats(d, &hidden);
    return d->n_handoff_floats + n_read + n_made <= LN_DECODE_HANDOFF_FLOATS;
}

/* x, or what its norm reads, must be made by this kernel: blocks without output tiles read it, too,
 * and nobody waits for these. What is left of the choice (ln_mixture_store_choice) needs no
 * can_write: activations have memory of their own each (model/activations.c), so only choices lie
 * there, and one block stores all of them in order. */
static const char *pass_mixture(decode *d, const mixture *m) {
    const ln_op_linear *up = &m->up->linear, *router = &m->router->linear;
    const ln_op_combine *sum = &m->sum->combine;
    const size_t n_cols = up->weight->n_cols, n_hidden = up->n_rows * up->weight->n_rows;
    const ln_value x = m->norm != NULL ? m->norm->in[LN_IN_X] : m->up->in[LN_IN_X];
    const ln_value residual = m->sum->in[LN_IN_COMBINE_RESIDUAL], shared = m->sum->in[LN_IN_SHARED];
    bool fits =
        find(d, x) != NULL && can_read(d, x, n_cols, n_cols) && has_room_for_mixture(d, m, x) &&
        (sum->residual == NULL || can_read(d, residual, sum->dim, sum->dim)) &&
        (sum->shared == NULL || can_read(d, shared, sum->dim, sum->dim)) &&
        (m->norm == NULL ||
         can_write(d, m->norm->out[LN_OUT], m->norm->norm.out, n_cols, n_cols)) &&
        can_write(d, m->router->out[LN_OUT], router->out, router->weight->n_rows,
                  router->weight->n_rows) &&
        (m->gate == NULL || can_write(d, m->gate->out[LN_OUT], m->gate->linear.out, 1, 1)) &&
        can_write(d, m->up->out[LN_OUT], up->out, n_hidden, n_hidden) &&
        can_write(d, m->sum->out[LN_OUT], sum->out, sum->dim, sum->dim);
    if (!fits)
        return "its activations share memory, or are not made by this kernel";
    read_value(d, x);
    if (sum->residual != NULL)
        read_value(d, residual);
    if (sum->shared != NULL)
        read_value(d, shared);
    if (m->norm != NULL)
        write_value(d, m->norm->out[LN_OUT], m->norm->norm.out, n_cols, n_cols);
    if (m->gate != NULL) {
        write_value(d, m->gate->out[LN_OUT], m->gate->linear.out, 1, 1);
        read_value(d, m->gate->out[LN_OUT]);
    }
    write_value(d, m->router->out[LN_OUT], router->out, router->weight->n_rows,
                router->weight->n_rows);
    read_value(d, m->router->out[LN_OUT]);
    write_value(d, m->up->out[LN_OUT], up->out, n_hidden, n_hidden);
    read_value(d, m->up->out[LN_OUT]);
    write_value(d, m->sum->out[LN_OUT], sum->out, sum->dim, sum->dim);
    return NULL;
}

/* Adds a mixture at operation `at`, a task whose linears have no weight tiles, if there is one; *n:
 * how many operations that is. */
static const char *add_mixture(decode *d, size_t at, size_t *n) {
    const ln_planner *p = d->p;
    mixture m;
    if (!find_mixture(p, at, &m))
        return "no kernel fuses this operation";
    const size_t route = (size_t)(m.route - p->ops);
    const char *why = refuses_mixture(d, &m, route);
    if (why == NULL)
        why = make_room(d, ln_plan_mixture_work_bytes(m.route, true));
    if (why == NULL)
        why = pass_mixture(d, &m);
    if (why != NULL)
        return why;
    *n = route + LN_MIXTURE_OPS - at;
    d->tasks[d->n_tasks++] = (ln_cuda_task){
        .first = (uint32_t)at, .n_linears = (uint8_t)m.n_routers, .has_norm = m.norm != NULL};
    d->n_mixtures++;
    return NULL;
}

/* ---- the longest run ------------------------------------------------------------------------- */

/* Adds what comes at operation `at`; *n: how many operations that is. */
static const char *add_next(decode *d, size_t at, size_t *n) {
    const ln_planner *p = d->p;
    const ln_op *op = &p->ops[at];
    if (op->kind == LN_OP_QKV && at + 1 < p->n_ops && op[1].kind == LN_OP_ATTENTION) {
        *n = 2;
        return add_attention(d, at);
    }
    bool has_norm = op->kind == LN_OP_NORM;
    size_t n_linears = ln_plan_linears(p, at + has_norm, true);
    *n = n_linears + has_norm;
    if (n_linears == 0)
        return add_mixture(d, at, n);
    return add_linears(d, has_norm, at + has_norm, n_linears);
}

size_t ln_plan_decode(ln_planner *p, size_t at, ln_cuda_launch *launch) {
    const ln_op *op = &p->ops[at];
    launch->apart = NULL;
    if (op->kind != LN_OP_NORM && op->kind != LN_OP_LINEAR)
        return 0;
    launch->apart = "no fused kernels run here";
    if (p->step->fused_workspace == NULL || !p->target->has_sm90a)
        return 0;
    decode d = {.p = p, .tasks = p->plan->tasks + p->plan->n_tasks};
    size_t end = at;
    launch->apart = NULL;
    while (end < p->n_ops && launch->apart == NULL) {
        size_t n;
        launch->apart = add_next(&d, end, &n);
        end += launch->apart == NULL ? n : 0;
    }
    if (end == at)
        return 0;
    for (size_t i = 0; i < d.n_results; i++) { /* what nobody else reads */
        const ln_value_uses *uses = &p->plan->uses[d.results[i].value];
        p->plan->places[d.results[i].value].is_left_out |=
            uses->n_reads > 0 && uses->last_reader < end;
    }
    launch->kind = LN_CUDA_FUSED_DECODE;
    launch->first_task = (uint32_t)p->plan->n_tasks;
    launch->n_tasks = (uint32_t)d.n_tasks;
    launch->work_bytes = d.work_bytes;
    launch->n_handoff_floats = d.n_handoff_floats;
    p->plan->n_tasks += d.n_tasks;
    return end - at;
}
