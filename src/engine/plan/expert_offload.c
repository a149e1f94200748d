#include "engine/plan/expert_offload.h"

#include "backend/registry.h"
#include "engine/plan/offload.h"
#include "engine/plan/sizes.h"
#include "model/load.h"

/* What is still to be reserved of the host's memory: the model is open, so it has its headers and
 * its tokenizer. */
static size_t host_bytes(const ln_engine_plan *plan) {
    size_t bytes = 0;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        bytes += plan->bytes[i]; /* the sum of the arenas was checked */
    bytes -= plan->bytes[LN_ARENA_TOKENIZER] + plan->bytes[LN_ARENA_HEADERS];
    return plan->on_device ? bytes - ln_engine_plan_device_bytes(plan, plan->bytes) : bytes;
}

/* The memory of the host that nothing planned takes yet; an eighth of what is free stays for the
 * pages of files that are read. */
static size_t spare_bytes(const ln_engine_plan *plan) {
    enum { SHARE = 8 };
    const ln_backend *host = plan->cpu_experts.backend;
    size_t available = host->vtable->available_bytes(host), planned = host_bytes(plan);
    if (!plan->on_device)
        planned += plan->mapped_bytes;
    planned += available / SHARE;
    return planned < available ? available - planned : 0;
}

/* Sizes experts that stay in the files, with so many slots in each layer; 0: they are in memory. */
static ln_status size_experts(const linnet_model *model, const ln_backend *backend, size_t slots,
                              ln_engine_plan *plan, ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    ln_weights_plan weights = {0};
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.experts_apart = own->n_layers;
    options.only_experts = true;
    options.expert_slots = slots;
    LN_TRY(ln_weights_plan_bytes(model->checkpoint, &plan->spec, &options, own->backend, &weights,
                                 err));
    own->slots = slots;
    own->stored = weights.experts;
    own->weight_bytes = weights.prepared_bytes;
    own->table_bytes = weights.table_bytes;
    own->mapped_bytes = weights.mapped_bytes;
    return ln_engine_plan_arenas(&plan->spec, backend, plan, err);
}

/* As many slots as the cache may have; first one, which says what it takes. */
static ln_status choose_slots(const linnet_model *model, const ln_backend *backend,
                              ln_engine_plan *plan, ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    LN_TRY(size_experts(model, backend, 1, plan, err));
    size_t each = own->stored.slot_bytes, bytes = own->cache_bytes;
    if (each == 0) /* no layer of these has experts */
        return LINNET_OK;
    if (bytes == SIZE_MAX)
        bytes = each + spare_bytes(plan);
    size_t slots = bytes / each;
    if (slots == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "experts_from_disk is %zu, but one expert of each of the layers takes %zu "
                       "bytes",
                       bytes, each);
    if (slots > own->stored.most_experts)
        slots = own->stored.most_experts;
    return slots > 1 ? size_experts(model, backend, slots, plan, err) : LINNET_OK;
}

/* Sizes everything with the experts of n layers on the CPU. */
static ln_status size_split(const linnet_model *model, const ln_backend *backend, size_t n,
                            ln_engine_plan *plan, ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    own->n_layers = n;
    LN_TRY(ln_engine_plan_weights(model, backend, plan, err));
    return own->cache_bytes > 0 ? choose_slots(model, backend, plan, err)
                                : size_experts(model, backend, 0, plan, err);
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
    const char *name = options->experts_from_disk > 0 ? "experts_from_disk" : "cpu_experts";
    bool any = false, has_zero = false;
    for (size_t i = 0; i < spec->n_layers; i++) {
        any |= spec->layers[i].ffn.moe.n_experts > 0;
        has_zero |= spec->layers[i].ffn.moe.n_zero > 0;
    }
    if (spec->blend_temperature > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is given, but %s normalises what each expert gives", name, path);
    if (spec->loop_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is given, but layers of %s run several times", name, path);
    if (has_zero)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is given, but %s has experts without matrices", name, path);
    if (!any)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s is given, but %s has no experts", name,
                       path);
    if (plan->n_ranks > 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is given: ranks have their experts where their layers are", name);
    if (spec->n_encoder_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s has an encoder: %s is not possible", path,
                       name);
    if (options->gpu_layers > 0 && (size_t)options->gpu_layers < spec->n_layers)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s needs the rest of all %zu layers on the GPU, but gpu_layers is %d", name,
                       spec->n_layers, (int)options->gpu_layers);
    if (plan->on_device && options->cpu_experts == 0)
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED,
            "experts_from_disk is given, but the GPU has all experts: cpu_experts leaves "
            "some to the CPU");
    return LINNET_OK;
}

