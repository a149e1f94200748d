#include "engine/plan/cpu_experts.h"

#include "base/checked.h"
#include "engine/experts/cpu_experts.h"

ln_status ln_engine_plan_size_cpu_experts(const ln_spec *spec, ln_engine_plan *plan,
                                          ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    ln_step_limits *limits = &plan->limits;
    ln_layout rows = {0};
    ln_expert_rows none;
    ln_expert_cache no_cache;
    size_t *total = &plan->bytes[LN_ARENA_CPU_LAYERS];
    if (own->n_layers == 0)
        return LINNET_OK;
    ln_cpu_experts_lay_out(spec, plan, &rows, NULL, &none, &no_cache);
    LN_TRY(ln_layout_check(&rows, "rows of experts", err));
    own->row_bytes = rows.bytes;
    for (size_t i = 0; i < own->n_layers; i++) { /* what goes there and back in one copy */
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        size_t width = moe->n_latent > 0 ? moe->n_latent : spec->dim;
        size_t bytes = plan->budget.max_tokens * moe->n_used * width * sizeof(float);
        if (moe->n_experts > 0 && bytes > limits->max_read_bytes)
            limits->max_read_bytes = bytes;
    }
    own->scratch_bytes =
        own->shares_backend ? 0 : own->backend->vtable->plan_scratch(own->backend, limits);
    const size_t parts[] = {own->weight_bytes, own->table_bytes, own->row_bytes,
                            own->scratch_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!ln_add(*total, parts[i], total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the memory of the CPU's experts overflows");
    return LINNET_OK;
}
