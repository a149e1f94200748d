#include "engine/plan/options.h"

#include <string.h>

#include "engine/adapters.h"
#include "engine/plan/drafter.h"
#include "kv/states.h"
#include "model/adapter/file.h"

enum { MAX_DRAFT_TOKENS = 64 };

static ln_status check_scheduling(const linnet_engine_options *options, ln_error *err) {
    const struct {
        const char *name;
        unsigned value, last;
    } choices[] = {
        {"preemption", (unsigned)options->preemption, LINNET_PREEMPTION_RECOMPUTE},
        {"policy", (unsigned)options->policy, LINNET_POLICY_PREFILL_FIRST},
        {"order", (unsigned)options->order, LINNET_ORDER_PRIORITY},
        {"collectives", (unsigned)options->collectives, LINNET_COLLECTIVES_NCCL},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value > choices[i].last)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is %u, which is none", choices[i].name,
                           choices[i].value);
    if (options->kv_tokens > INT32_MAX)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "kv_tokens is at most %d", INT32_MAX);
    if (options->preemption == LINNET_PREEMPTION_SWAP && options->swap_bytes == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "preemption by swap needs swap_bytes");
    return LINNET_OK;
}

static ln_status check_adapters(const linnet_engine_options *options, ln_error *err) {
    if (options->max_adapters > LN_MAX_ADAPTERS)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "max_adapters is %zu; at most %d are possible",
                       options->max_adapters, LN_MAX_ADAPTERS);
    if (options->max_adapter_rank > LN_MAX_ADAPTER_RANK)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "max_adapter_rank is %zu; at most %d is possible",
                       options->max_adapter_rank, LN_MAX_ADAPTER_RANK);
    return LINNET_OK;
}

ln_mesh ln_engine_plan_mesh(const linnet_engine_options *options) {
    return (ln_mesh){.n_tensor = options->n_ranks > 0 ? options->n_ranks : 1,
                     .n_expert = options->n_expert_ranks > 0 ? options->n_expert_ranks : 1,
                     .n_stages = options->n_stages > 0 ? options->n_stages : 1,
                     .rank = options->rank};
}

static ln_status check_ranks(const linnet_model *model, const linnet_engine_options *options,
                             ln_error *err) {
    enum { MAX_RANKS = 1024 };
    ln_mesh mesh = ln_engine_plan_mesh(options);
    if (mesh.n_tensor > MAX_RANKS || mesh.n_expert > MAX_RANKS || mesh.n_stages > MAX_RANKS ||
        ln_mesh_count(&mesh) > MAX_RANKS || mesh.rank >= ln_mesh_count(&mesh))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "rank %zu of %zu x %zu x %zu is none; there are at most %d", mesh.rank,
                       mesh.n_tensor, mesh.n_expert, mesh.n_stages, MAX_RANKS);
    if (ln_mesh_count(&mesh) == 1)
        return LINNET_OK;
    if (options->gpu_layers > 0 && (size_t)options->gpu_layers < model->spec.n_layers)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "gpu_layers is %d of %zu: ranks have all of their layers on a GPU, or none",
                       (int)options->gpu_layers, model->spec.n_layers);
    if (model->spec.bidirectional)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "models whose tokens see those behind them run on one rank");
    if (options->draft_model != NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "ranks do not draft with a draft model; --draft ngram does");
    return LINNET_OK;
}

ln_status ln_engine_plan_check_options(const linnet_model *model,
                                       const linnet_engine_options *options, ln_error *err) {
    const size_t most = INT32_MAX;
    if (options->precision != LINNET_PRECISION_FAST && options->precision != LINNET_PRECISION_EXACT)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "precision is %d, which is none",
                       (int)options->precision);
    if ((unsigned)options->kv_type > LINNET_KV_FP8)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "kv_type is %d, which is none",
                       (int)options->kv_type);
    if (options->backend == NULL || options->cpu == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is NULL; \"auto\" is the default",
                       options->backend == NULL ? "backend" : "cpu");
    if (options->ctx_tokens > most || options->max_seqs > most || options->max_batch_tokens > most)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "ctx_tokens, max_seqs and max_batch_tokens are at most %zu", most);
    if (options->gpu_layers < -1)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "gpu_layers is %d; -1 means as many layers as fit",
                       (int)options->gpu_layers);
    if (options->cpu_experts < -1)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "cpu_experts is %d; -1 means those of as few layers as make the rest fit",
                       (int)options->cpu_experts);
    if (model->spec.family->drafts)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is %s, which drafts for another model: it is a draft_model",
                       ln_checkpoint_path(model->checkpoint), ln_drafter_noun(&model->spec));
    if (options->draft_tokens >= LN_KV_STATE_TOKENS && model->spec.has_mixers)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "draft_tokens is %zu; at most %d are possible with recurrent layers",
                       options->draft_tokens, LN_KV_STATE_TOKENS - 1);
    if (options->draft_tokens > MAX_DRAFT_TOKENS)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "draft_tokens is %zu; at most %d are possible",
                       options->draft_tokens, MAX_DRAFT_TOKENS);
    LN_TRY(check_scheduling(options, err));
    LN_TRY(check_adapters(options, err));
    LN_TRY(check_ranks(model, options, err));
    size_t max_ctx = model->spec.max_ctx_tokens;
    if (max_ctx > 0 && options->ctx_tokens > max_ctx)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "ctx_tokens is %zu; the model has positions for %zu tokens",
                       options->ctx_tokens, max_ctx);
    if (options->max_batch_tokens > 0 && options->max_batch_tokens < options->max_seqs)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "max_batch_tokens is %zu and max_seqs %zu; a step must hold a token of each "
                       "sequence",
                       options->max_batch_tokens, options->max_seqs);
    return LINNET_OK;
}
