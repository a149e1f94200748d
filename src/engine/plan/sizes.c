#include "engine/plan/sizes.h"

#include "base/checked.h"
#include "engine/micro_batch.h"
#include "engine/plan/cpu_experts.h"
#include "engine/plan/cpu_layers.h"
#include "engine/plan/draft.h"
#include "engine/plan/kv.h"
#include "engine/ranks.h"
#include "model/forward.h"
#include "model/load.h"

enum {
    SCORE_ROWS = 64 /* rows of logits in a step, when no more sequences run */
};

void ln_engine_plan_budget(const linnet_engine_options *options, ln_engine_plan *plan) {
    size_t asked = options->max_seqs > 0 ? options->max_seqs : 1;
    size_t max_seqs = plan->n_seqs > 0 ? plan->n_seqs : asked;
    size_t max_tokens = options->max_batch_tokens;
    if (max_tokens == 0) {
        const size_t most = plan->ctx_tokens * max_seqs; /* neither is over INT32_MAX */
        max_tokens = plan->step_tokens > 0 ? plan->step_tokens : LN_DEFAULT_BATCH_TOKENS;
        max_tokens = most < max_tokens ? most : max_tokens;
        if (plan->spec.bidirectional && max_tokens < plan->ctx_tokens)
            max_tokens = plan->ctx_tokens; /* a text is one step */
        max_tokens = max_tokens < max_seqs ? max_seqs : max_tokens;
    }
    size_t max_logits = max_seqs;
    for (size_t n = 1; n <= max_seqs; n++) {
        size_t n_rows = n * (1 + ln_engine_plan_draft_length(plan, n));
        max_logits = n_rows > max_logits ? n_rows : max_logits;
    }
    max_logits = max_logits < SCORE_ROWS ? SCORE_ROWS : max_logits;
    plan->budget = (ln_step_budget){
        .max_seqs = max_seqs,
        .max_tokens = max_tokens,
        .max_logits = max_logits < max_tokens ? max_logits : max_tokens,
        .n_adapters = plan->n_adapters,
    };
}

