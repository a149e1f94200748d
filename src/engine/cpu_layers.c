#include "engine/cpu_layers.h"
#include "model/load.h"

/* ---- memory ------------------------------------------------------------------------------- */

ln_status ln_cpu_layers_init(ln_cpu_layers *cpu, const linnet_model *model,
                             const ln_engine_plan *plan, ln_kv_layer *kv_layers, ln_error *err) {
    const ln_cpu_layers_plan *own = &plan->cpu_layers;
    const ln_spec *spec = &model->spec;
    ln_backend *backend = own->backend;
    ln_layout kv = {0};
    *cpu = (ln_cpu_layers){.plan = own, .spec = spec};
    if (own->n_layers == 0)
        return LINNET_OK;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.first_layer = 0;
    options.end_layer = own->n_layers;
    options.progress.before_bytes = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    LN_TRY(backend->vtable->reserve_scratch(backend, &plan->limits, err));
    LN_TRY(ln_weights_load(model->checkpoint, spec, &options, backend, &cpu->weights, err));
    cpu->has_weights = true;
    LN_TRY(backend->vtable->reserve(backend, own->kv_bytes, "KV cache of the first layers",
                                    &cpu->kv, err));
    LN_TRY(backend->vtable->reserve(backend, own->activation_bytes,
                                    "activations of the first layers", &cpu->activation_memory,
                                    err));
    const ln_kv_range range = {0, ln_kv_layer_index(spec, own->n_layers)};
    ln_engine_plan_lay_out_kv(spec, plan, range, plan->kv_shape.n_blocks, &kv, kv_layers, cpu->kv);
    const ln_activations_shape shape = {.max_tokens = plan->budget.max_tokens};
    ln_activations_bind(spec, &shape, cpu->activation_memory, &cpu->activations);
    return LINNET_OK;
}

void ln_cpu_layers_free(ln_cpu_layers *cpu) {
    const ln_cpu_layers_plan *plan = cpu->plan;
    if (plan == NULL || plan->n_layers == 0)
        return;
    ln_backend *backend = plan->backend;
    backend->vtable->release(backend, cpu->activation_memory, plan->activation_bytes);
    backend->vtable->release(backend, cpu->kv, plan->kv_bytes);
    if (cpu->has_weights)
        ln_weights_free(&cpu->weights, backend);
}

size_t ln_cpu_layers_bytes(const ln_cpu_layers *cpu) {
    const ln_cpu_layers_plan *plan = cpu->plan;
    if (plan->n_layers == 0)
        return 0;
    return cpu->weights.memory_bytes + cpu->weights.table_bytes + plan->kv_bytes +
           plan->activation_bytes + plan->scratch_bytes;
}

/* ---- steps -------------------------------------------------------------------------------- */

ln_status ln_cpu_layers_run(const ln_cpu_layers *cpu, const ln_batch *batch, const ln_kv_memory *kv,
                            const ln_kv_cache *cache, ln_op *ops, ln_backend *next,
                            const ln_activations *next_activations, ln_error *err) {
    ln_backend *own = cpu->plan->backend;
    const ln_kv_range layers = {0, ln_kv_layer_index(cpu->spec, cpu->plan->n_layers)};
    ln_border from[LN_MAX_BORDERS], to[LN_MAX_BORDERS];
    size_t n_ops = 0;
    if (layers.end == 0)
        return LINNET_OK;
    if (cache->n_copies > 0)
        ops[n_ops++] = ln_kv_copy_op(kv, layers, cache->copies, cache->n_copies);
    n_ops += ln_forward_record(cpu->spec, &cpu->weights, &cpu->activations, kv->layers, batch,
                               ops + n_ops);
    LN_TRY(own->vtable->run(own, ops, n_ops, err));
    size_t n_borders = ln_activations_borders(cpu->spec, &cpu->activations, from);
    ln_activations_borders(cpu->spec, next_activations, to);
    for (size_t i = 0; i < n_borders; i++) {
        size_t bytes = batch->n_tokens * from[i].width * sizeof(float);
        void *rows;
        LN_TRY(own->vtable->read_back(own, from[i].at, bytes, &rows, err));
        next->vtable->upload(next, to[i].at, rows, bytes);
    }
    return LINNET_OK;
}
