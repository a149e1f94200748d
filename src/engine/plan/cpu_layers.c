#include "engine/plan/cpu_layers.h"

#include "base/checked.h"
#include "model/activations.h"

ln_status ln_engine_plan_cpu_layers(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_cpu_layers_plan *own = &plan->cpu_layers;
    const ln_activations none = {0};
    ln_border borders[LN_MAX_BORDERS];
    size_t total = 0, n_borders = ln_activations_borders(spec, &none, borders);
    plan->bytes[LN_ARENA_CPU_LAYERS] = 0;
    if (own->n_layers == 0)
        return LINNET_OK;
    const ln_activations_shape shape = {.max_tokens = plan->budget.max_tokens};
    LN_TRY(ln_activations_plan(spec, &shape, &own->activation_bytes, err));
    for (size_t i = 0; i < n_borders; i++) { /* they go through the same buffer */
        size_t bytes = plan->budget.max_tokens * borders[i].width * sizeof(float);
        if (bytes > plan->limits.max_read_bytes)
            plan->limits.max_read_bytes = bytes;
    }
    own->scratch_bytes = own->backend->vtable->plan_scratch(own->backend, &plan->limits);
    const size_t parts[] = {own->weight_bytes, own->table_bytes, own->kv_bytes,
                            own->activation_bytes, own->scratch_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!ln_add(total, parts[i], &total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the first layers overflows");
    plan->bytes[LN_ARENA_CPU_LAYERS] = total;
    return LINNET_OK;
}