ln_status ln_engine_plan_weights(const linnet_model *model, const ln_backend *backend,
                                 ln_engine_plan *plan, ln_error *err) {
    ln_weights_plan weights;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.experts_apart = plan->cpu_experts.n_layers;
    LN_TRY(ln_weights_plan_bytes(model->checkpoint, &plan->spec, &options, backend, &weights, err));
    plan->bytes[LN_ARENA_WEIGHTS] = weights.prepared_bytes;
    plan->bytes[LN_ARENA_TABLES] = weights.table_bytes;
    plan->mapped_bytes = weights.mapped_bytes;
    plan->adapter_bytes = weights.adapter_bytes;
    size_t *bytes = &plan->bytes[LN_ARENA_WEIGHTS], of_adapters;
    if (!ln_mul(plan->n_adapters, weights.adapter_bytes, &of_adapters) ||
        !ln_add(*bytes, of_adapters, bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "the memory of %zu adapters overflows",
                       plan->n_adapters);
    return ln_engine_plan_draft_weights(model, plan, backend, err);
}

ln_engine_layout ln_engine_plan_lay_out(const ln_spec *spec, const ln_engine_plan *plan,
                                        ln_layout *layout) {
    ln_engine_layout e;
    ln_layout scheduler = {0};
    ln_layout_add(layout, 1, plan->engine_bytes);
    e.kv_layers = ln_layout_add(layout, ln_kv_layers_bytes(spec), 1);
    e.swap_layers = ln_layout_add(layout, ln_kv_layers_bytes(spec), 1);
    e.ops = ln_layout_add(layout, 2 * (2 + ln_forward_max_ops(spec)), sizeof(ln_op));
    ln_scheduler_plan(&plan->budget, &scheduler);
    e.scheduler = ln_layout_add(layout, scheduler.bytes, 1);
    layout->overflow |= scheduler.overflow;
    e.logits = ln_layout_add(layout, spec->n_vocab, sizeof(float));
    return e;
}

ln_row_sampler_shape ln_engine_plan_rows(const ln_spec *spec, const ln_engine_plan *plan) {
    return (ln_row_sampler_shape){.max_seqs = plan->budget.max_seqs,
                                  .n_threads = plan->n_threads,
                                  .n_vocab = spec->n_vocab,
                                  .ctx_tokens = plan->ctx_tokens};
}

static ln_status size_host_arenas(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_layout blocks = {0}, batch = {0}, sampler = {0}, engine = {0}, masks = {0};
    ln_row_sampler_shape rows = ln_engine_plan_rows(spec, plan);
    ln_kv_cache_plan(&plan->kv_shape, &blocks);
    ln_step_plan(&plan->budget, &plan->kv_shape, &batch);
    if (plan->n_ranks > 1)
        ln_rank_link_plan(&plan->budget, &plan->kv_shape, &batch);
    if (spec->ranks.mesh.n_stages > 1) {
        ln_micro_batches_plan(&plan->budget, &plan->kv_shape, &batch);
        ln_micro_batches_plan(&plan->budget, &plan->kv_shape, &batch);
        ln_step_plan(&plan->budget, &plan->kv_shape, &batch);
    }
    ln_row_sampler_plan(&rows, &sampler);
    ln_engine_plan_lay_out(spec, plan, &engine);
    ln_masker_plan(spec->n_vocab, plan->token_text_bytes, &masks);
    LN_TRY(ln_layout_check(&blocks, "block tables", err));
    LN_TRY(ln_layout_check(&batch, "batch", err));
    LN_TRY(ln_layout_check(&sampler, "sampler", err));
    LN_TRY(ln_layout_check(&engine, "engine", err));
    LN_TRY(ln_layout_check(&masks, "grammar", err));
    plan->bytes[LN_ARENA_BLOCKS] = blocks.bytes;
    plan->bytes[LN_ARENA_BATCH] = batch.bytes;
    plan->bytes[LN_ARENA_SAMPLER] = sampler.bytes;
    plan->bytes[LN_ARENA_ENGINE] = engine.bytes;
    plan->bytes[LN_ARENA_GRAMMAR] = masks.bytes;
    return LINNET_OK;
}

ln_status ln_engine_plan_arenas(const ln_spec *spec, const ln_backend *backend,
                                ln_engine_plan *plan, ln_error *err) {
    LN_TRY(ln_engine_plan_kv(spec, plan, err));
    LN_TRY(size_host_arenas(spec, plan, err));
    ln_activations_shape activations = ln_engine_plan_activations(plan);
    LN_TRY(ln_activations_plan(spec, &activations, &plan->bytes[LN_ARENA_ACTIVATIONS], err));
    plan->limits =
        ln_step_limits_of(spec, plan->budget.max_tokens, plan->budget.max_seqs, plan->ctx_tokens);
    plan->limits.n_adapters = plan->n_adapters;
    if (plan->n_ranks > 1)
        plan->limits.mesh = spec->ranks.mesh;
    plan->limits.max_blocks = ln_kv_table_blocks(plan->ctx_tokens);
    plan->limits.max_read_bytes = plan->budget.max_logits * spec->n_vocab * sizeof(float);
    size_t hidden_bytes = plan->budget.max_tokens * spec->dim * sizeof(float);
    if (hidden_bytes > plan->limits.max_read_bytes)
        plan->limits.max_read_bytes = hidden_bytes;
    LN_TRY(ln_engine_plan_cpu_layers(spec, plan, err));
    LN_TRY(ln_engine_plan_size_cpu_experts(spec, plan, err));
    LN_TRY(ln_engine_plan_draft(plan, err));
    plan->bytes[LN_ARENA_SCRATCH] = backend->vtable->plan_scratch(backend, &plan->limits);
    size_t total = 0;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        if (!ln_add(total, plan->bytes[i], &total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the sum of the arenas overflows");
    return LINNET_OK;
}
