#include "engine/plan/expert_offload.h"

#include "backend/registry.h"
#include "engine/plan/offload.h"
#include "engine/plan/sizes.h"
#include "model/load.h"

/* Sizes everything with the experts of n layers on the CPU. */
static ln_status size_split(const linnet_model *model, const ln_backend *backend, size_t n,
                            ln_engine_plan *plan, ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    ln_weights_plan weights = {0};
    own->n_layers = n;
    LN_TRY(ln_engine_plan_weights(model, backend, plan, err));
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.experts_apart = n;
    options.only_experts = true;
    LN_TRY(ln_weights_plan_bytes(model->checkpoint, &plan->spec, &options, own->backend, &weights,
                                 err));
    own->weight_bytes = weights.prepared_bytes;
    own->table_bytes = weights.table_bytes;
    own->mapped_bytes = weights.mapped_bytes;
    return ln_engine_plan_arenas(&plan->spec, backend, plan, err);
}

/* As few layers as make the rest fit the device. */
static ln_status choose_split(const linnet_model *model, const ln_backend *backend,
                              ln_engine_plan *plan, ln_error *err) {
    size_t n_layers = model->spec.n_layers, low = 1, high = n_layers;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        LN_TRY(size_split(model, backend, middle, plan, err));
        if (ln_engine_plan_fits(backend, plan))
            high = middle;
        else
            low = middle + 1;
    }
    LN_TRY(size_split(model, backend, low, plan, err));
    if (ln_engine_plan_fits(backend, plan))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_NOMEM,
                   "even without experts the model does not fit the %zu MiB that are free on the "
                   "GPU with a context of %zu tokens: gpu_layers leaves layers to the CPU",
                   backend->vtable->available_bytes(backend) >> 20, plan->ctx_tokens);
}

static ln_status check(const linnet_model *model, const linnet_engine_options *options,
                       const ln_engine_plan *plan, ln_error *err) {
    const ln_spec *spec = &model->spec;
    const char *path = ln_checkpoint_path(model->checkpoint);
    bool any = false;
    for (size_t i = 0; i < spec->n_layers; i++)
        any |= spec->layers[i].ffn.moe.n_experts > 0;
    if (!any)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "cpu_experts is given, but %s has no experts",
                       path);
    if (plan->n_ranks > 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "cpu_experts is given: ranks have their experts where their layers are");
    if (spec->n_encoder_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s has an encoder: cpu_experts is not possible", path);
    if (options->gpu_layers > 0 && (size_t)options->gpu_layers < spec->n_layers)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "cpu_experts needs the rest of all %zu layers on the GPU, but gpu_layers is "
                       "%d",
                       spec->n_layers, (int)options->gpu_layers);
    return LINNET_OK;
}

ln_status ln_engine_plan_offload_experts(const linnet_model *model,
                                         const linnet_engine_options *options,
                                         const ln_backend *backend,
                                         const ln_backend_options *backend_options,
                                         ln_engine_plan *plan, ln_error *err) {
    size_t n_layers = model->spec.n_layers;
    bool is_auto = options->cpu_experts < 0;
    if (options->cpu_experts == 0 || options->gpu_layers == 0) /* the CPU has all of them anyway */
        return LINNET_OK;
    LN_TRY(check(model, options, plan, err));
    if (is_auto && (!plan->on_device || ln_engine_plan_fits(backend, plan)))
        return LINNET_OK;
    LN_TRY(ln_backend_create("cpu", backend_options, &plan->cpu_experts.backend, err));
    ln_engine_plan_split_ctx(&model->spec, options, plan);
    if (is_auto)
        return choose_split(model, backend, plan, err);
    size_t n = (size_t)options->cpu_experts;
    return size_split(model, backend, n < n_layers ? n : n_layers, plan, err);
}
