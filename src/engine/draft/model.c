#include "engine/draft/model.h"

#include "engine/plan/draft.h"
#include "model/load.h"

ln_status ln_draft_model_init(ln_draft_model *draft, const ln_engine_plan *plan,
                              ln_backend *backend, const ln_kv_cache *kv, ln_sampler *sampler,
                              ln_error *err) {
    const ln_draft_plan *own = &plan->draft;
    *draft = (ln_draft_model){.plan = own,
                              .backend = backend,
                              .kv = kv,
                              .sampler = sampler,
                              .max_tokens = plan->budget.max_tokens};
    if (own->model == NULL)
        return LINNET_OK;
    const ln_spec *spec = &own->model->spec;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.first_layer = 0;
    LN_TRY(ln_weights_load(own->model->checkpoint, spec, &options, backend, &draft->weights, err));
    draft->has_weights = true;
    LN_TRY(backend->vtable->reserve(backend, own->kv_bytes, "KV cache of the draft model",
                                    &draft->kv_memory, err));
    LN_TRY(backend->vtable->reserve(backend, own->activation_bytes,
                                    "activations of the draft model", &draft->activation_memory,
                                    err));
    LN_TRY(ln_reserve(own->host_bytes, "draft model", &draft->memory, err));
    ln_layout host = {0}, blocks = {0};
    ln_kv_shape shape = ln_engine_plan_draft_shape(plan);
    ln_draft_layout at = ln_engine_plan_lay_out_draft(plan, &host);
    char *base = draft->memory;
    draft->layers = (ln_kv_layer *)(void *)(base + at.layers);
    draft->ops = (ln_op *)(void *)(base + at.ops);
    draft->decoding = (ln_sequence **)(void *)(base + at.decoding);
    draft->asked = (ln_sequence **)(void *)(base + at.asked);
    ln_engine_plan_lay_out_draft_kv(plan, &blocks, draft->layers, draft->kv_memory);
    const ln_activations_shape activations = {.max_tokens = plan->budget.max_tokens,
                                              .max_logits = plan->budget.max_seqs};
    ln_activations_bind(spec, &activations, draft->activation_memory, &draft->activations);
    ln_step_init(&draft->step, &plan->budget, &shape, base + at.step);
    return LINNET_OK;
}

void ln_draft_model_free(ln_draft_model *draft) {
    const ln_draft_plan *plan = draft->plan;
    if (plan == NULL || plan->model == NULL)
        return;
    ln_backend *backend = draft->backend;
    ln_unreserve(draft->memory, plan->host_bytes);
    backend->vtable->release(backend, draft->activation_memory, plan->activation_bytes);
    backend->vtable->release(backend, draft->kv_memory, plan->kv_bytes);
    if (draft->has_weights)
        ln_weights_free(&draft->weights, backend);
}

size_t ln_draft_model_bytes(const ln_draft_model *draft) {
    const ln_draft_plan *plan = draft->plan;
    if (plan->model == NULL)
        return 0;
    return draft->weights.memory_bytes + draft->weights.table_bytes + plan->kv_bytes +
           plan->activation_bytes + plan->host_bytes + ln_engine_plan_tokenizer_bytes(plan->model) +
           ln_engine_plan_header_bytes(plan->model);
}
