#include "engine/plan/make.h"
#include "backend/registry.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "engine/constraint.h"
#include "engine/plan/choose.h"
#include "engine/plan/draft.h"
#include "engine/plan/drafter.h"
#include "engine/plan/expert_offload.h"
#include "engine/plan/offload.h"
#include "engine/plan/options.h"
#include "engine/plan/serving.h"
#include "engine/plan/sizes.h"
#include "engine/pooler.h"
#include "model/load.h"
#include "model/shard.h"

static size_t default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (size_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

size_t ln_engine_plan_rank_threads(size_t n_local) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = default_threads();
    bool is_bound = online > 0 && n < (size_t)online;
    if (!is_bound && n_local > 1)
        n /= n_local;
    return n > 0 ? n : 1;
}

static ln_kv_dtype choose_kv_dtype(const linnet_engine_options *options) {
    switch (options->kv_type) {
    case LINNET_KV_F32: return LN_KV_F32;
    case LINNET_KV_F16: return LN_KV_F16;
    case LINNET_KV_BF16: return LN_KV_BF16;
    case LINNET_KV_Q8_0: return LN_KV_Q8_0;
    case LINNET_KV_FP8: return LN_KV_FP8;
    case LINNET_KV_AUTO:
    default: return options->precision == LINNET_PRECISION_EXACT ? LN_KV_F32 : LN_KV_F16;
    }
}

static ln_status choose(const linnet_model *model, const linnet_engine_options *options,
                        const ln_backend *backend, ln_engine_plan *plan, ln_error *err) {
    if (options->quantize_on_load != NULL) {
        plan->quantizes = true;
        if (!ln_packed_on_load_type(options->quantize_on_load, &plan->quantize))
            return ln_fail(err, LINNET_ERR_ARGUMENT,
                           "quantize_on_load is \"%s\"; it must be int8, fp8, int4 or a type that "
                           "`linnet quantize' makes, such as q4_0, q8_0 or q4_k",
                           options->quantize_on_load);
    }
    plan->ctx_tokens = options->ctx_tokens;
    LN_TRY(ln_engine_plan_weights(model, backend, plan, err));
    ln_layout heads = {0};
    ln_pooler_plan(model, &heads);
    LN_TRY(ln_layout_check(&heads, "heads", err));
    plan->bytes[LN_ARENA_HEADS] = heads.bytes;
    plan->bytes[LN_ARENA_TOKENIZER] = ln_engine_plan_tokenizer_bytes(model);
    plan->bytes[LN_ARENA_HEADERS] = ln_engine_plan_header_bytes(model);
    plan->token_text_bytes = ln_constraints_measure(model);
    plan->kv_dtype = choose_kv_dtype(options);
    plan->kv_tokens = options->kv_tokens;
    plan->swap_bytes = options->swap_bytes;
    plan->shares_prefixes = options->prefix_cache && !model->spec.bidirectional;
    plan->scheduler = (ln_scheduler_options){
        .policy = options->policy,
        .order = options->order,
        .preemption = options->preemption,
        .max_long_prefills = options->max_long_prefills,
        .long_prefill_tokens = options->long_prefill_tokens,
    };
    if (options->serves)
        plan->n_seqs = ln_engine_plan_least_seqs(options);
    if (ln_engine_plan_serves(model, options, plan->n_ranks))
        LN_TRY(ln_engine_plan_choose_serving(model, options, backend, plan, err));
    else if (plan->ctx_tokens == 0)
        LN_TRY(ln_engine_plan_choose_ctx(model, options, backend, plan, err));
    ln_engine_plan_choose_steps(model, options, backend, plan);
    ln_engine_plan_budget(options, plan);
    return ln_engine_plan_arenas(&plan->spec, backend, plan, err);
}

/* The backend of the last layers. Where "auto" finds no GPU, the CPU runs all. */
static ln_status create_backend(linnet_engine_options *options,
                                const ln_backend_options *backend_options, ln_backend **backend,
                                ln_error *err) {
    bool is_auto = strcmp(options->backend, "auto") == 0, on_cpu = options->gpu_layers == 0;
    LN_TRY(ln_backend_create(on_cpu ? "cpu" : options->backend, backend_options, backend, err));
    if (is_auto && !(*backend)->vtable->on_device)
        options->gpu_layers = 0;
    return LINNET_OK;
}

static ln_status plan_adapters(const linnet_engine_options *options, ln_engine_plan *plan,
                               ln_error *err) {
    enum { DEFAULT_RANK = 16 };
    plan->n_adapters = options->max_adapters;
    if (plan->n_adapters > 0)
        plan->adapter_rank =
            options->max_adapter_rank > 0 ? options->max_adapter_rank : DEFAULT_RANK;
    plan->adapts_experts = options->adapt_experts && plan->n_adapters > 0;
    if (plan->adapts_experts && (plan->n_ranks > 1 || options->experts_from_disk > 0))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "adapt_experts needs one rank, and all experts in memory");
    return LINNET_OK;
}

