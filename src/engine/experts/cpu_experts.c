#include "engine/experts/cpu_experts.h"

#include <string.h>

#include "model/forward.h"
#include "model/load.h"

/* ---- memory ------------------------------------------------------------------------------- */

enum { MAX_EXPERT_OPS = 8 }; /* of a layer */

static size_t width_of(const ln_spec *spec, const ln_moe_spec *moe) {
    return moe->n_latent > 0 ? moe->n_latent : spec->dim;
}

static void grow(size_t *most, size_t n) {
    *most = n > *most ? n : *most;
}

void ln_cpu_experts_lay_out(const ln_spec *spec, const ln_engine_plan *plan, ln_layout *layout,
                            char *memory, ln_expert_rows *rows, ln_expert_cache *cache) {
    size_t width = 0, n_used = 0, n_experts = 0, hidden = 0, gated = 0, out = 0;
    size_t row = plan->budget.max_tokens * sizeof(float), max_ops = 2 + ln_forward_max_ops(spec);
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        if (moe->n_experts == 0)
            continue;
        grow(&width, width_of(spec, moe));
        grow(&n_used, moe->n_used);
        grow(&n_experts, moe->n_experts);
        grow(&hidden, moe->n_used * moe->n_hidden);
        grow(&gated, ln_moe_limits(moe) ? moe->n_used * moe->n_hidden : 0);
        grow(&out, moe->n_used * width_of(spec, moe));
    }
    rows->x = ln_layout_place(layout, memory, width, row);
    rows->experts = ln_layout_place(layout, memory, n_used, row);
    rows->weights = ln_layout_place(layout, memory, n_used, row);
    rows->order = ln_layout_place(layout, memory, n_used, row);
    rows->starts = ln_layout_place(layout, memory, n_experts + 1, sizeof *rows->starts);
    rows->hidden = ln_layout_place(layout, memory, hidden, row);
    rows->gated = ln_layout_place(layout, memory, gated, row);
    rows->out = ln_layout_place(layout, memory, out, row);
    rows->ops = ln_layout_place(layout, memory, MAX_EXPERT_OPS, sizeof *rows->ops);
    rows->uses = ln_layout_place(layout, memory, ln_values_most(max_ops), sizeof *rows->uses);
    ln_expert_cache_lay_out(spec, plan, layout, memory, cache);
}

ln_status ln_cpu_experts_init(ln_cpu_experts *cpu, const linnet_model *model,
                              const ln_engine_plan *plan, ln_weights *weights, ln_error *err) {
    const ln_cpu_experts_plan *own = &plan->cpu_experts;
    ln_backend *backend = own->backend;
    ln_layout layout = {0};
    *cpu = (ln_cpu_experts){.plan = own, .spec = &plan->spec};
    if (own->n_layers == 0)
        return LINNET_OK;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.experts_apart = own->n_layers;
    options.only_experts = true;
    options.expert_slots = own->slots;
    options.progress.before_bytes = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    if (!own->shares_backend)
        LN_TRY(backend->vtable->reserve_scratch(backend, &plan->limits, err));
    LN_TRY(ln_weights_load(model->checkpoint, cpu->spec, &options, backend, &cpu->weights, err));
    cpu->has_weights = true;
    LN_TRY(backend->vtable->reserve(backend, own->row_bytes, "rows of experts", &cpu->memory, err));
    ln_cpu_experts_lay_out(cpu->spec, plan, &layout, cpu->memory, &cpu->rows, &cpu->cache);
    if (own->slots > 0)
        LN_TRY(ln_expert_cache_init(&cpu->cache, model, plan, &cpu->weights, err));
    for (size_t i = 0; i < own->n_layers; i++) {
        const ln_layer_weights *from = &cpu->weights.layers[i];
        ln_layer_weights *to = &weights->layers[i];
        to->experts_gate = from->experts_gate;
        to->experts_up = from->experts_up;
        to->experts_down = from->experts_down;
        to->experts_apart = from->experts_up != NULL;
    }
    return LINNET_OK;
}

void ln_cpu_experts_free(ln_cpu_experts *cpu) {
    const ln_cpu_experts_plan *plan = cpu->plan;
    if (plan == NULL || plan->n_layers == 0)
        return;
    plan->backend->vtable->release(plan->backend, cpu->memory, plan->row_bytes);
    if (cpu->has_weights)
        ln_weights_free(&cpu->weights, plan->backend);
}