/* The backend that computes experts. Where the CPU runs all else, and nobody asks for experts
 * apart, it is the same one. */
static ln_status choose_backend(const linnet_engine_options *options,
                                const ln_backend_options *backend_options, ln_backend *backend,
                                ln_engine_plan *plan, ln_error *err) {
    ln_cpu_experts_plan *own = &plan->cpu_experts;
    own->cache_bytes = options->experts_from_disk;
    own->shares_backend = !plan->on_device && options->cpu_experts <= 0;
    if (!own->shares_backend)
        return ln_backend_create("cpu", backend_options, &own->backend, err);
    own->backend = backend;
    return LINNET_OK;
}

ln_status ln_engine_plan_check_experts(const ln_engine_plan *plan, ln_error *err) {
    const ln_cpu_experts_plan *own = &plan->cpu_experts;
    if (own->n_layers == 0)
        return LINNET_OK;
    size_t available = own->backend->vtable->available_bytes(own->backend);
    size_t needed = host_bytes(plan);
    if (needed <= available)
        return LINNET_OK;
    const char *help = own->cache_bytes == 0          ? ": experts_from_disk leaves them in files"
                       : own->cache_bytes == SIZE_MAX ? ""
                                                      : ": a smaller experts_from_disk helps";
    return ln_fail(err, LINNET_ERR_NOMEM,
                   "with the experts of %zu of %zu layers the CPU needs %zu MiB, %zu of them for "
                   "experts, but %zu are free%s",
                   own->n_layers, plan->n_layers, needed >> 20, own->weight_bytes >> 20,
                   available >> 20, help);
}

static ln_status offload(const linnet_model *model, const linnet_engine_options *options,
                         ln_backend *backend, const ln_backend_options *backend_options,
                         ln_engine_plan *plan, ln_error *err) {
    size_t n_layers = model->spec.n_layers, n = n_layers;
    bool from_disk = options->experts_from_disk > 0;
    bool is_auto = options->cpu_experts < 0 && (plan->on_device || !from_disk);
    if (!from_disk && (options->cpu_experts == 0 || options->gpu_layers == 0))
        return LINNET_OK; /* the CPU has all of them anyway */
    LN_TRY(check(model, options, plan, err));
    if (is_auto && (!plan->on_device || ln_engine_plan_fits(backend, plan)))
        return LINNET_OK;
    LN_TRY(choose_backend(options, backend_options, backend, plan, err));
    ln_engine_plan_split_ctx(&model->spec, options, plan);
    if (is_auto)
        return choose_split(model, backend, plan, err);
    if (options->cpu_experts > 0 && (size_t)options->cpu_experts < n)
        n = (size_t)options->cpu_experts;
    return size_split(model, backend, n, plan, err);
}

ln_status ln_engine_plan_offload_experts(const linnet_model *model,
                                         const linnet_engine_options *options, ln_backend *backend,
                                         const ln_backend_options *backend_options,
                                         ln_engine_plan *plan, ln_error *err) {
    LN_TRY(offload(model, options, backend, backend_options, plan, err));
    return ln_engine_plan_check_experts(plan, err);
}
