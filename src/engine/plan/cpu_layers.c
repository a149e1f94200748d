#include "engine/plan/cpu_layers.h"

#include "base/checked.h"
#include "engine/engine.h"

enum {
    MARGIN_BYTES = 256 << 20, /* of a GPU's memory: kernels, graphs and streams */
    SPLIT_CTX = 4096          /* tokens of a context that nobody chose */
};

/* ---- the plan ----------------------------------------------------------------------------- */

ln_status ln_front_plan_rest(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_front_plan *front = &plan->front;
    size_t total = 0, row_bytes = plan->budget.max_tokens * spec->dim * sizeof(float);
    plan->bytes[LN_ARENA_FRONT] = 0;
    if (front->n_layers == 0)
        return LINNET_OK;
    LN_TRY(ln_activations_plan(spec, plan->budget.max_tokens, 0, &front->activation_bytes, err));
    if (row_bytes > plan->limits.max_read_bytes) /* x goes through the same buffer */
        plan->limits.max_read_bytes = row_bytes;
    front->scratch_bytes = front->backend->vtable->plan_scratch(front->backend, &plan->limits);
    const size_t parts[] = {front->weight_bytes, front->table_bytes, front->kv_bytes,
                            front->activation_bytes, front->scratch_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!ln_add(total, parts[i], &total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the first layers overflows");
    plan->bytes[LN_ARENA_FRONT] = total;
    return LINNET_OK;
}

/* Sizes everything for n_front layers on the CPU. */
static ln_status size_split(const linnet_model *model, const ln_backend *backend, size_t n_front,
                            ln_engine_plan *plan, ln_error *err) {
    ln_front_plan *front = &plan->front;
    ln_weights_plan weights;
    front->n_layers = n_front;
    LN_TRY(ln_engine_size_weights(model, backend, plan, err));
    ln_weights_options options = ln_engine_weights_options(plan);
    options.first_layer = 0;
    options.end_layer = n_front;
    LN_TRY(ln_weights_plan_bytes(model->checkpoint, &model->spec, &options, front->backend,
                                 &weights, err));
    front->weight_bytes = weights.prepared_bytes;
    front->table_bytes = weights.table_bytes;
    front->mapped_bytes = weights.mapped_bytes;
    return ln_engine_size_arenas(&model->spec, backend, plan, err);
}

static bool fits(const ln_backend *backend, const ln_engine_plan *plan) {
    size_t available = backend->vtable->available_bytes(backend), wanted;
    return ln_add(ln_engine_device_bytes(plan, plan->bytes), MARGIN_BYTES, &wanted) &&
           wanted <= available;
}

/* The most layers that fit the device; the others must fit the CPU's memory. */
static ln_status choose_split(const linnet_model *model, const ln_backend *backend,
                              ln_engine_plan *plan, ln_error *err) {
    size_t n_layers = model->spec.n_layers, low = 1, high = n_layers; /* of n_front */
    size_t free_mib = backend->vtable->available_bytes(backend) >> 20;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        LN_TRY(size_split(model, backend, middle, plan, err));
        if (fits(backend, plan))
            high = middle;
        else
            low = middle + 1;
    }
    if (low >= n_layers)
        return ln_fail(err, LINNET_ERR_NOMEM,
                       "not one of the %zu layers fits the %zu MiB that are free on the GPU, with "
                       "the output and a context of %zu tokens",
                       n_layers, free_mib, plan->ctx_tokens);
    LN_TRY(size_split(model, backend, low, plan, err));
    size_t available = plan->front.backend->vtable->available_bytes(plan->front.backend);
    if (plan->bytes[LN_ARENA_FRONT] > available)
        return ln_fail(err, LINNET_ERR_NOMEM,
                       "%zu of %zu layers fit the %zu MiB that are free on the GPU; the others "
                       "need %zu MiB of the CPU's memory, where %zu are free",
                       n_layers - low, n_layers, free_mib, plan->bytes[LN_ARENA_FRONT] >> 20,
                       available >> 20);
    return LINNET_OK;
}

ln_status ln_front_plan_make(const linnet_model *model, const linnet_engine_options *options,
                             const ln_backend *backend, const ln_backend_options *backend_options,
                             ln_engine_plan *plan, ln_error *err) {
    const ln_spec *spec = &model->spec;
    bool is_auto = options->gpu_layers < 0;
    size_t n_asked = is_auto ? 0 : (size_t)options->gpu_layers;
    if (n_asked >= spec->n_layers || (is_auto && (!plan->on_device || fits(backend, plan))) ||
        (!is_auto && n_asked == 0))
        return LINNET_OK;
    if (spec->n_encoder_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s has an encoder: all of its layers run on one backend, which needs %zu "
                       "MiB here; gpu_layers 0 makes it the CPU",
                       ln_checkpoint_path(model->checkpoint),
                       ln_engine_device_bytes(plan, plan->bytes) >> 20);
    LN_TRY(ln_backend_create("cpu", backend_options, &plan->front.backend, err));
    if (!is_auto)
        return size_split(model, backend, spec->n_layers - n_asked, plan, err);
    if (options->ctx_tokens == 0 && plan->ctx_tokens < SPLIT_CTX) {
        size_t most = spec->max_ctx_tokens > 0 && spec->max_ctx_tokens < spec->ctx_tokens
                          ? spec->max_ctx_tokens
                          : spec->ctx_tokens;
        plan->ctx_tokens = most < SPLIT_CTX ? most : SPLIT_CTX;
        ln_engine_choose_budget(options, plan);
    }
    return choose_split(model, backend, plan, err);
}

/* ---- memory ------------------------------------------------------------------------------- */

ln_status ln_front_init(ln_front *front, const linnet_model *model, const ln_engine_plan *plan,
                        ln_kv_layer *kv_layers, ln_error *err) {
    const ln_front_plan *own = &plan->front;
    const ln_spec *spec = &model->spec;
    ln_backend *backend = own->backend;
    ln_layout kv = {0};
    *front = (ln_front){.plan = own};
    if (own->n_layers == 0)
        return LINNET_OK;
    ln_weights_options options = ln_engine_weights_options(plan);
    options.first_layer = 0;
    options.end_layer = own->n_layers;
    options.progress.before_bytes = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    LN_TRY(backend->vtable->reserve_scratch(backend, &plan->limits, err));
    LN_TRY(ln_weights_load(model->checkpoint, spec, &options, backend, &front->weights, err));
    front->has_weights = true;
    LN_TRY(backend->vtable->reserve(backend, own->kv_bytes, "KV cache of the first layers",
                                    &front->kv, err));
    LN_TRY(backend->vtable->reserve(backend, own->activation_bytes,
                                    "activations of the first layers", &front->activation_memory,
                                    err));
    ln_engine_lay_out_kv(spec, plan, (ln_kv_range){0, own->n_layers}, plan->kv_shape.n_blocks, &kv,
                         kv_layers, front->kv);
    ln_activations_bind(spec, plan->budget.max_tokens, 0, front->activation_memory,
                        &front->activations);
    return LINNET_OK;
}

void ln_front_free(ln_front *front) {
    const ln_front_plan *plan = front->plan;
    if (plan == NULL || plan->n_layers == 0)
        return;
    ln_backend *backend = plan->backend;
    backend->vtable->release(backend, front->activation_memory, plan->activation_bytes);
    backend->vtable->release(backend, front->kv, plan->kv_bytes);
    if (front->has_weights)
        ln_weights_free(&front->weights, backend);
}

size_t ln_front_bytes(const ln_front *front) {
    const ln_front_plan *plan = front->plan;
    if (plan->n_layers == 0)
        return 0;
    return front->weights.memory_bytes + front->weights.table_bytes + plan->kv_bytes +
           plan->activation_bytes + plan->scratch_bytes;
}

/* ---- steps -------------------------------------------------------------------------------- */

ln_status ln_front_run(linnet_engine *engine, ln_op *ops, ln_error *err) {
    const ln_front *front = &engine->front;
    const ln_spec *spec = &engine->model->spec;
    ln_backend *own = front->plan->backend, *next = engine->backend;
    const ln_kv_range layers = {0, front->plan->n_layers};
    size_t n_ops = 0, n_copies = engine->cache.n_copies;
    size_t x_bytes = engine->step.batch.n_tokens * spec->dim * sizeof(float);
    void *x;
    if (layers.end == 0)
        return LINNET_OK;
    if (n_copies > 0)
        ops[n_ops++] = ln_engine_copy_op(engine, layers, engine->cache.copies, n_copies);
    n_ops += ln_forward_record(spec, &front->weights, &front->activations, engine->kv_layers,
                               &engine->step.batch, ops + n_ops);
    LN_TRY(own->vtable->run(own, ops, n_ops, err));
    LN_TRY(own->vtable->read_back(own, front->activations.x, x_bytes, &x, err));
    next->vtable->upload(next, engine->activations.x, x, x_bytes);
    return LINNET_OK;
}