size_t ln_cpu_experts_bytes(const ln_cpu_experts *cpu) {
    const ln_cpu_experts_plan *plan = cpu->plan;
    if (plan->n_layers == 0)
        return 0;
    return cpu->weights.memory_bytes + cpu->weights.table_bytes + plan->row_bytes +
           plan->scratch_bytes;
}

/* ---- operations --------------------------------------------------------------------------- */

/* Attention may choose experts, too, by rows in the same memory. */
static bool reads_experts(const ln_layer_weights *w, const ln_op_linear *p) {
    return p->weight == w->experts_up || p->weight == w->experts_gate ||
           p->weight == w->experts_down;
}

/* Whether an operation computes experts that are here. */
static bool is_here(const ln_cpu_experts *cpu, const ln_activations *a, const ln_op *op) {
    if (op->layer < 0 || (size_t)op->layer >= cpu->plan->n_layers ||
        cpu->spec->layers[op->layer].ffn.moe.n_experts == 0)
        return false;
    if (op->kind == LN_OP_LINEAR)
        return op->linear.groups.order == a->expert_order &&
               reads_experts(&cpu->weights.layers[op->layer], &op->linear);
    return op->kind == LN_OP_POINTWISE &&
           (op->pointwise.out == a->expert_out || op->pointwise.out == a->expert_hidden ||
            (op->pointwise.out == a->gated && cpu->weights.zeros != NULL));
}

/* Where the host has rows of the backend; what the experts read first is x. */
static float *on_host(const ln_expert_rows *rows, const ln_activations *a, const float *at) {
    return at == a->expert_hidden    ? rows->hidden
           : at == a->gated          ? rows->gated
           : at == a->expert_out     ? rows->out
           : at == a->expert_weights ? rows->weights
                                     : rows->x;
}

/* The same operation on the host's rows. */
static ln_op moved(const ln_cpu_experts *cpu, const ln_activations *a, const ln_op *op) {
    const ln_expert_rows *rows = &cpu->rows;
    ln_op own = *op;
    if (op->kind == LN_OP_GROUP) {
        own.group.experts = rows->experts;
        own.group.order = rows->order;
        own.group.starts = rows->starts;
    } else if (op->kind == LN_OP_LINEAR) {
        own.linear.groups.order = rows->order;
        own.linear.groups.starts = rows->starts;
        own.linear.x = on_host(rows, a, op->linear.x);
        own.linear.out = on_host(rows, a, op->linear.out);
    } else {
        bool reads_zeros =
            op->pointwise.function == LN_POINTWISE_CLAMPED_SWIGLU && op->pointwise.out == a->gated;
        own.pointwise.x = reads_zeros ? cpu->weights.zeros : on_host(rows, a, op->pointwise.x);
        if (op->pointwise.gate != NULL)
            own.pointwise.gate = on_host(rows, a, op->pointwise.gate);
        own.pointwise.out = on_host(rows, a, op->pointwise.out);
    }
    return own;
}

/* ---- steps -------------------------------------------------------------------------------- */

static ln_status fetch(ln_backend *backend, void *to, const void *from, size_t bytes,
                       ln_error *err) {
    void *host;
    LN_TRY(backend->vtable->read_back(backend, (void *)(uintptr_t)from, bytes, &host, err));
    memcpy(to, host, bytes);
    return LINNET_OK;
}

/* Starts operations, if there are any, and waits for them, also if what ran beside them failed. */
static ln_status start_beside(ln_backend *backend, bool can_start, const ln_op *ops, size_t n_ops,
                              ln_error *err) {
    if (n_ops == 0)
        return LINNET_OK;
    if (!can_start)
        return backend->vtable->run(backend, ops, n_ops, err);
    return backend->vtable->start(backend, ops, n_ops, NULL, 0, err);
}

static ln_status finish_beside(ln_backend *backend, bool can_start, size_t n_ops, ln_status status,
                               ln_error *err) {
    void *host;
    if (n_ops == 0 || !can_start)
        return status;
    ln_status end = backend->vtable->finish(backend, &host, status == LINNET_OK ? err : NULL);
    return status == LINNET_OK ? end : status;
}

/* One layer's experts within a step: the operation that groups rows, and ops[begin .. end). */
typedef struct layer_experts {
    size_t group, begin, end;
} layer_experts;

