#include "engine/plan/cpu_layers.h"

#include "base/checked.h"
#include "model/activations.h"

ln_status ln_engine_plan_cpu_layers(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_cpu_layers_plan *own = &plan->cpu_layers;
    size_t total = 0, row_bytes = plan->budget.max_tokens * spec->dim * sizeof(float);
    plan->bytes[LN_ARENA_CPU_LAYERS] = 0;
    if (own->n_layers == 0)
        return LINNET_OK;
    LN_TRY(ln_activations_plan(spec, plan->budget.max_tokens, 0, &own->activation_bytes, err));
    if (row_bytes > plan->limits.max_read_bytes) /* x goes through the same buffer */
        plan->limits.max_read_bytes = row_bytes;
    own->scratch_bytes = own->backend->vtable->plan_scratch(own->backend, &plan->limits);
    const size_t parts[] = {own->weight_bytes, own->table_bytes, own->kv_bytes,
                            own->activation_bytes, own->scratch_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!ln_add(total, parts[i], &total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the first layers overflows");
    plan->bytes[LN_ARENA_CPU_LAYERS] = total;
    return LINNET_OK;
}
