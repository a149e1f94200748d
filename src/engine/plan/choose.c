#include "engine/plan/choose.h"

#include "engine/plan/sizes.h"

enum {
    SMALLEST_CHOSEN_CTX = 512, /* taken even when memory looks too small for it */
    CTX_STEP = 256,            /* a context that memory limits is a multiple of this */
    CTX_EIGHTHS = 4,           /* of memory, in which a context must fit, */
    STEPS_EIGHTHS = 5,         /* and long steps with it */
    LONG_STEP_TOKENS = 32768
};

bool ln_engine_plan_fits_share(const ln_backend *backend, const linnet_engine_options *options,
                               size_t available, size_t eighths, ln_engine_plan *plan) {
    ln_engine_plan_budget(options, plan);
    if (ln_engine_plan_arenas(&plan->spec, backend, plan, NULL) != LINNET_OK)
        return false;
    size_t weights = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    size_t others = 0;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        others += i == LN_ARENA_WEIGHTS ? 0 : plan->bytes[i];
    return weights < available && others <= (available - weights) / 8 * eighths;
}

ln_status ln_engine_plan_set_ctx(const linnet_model *model, const ln_backend *backend,
                                 size_t ctx_tokens, ln_engine_plan *plan, ln_error *err) {
    const linnet_model *draft = plan->draft.model;
    plan->ctx_tokens = ctx_tokens;
    if (!plan->spec.has_query_scales && (draft == NULL || !draft->spec.has_query_scales))
        return LINNET_OK;
    return ln_engine_plan_weights(model, backend, plan, err);
}

static bool ctx_fits(const linnet_model *model, const linnet_engine_options *options,
                     const ln_backend *backend, size_t ctx_tokens, size_t available,
                     ln_engine_plan *plan) {
    return ln_engine_plan_set_ctx(model, backend, ctx_tokens, plan, NULL) == LINNET_OK &&
           ln_engine_plan_fits_share(backend, options, available, CTX_EIGHTHS, plan);
}

size_t ln_engine_plan_most_ctx(const ln_spec *spec) {
    size_t most = spec->ctx_tokens < INT32_MAX ? spec->ctx_tokens : INT32_MAX;
    return spec->max_ctx_tokens > 0 && spec->max_ctx_tokens < most ? spec->max_ctx_tokens : most;
}

ln_status ln_engine_plan_choose_ctx(const linnet_model *model, const linnet_engine_options *options,
                                    const ln_backend *backend, ln_engine_plan *plan,
                                    ln_error *err) {
    size_t available = backend->vtable->available_bytes(backend);
    size_t most = ln_engine_plan_most_ctx(&plan->spec);
    if (most <= SMALLEST_CHOSEN_CTX || ctx_fits(model, options, backend, most, available, plan))
        return ln_engine_plan_set_ctx(model, backend, most, plan, err);
    size_t low = SMALLEST_CHOSEN_CTX / CTX_STEP, high = most / CTX_STEP;
    while (low < high) { /* the most steps that fit are in [low, high] */
        size_t middle = high - (high - low) / 2;
        if (ctx_fits(model, options, backend, middle * CTX_STEP, available, plan))
            low = middle;
        else
            high = middle - 1;
    }
    return ln_engine_plan_set_ctx(model, backend, low * CTX_STEP, plan, err);
}

bool ln_engine_plan_embeds(const linnet_model *model, const ln_spec *spec) {
    return spec->bidirectional || spec->lacks_output || model->embedding.is_described;
}

void ln_engine_plan_choose_steps(const linnet_model *model, const linnet_engine_options *options,
                                 const ln_backend *backend, ln_engine_plan *plan) {
    bool embeds = ln_engine_plan_embeds(model, &plan->spec);
    if (options->max_batch_tokens > 0 || !plan->on_device || !embeds)
        return;
    size_t available = backend->vtable->available_bytes(backend);
    for (size_t n = LONG_STEP_TOKENS; n > LN_DEFAULT_BATCH_TOKENS; n /= 2) {
        plan->step_tokens = n;
        if (ln_engine_plan_fits_share(backend, options, available, STEPS_EIGHTHS, plan))
            return;
    }
    plan->step_tokens = 0;
}