/* Whoever is told of the kernels knows that parts make one step. */
static void tell_part(const ln_backend *backend) {
    if (backend->explainer != NULL)
        backend->explainer->is_done = false;
}

/* Brings what the experts read, and computes them while the backend runs `beside` [n_beside]. */
static ln_status compute(ln_cpu_experts *cpu, ln_backend *backend, const ln_activations *a,
                         const ln_op *ops, const layer_experts *at, size_t n_beside,
                         ln_error *err) {
    size_t begin = at->begin, end = at->end;
    const ln_expert_rows *rows = &cpu->rows;
    const ln_op *first = &ops[begin];
    const ln_moe_spec *moe = &cpu->spec->layers[first->layer].ffn.moe;
    ln_backend *own = cpu->plan->backend;
    size_t n_tokens = first->batch->n_tokens, n_rows = n_tokens * moe->n_used;
    size_t row_bytes = width_of(cpu->spec, moe) * sizeof(float), n_ops = 0;
    const float *x = first->kind == LN_OP_LINEAR ? first->linear.x : first->pointwise.x;
    LN_BUG_ON(end - begin + 1 > MAX_EXPERT_OPS);
    LN_TRY(fetch(backend, rows->x, x, n_tokens * row_bytes, err));
    LN_TRY(fetch(backend, rows->experts, a->experts, n_rows * sizeof *a->experts, err));
    if (moe->scale_inputs)
        LN_TRY(fetch(backend, rows->weights, a->expert_weights, n_rows * sizeof *a->expert_weights,
                     err));
    rows->ops[n_ops++] = moved(cpu, a, &ops[at->group]);
    for (size_t i = begin; i < end; i++)
        rows->ops[n_ops++] = moved(cpu, a, &ops[i]);
    own->profile = backend->profile;
    own->explainer = backend->explainer;
    bool can_start = backend->vtable->start != NULL && own != backend;
    LN_TRY(start_beside(backend, can_start, &ops[begin - n_beside], n_beside, err));
    tell_part(backend);
    ln_status status = cpu->plan->slots > 0
                           ? ln_expert_cache_run(&cpu->cache, rows->ops, n_ops, err)
                           : own->vtable->run(own, rows->ops, n_ops, err);
    LN_TRY(finish_beside(backend, can_start, n_beside, status, err));
    backend->vtable->upload(backend, a->expert_out, rows->out, n_rows * row_bytes);
    return LINNET_OK;
}

/* How many operations right before the experts neither make what these read nor group them: the
 * backend runs them meanwhile. */
static size_t count_beside(const ln_op *ops, const layer_experts *at) {
    ln_value x = ops[at->begin].in[LN_IN_X];
    for (size_t i = at->group + 1; i < at->begin; i++)
        if (ops[i].out[LN_OUT] == x)
            return 0;
    return at->begin - at->group - 1;
}

ln_status ln_cpu_experts_run(ln_cpu_experts *cpu, ln_backend *backend,
                             const ln_activations *activations, ln_op *ops, size_t n_ops,
                             size_t *n_done, ln_error *err) {
    *n_done = 0;
    if (cpu->plan->n_layers == 0)
        return LINNET_OK;
    ln_values_find_uses(ops, n_ops, cpu->rows.uses, ln_values_count(ops, n_ops));
    for (size_t begin = 0; begin < n_ops; begin++) {
        size_t end = begin;
        while (end < n_ops && is_here(cpu, activations, &ops[end]))
            end++;
        if (end == begin)
            continue;
        layer_experts at = {begin - 1, begin, end};
        while (ops[at.group].kind != LN_OP_GROUP)
            at.group--;
        size_t n_beside = count_beside(ops, &at);
        size_t n_before = at.group + 1 + n_beside == begin ? at.group : begin;
        ln_values_keep(ops, *n_done, n_before, cpu->rows.uses);
        ln_values_keep(ops, begin - n_beside, begin, cpu->rows.uses);
        LN_TRY(backend->vtable->run(backend, ops + *n_done, n_before - *n_done, err));
        tell_part(backend);
        LN_TRY(compute(cpu, backend, activations, ops, &at, n_beside, err));
        tell_part(backend);
        *n_done = begin = end;
    }
    return LINNET_OK;
}