/* Adapters are loaded to one memory, and a head reads both ends of a model. */
static ln_status check_split(const ln_engine_plan *plan, ln_error *err) {
    if (plan->adapts_experts && plan->cpu_experts.n_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "adapt_experts needs all experts on one side, but those of %zu of %zu "
                       "layers run on the CPU",
                       plan->cpu_experts.n_layers, plan->n_layers);
    const char *what = plan->n_adapters > 0                    ? "adapters need"
                       : plan->draft.kind == LN_DRAFTER_EAGLE  ? "draft eagle needs"
                       : plan->draft.kind == LN_DRAFTER_DFLASH ? "draft dflash needs"
                       : ln_engine_plan_has_head(plan)         ? "draft mtp needs"
                                                               : NULL;
    if (what == NULL || plan->cpu_layers.n_layers == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s all layers on one side, but %zu of %zu run on the CPU: gpu_layers 0 leaves "
                   "it all of them",
                   what, plan->cpu_layers.n_layers, plan->n_layers);
}

/* Makes the plan's spec that of the rank. What no rank would read shows in the whole alone. */
static ln_status divide(const linnet_model *model, const linnet_engine_options *options,
                        const ln_backend *backend, ln_engine_plan *plan, ln_error *err) {
    ln_mesh mesh = ln_engine_plan_mesh(options);
    ln_weights_plan whole;
    ln_dtype quantize;
    bool quantizes = options->quantize_on_load != NULL &&
                     ln_packed_on_load_type(options->quantize_on_load, &quantize);
    if (plan->n_ranks == 1)
        return LINNET_OK;
    if (mesh.n_stages > 1 || mesh.n_expert > 1) {
        ln_weights_options of_whole = {.ctx_tokens = options->ctx_tokens};
        LN_TRY(ln_weights_plan_bytes(model->checkpoint, &model->spec, &of_whole, backend, &whole,
                                     err));
    }
    LN_TRY(ln_shard_make(model->checkpoint, &model->spec, &mesh, quantizes ? &quantize : NULL,
                         &plan->spec, err));
    plan->rank_token_bytes = ln_shard_token_bytes(&plan->spec);
    return LINNET_OK;
}

ln_status ln_engine_plan_make(const linnet_model *model, const linnet_engine_options *asked,
                              const ln_rank_place *place, size_t engine_bytes, ln_backend **backend,
                              ln_engine_plan *plan, ln_error *err) {
    linnet_engine_options own = *asked;
    const linnet_engine_options *options = &own;
    *backend = NULL;
    *plan = (ln_engine_plan){.engine_bytes = engine_bytes};
    LN_TRY(ln_engine_plan_check_options(model, options, err));
    plan->pins_threads = options->pin_threads;
    plan->progress = (ln_load_progress){.fn = options->on_load, .user = options->load_user};
    plan->n_threads = options->n_threads > 0 ? options->n_threads : default_threads();
    ln_backend_options backend_options = {.isa = options->cpu,
                                          .n_threads = plan->n_threads,
                                          .max_seqs = options->max_seqs,
                                          .pin = options->pin_threads,
                                          .adapts = options->n_threads == 0,
                                          .lazy = options->lazy_weights,
                                          .lets_rows_vary = !options->batch_invariant,
                                          .exact = options->precision == LINNET_PRECISION_EXACT};
    const ln_mesh mesh = ln_engine_plan_mesh(options);
    plan->n_ranks = ln_mesh_count(&mesh);
    if (options->max_seqs == 0 && ln_engine_plan_serves(model, options, plan->n_ranks))
        backend_options.max_seqs = LN_SERVED_SEQS_GPU; /* which weights are packed for */
    backend_options.n_local = place != NULL ? place->n_local : plan->n_ranks;
    backend_options.local_rank = place != NULL ? place->local_rank : mesh.rank;
    LN_TRY(create_backend(&own, &backend_options, backend, err));
    plan->on_device = (*backend)->vtable->on_device;
    plan->n_layers = model->spec.n_layers;
    plan->spec = model->spec;
    ln_status status = plan_adapters(options, plan, err);
    if (status == LINNET_OK)
        status = ln_engine_plan_open_draft(options, &plan->draft, err);
    if (status == LINNET_OK)
        status = ln_engine_plan_choose_drafter(model, options, plan, err);
    if (status == LINNET_OK)
        status = ln_engine_plan_check_draft(model, plan, err);
    if (status == LINNET_OK)
        status = divide(model, options, *backend, plan, err);
    if (status == LINNET_OK)
        status = choose(model, options, *backend, plan, err);
    if (status == LINNET_OK)
        status =
            ln_engine_plan_offload_experts(model, options, *backend, &backend_options, plan, err);
    if (status == LINNET_OK && plan->cpu_experts.n_layers == 0)
        status = ln_engine_plan_offload(model, options, *backend, &backend_options, plan, err);
    if (status == LINNET_OK)
        status = check_split(plan, err);
    if (status != LINNET_OK) {
        ln_engine_plan_free(plan, *backend);
        *backend = NULL;
    }
    return status;
}
