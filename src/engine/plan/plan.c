#include "engine/plan/plan.h"

#include "model/shard.h"

enum {
    STACK_BYTES = 64 << 10, /* what a thread touches of its stack */
    LIBRARY_BYTES = 4 << 20 /* C library, dynamic linker, JSON and regex code */
};

void ln_engine_plan_free(ln_engine_plan *plan, ln_backend *backend) {
    ln_model_close(plan->draft.model);
    ln_model_close(plan->draft.head);
    ln_shard_free(&plan->spec);
    if (plan->cpu_layers.backend != NULL)
        plan->cpu_layers.backend->vtable->destroy(plan->cpu_layers.backend);
    if (plan->cpu_experts.backend != NULL && !plan->cpu_experts.shares_backend)
        plan->cpu_experts.backend->vtable->destroy(plan->cpu_experts.backend);
    backend->vtable->destroy(backend);
}

size_t ln_engine_plan_device_bytes(const ln_engine_plan *plan, const size_t *bytes) {
    const ln_draft_plan *draft = &plan->draft;
    return bytes[LN_ARENA_WEIGHTS] + bytes[LN_ARENA_KV] + bytes[LN_ARENA_ACTIVATIONS] +
           bytes[LN_ARENA_SCRATCH] + draft->prepared_bytes + draft->kv_bytes +
           draft->activation_bytes;
}

size_t ln_engine_plan_tokenizer_bytes(const linnet_model *model) {
    return model->tokenizer != NULL ? ln_tokenizer_memory_bytes(model->tokenizer) : 0;
}

size_t ln_engine_plan_header_bytes(const linnet_model *model) {
    return ln_checkpoint_header_bytes(model->checkpoint) + model->arena.reserved_bytes;
}

size_t ln_engine_plan_max_encoder(const ln_engine_plan *plan) {
    size_t budget = plan->budget.max_tokens;
    return budget < plan->ctx_tokens ? budget : plan->ctx_tokens;
}

size_t ln_engine_plan_draft_length(const ln_engine_plan *plan, size_t n_seqs) {
    const ln_draft_plan *draft = &plan->draft;
    if (!draft->by_cost)
        return plan->draft_tokens;
    return n_seqs <= LN_DRAFT_SEQS ? draft->n_tokens[n_seqs] : 0;
}

static size_t most_drafted_seqs(const ln_engine_plan *plan) {
    size_t n_seqs = plan->draft_tokens > 0 ? plan->budget.max_seqs : 0;
    if (plan->draft.by_cost && n_seqs > LN_DRAFT_SEQS)
        n_seqs = LN_DRAFT_SEQS;
    while (n_seqs > 0 && ln_engine_plan_draft_length(plan, n_seqs) == 0)
        n_seqs--;
    return n_seqs;
}

linnet_memory_plan ln_engine_plan_report(const ln_engine_plan *plan, const size_t *bytes) {
    static const char *const names[] = {
#define ARENA_NAME(id, name) [id] = name,
        LN_ARENAS(ARENA_NAME)
#undef ARENA_NAME
    };
    static const char *const drafters[] = {
        [LN_DRAFTER_NONE] = "none", [LN_DRAFTER_NGRAM] = "ngram", [LN_DRAFTER_MODEL] = "model",
        [LN_DRAFTER_MTP] = "mtp",   [LN_DRAFTER_EAGLE] = "eagle", [LN_DRAFTER_DFLASH] = "dflash"};
    _Static_assert((int)LN_ARENA_COUNT <= (int)LINNET_MAX_ARENAS, "every arena is reported");
    linnet_memory_plan full = {
        .struct_bytes = sizeof full,
        .ctx_tokens = plan->ctx_tokens,
        .max_seqs = plan->budget.max_seqs,
        .max_batch_tokens = plan->budget.max_tokens,
        .n_threads = plan->n_threads,
        .n_arenas = LN_ARENA_COUNT,
        .mapped_bytes =
            plan->mapped_bytes + plan->cpu_layers.mapped_bytes + plan->cpu_experts.mapped_bytes,
        .libraries_bytes = LIBRARY_BYTES + plan->n_threads * STACK_BYTES,
    };
    for (size_t i = 0; i < LN_ARENA_COUNT; i++) {
        full.arenas[i].name = names[i];
        full.arenas[i].bytes = bytes[i];
        full.total_bytes += bytes[i];
    }
    if (plan->on_device)
        full.device_bytes = ln_engine_plan_device_bytes(plan, bytes);
    full.draft = drafters[plan->draft.kind];
    full.draft_tokens = plan->draft_tokens;
    full.draft_seqs = most_drafted_seqs(plan);
    full.n_ranks = plan->n_ranks;
    full.rank_token_bytes = plan->rank_token_bytes;
    full.gpu_layers = plan->on_device ? plan->n_layers - plan->cpu_layers.n_layers : 0;
    full.cpu_experts = plan->cpu_experts.n_layers;
    full.disk_experts = plan->cpu_experts.stored.n_experts;
    full.cached_experts = plan->cpu_experts.stored.n_slots;
    full.disk_token_bytes = plan->cpu_experts.stored.token_bytes;
    full.kv_tokens =
        plan->kv_tokens > 0 ? plan->kv_tokens : plan->ctx_tokens * plan->budget.max_seqs;
    return full;
}
