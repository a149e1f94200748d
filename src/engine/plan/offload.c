#include "engine/plan/offload.h"
#include "backend/registry.h"

#include "base/checked.h"
#include "engine/plan/sizes.h"
#include "model/activations.h"
#include "model/load.h"

enum {
    MARGIN_BYTES = 256 << 20, /* of a GPU's memory: kernels, graphs and streams */
    SPLIT_CTX = 4096          /* tokens of a context that nobody chose */
};

/* Sizes everything for n_cpu layers on the CPU. */
static ln_status size_split(const linnet_model *model, const ln_backend *backend, size_t n_cpu,
                            ln_engine_plan *plan, ln_error *err) {
    ln_cpu_layers_plan *own = &plan->cpu_layers;
    ln_weights_plan weights;
    own->n_layers = n_cpu;
    LN_TRY(ln_engine_plan_weights(model, backend, plan, err));
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.first_layer = 0;
    options.end_layer = n_cpu;
    LN_TRY(ln_weights_plan_bytes(model->checkpoint, &model->spec, &options, own->backend, &weights,
                                 err));
    own->weight_bytes = weights.prepared_bytes;
    own->table_bytes = weights.table_bytes;
    own->mapped_bytes = weights.mapped_bytes;
    return ln_engine_plan_arenas(&model->spec, backend, plan, err);
}

bool ln_engine_plan_fits(const ln_backend *backend, const ln_engine_plan *plan) {
    size_t available = backend->vtable->available_bytes(backend), wanted;
    return ln_add(ln_engine_plan_device_bytes(plan, plan->bytes), MARGIN_BYTES, &wanted) &&
           wanted <= available;
}

void ln_engine_plan_split_ctx(const ln_spec *spec, const linnet_engine_options *options,
                              ln_engine_plan *plan) {
    size_t most = spec->max_ctx_tokens > 0 && spec->max_ctx_tokens < spec->ctx_tokens
                      ? spec->max_ctx_tokens
                      : spec->ctx_tokens;
    if (options->ctx_tokens > 0 || plan->ctx_tokens >= SPLIT_CTX)
        return;
    plan->ctx_tokens = most < SPLIT_CTX ? most : SPLIT_CTX;
    ln_engine_plan_budget(options, plan);
}

/* The most layers that fit the device; the others must fit the CPU's memory. */
static ln_status choose_split(const linnet_model *model, const ln_backend *backend,
                              ln_engine_plan *plan, ln_error *err) {
    size_t n_layers = model->spec.n_layers, shared = ln_kv_first_shared(&model->spec);
    size_t end = shared < n_layers ? shared + 1 : n_layers, low = 1, high = end; /* of n_cpu */
    size_t free_mib = backend->vtable->available_bytes(backend) >> 20;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        LN_TRY(size_split(model, backend, middle, plan, err));
        if (ln_engine_plan_fits(backend, plan))
            high = middle;
        else
            low = middle + 1;
    }
    if (low >= end && shared < n_layers)
        return ln_fail(
            err, LINNET_ERR_NOMEM,
            "the layers from %zu on, which share keys and values, do not fit the %zu MiB "
            "that are free on the GPU, with the output and a context of %zu tokens",
            shared, free_mib, plan->ctx_tokens);
    if (low >= n_layers)
        return ln_fail(err, LINNET_ERR_NOMEM,
                       "not one of the %zu layers fits the %zu MiB that are free on the GPU, with "
                       "the output and a context of %zu tokens",
                       n_layers, free_mib, plan->ctx_tokens);
    LN_TRY(size_split(model, backend, low, plan, err));
    size_t available = plan->cpu_layers.backend->vtable->available_bytes(plan->cpu_layers.backend);
    if (plan->bytes[LN_ARENA_CPU_LAYERS] > available)
        return ln_fail(err, LINNET_ERR_NOMEM,
                       "%zu of %zu layers fit the %zu MiB that are free on the GPU; the others "
                       "need %zu MiB of the CPU's memory, where %zu are free",
                       n_layers - low, n_layers, free_mib, plan->bytes[LN_ARENA_CPU_LAYERS] >> 20,
                       available >> 20);
    return LINNET_OK;
}

/* A rank leaves no layers to the CPU. */
static ln_status check_rank(const ln_backend *backend, const ln_engine_plan *plan, ln_error *err) {
    if (!plan->on_device || ln_engine_plan_fits(backend, plan))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_NOMEM,
                   "a rank needs %zu MiB on its GPU, where it can have %zu, with a context of %zu "
                   "tokens: more ranks, a smaller context or gpu_layers 0 help",
                   (ln_engine_plan_device_bytes(plan, plan->bytes) + MARGIN_BYTES) >> 20,
                   backend->vtable->available_bytes(backend) >> 20, plan->ctx_tokens);
}

ln_status ln_engine_plan_offload(const linnet_model *model, const linnet_engine_options *options,
                                 const ln_backend *backend,
                                 const ln_backend_options *backend_options, ln_engine_plan *plan,
                                 ln_error *err) {
    const ln_spec *spec = &model->spec;
    bool is_auto = options->gpu_layers < 0;
    size_t n_asked = is_auto ? 0 : (size_t)options->gpu_layers;
    if (plan->n_ranks > 1)
        return check_rank(backend, plan, err);
    if (n_asked >= spec->n_layers ||
        (is_auto && (!plan->on_device || ln_engine_plan_fits(backend, plan))) ||
        (!is_auto && n_asked == 0))
        return LINNET_OK;
    if (spec->n_encoder_layers > 0 || spec->n_indexers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s has %s: all of its layers run on one backend, which needs %zu "
                       "MiB here; gpu_layers 0 makes it the CPU",
                       ln_checkpoint_path(model->checkpoint),
                       spec->n_encoder_layers > 0 ? "an encoder" : "an indexer",
                       ln_engine_plan_device_bytes(plan, plan->bytes) >> 20);
    size_t shared = ln_kv_first_shared(spec);
    if (!is_auto && shared < spec->n_layers && spec->n_layers - n_asked > shared)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: the layers from %zu on share keys and values and run on one backend: "
                       "gpu_layers can be 0, or %zu and more",
                       ln_checkpoint_path(model->checkpoint), shared, spec->n_layers - shared);
    LN_TRY(ln_backend_create("cpu", backend_options, &plan->cpu_layers.backend, err));
    if (!is_auto)
        return size_split(model, backend, spec->n_layers - n_asked, plan, err);
    ln_engine_plan_split_ctx(spec, options, plan);
    return choose_split(model, backend, plan, err);
}
