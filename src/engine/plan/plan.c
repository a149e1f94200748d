#include "engine/plan/plan.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "engine/api/options.h"
#include "engine/draft.h"
#include "engine/engine.h"
#include "engine/plan/cpu_layers.h"
#include "engine/step.h"
#include "model/forward.h"

enum {
    DEFAULT_BATCH_TOKENS = 512,
    SMALLEST_CHOSEN_CTX = 512, /* taken even when memory looks too small for it */
    CTX_STEP = 256,            /* a context that memory limits is a multiple of this */
    LONG_PREFILL_TOKENS = 1024,
    MAX_DRAFT_TOKENS = 64,
    SCORE_ROWS = 64,        /* rows of logits in a step, when no more sequences run */
    STACK_BYTES = 64 << 10, /* what a thread touches of its stack */
    LIBRARY_BYTES = 4 << 20 /* C library, dynamic linker, JSON and regex code */
};

void linnet_engine_options_init(linnet_engine_options *options) {
    *options = (linnet_engine_options){.struct_bytes = sizeof *options,
                                       .backend = "auto",
                                       .cpu = "auto",
                                       .gpu_layers = -1,
                                       .batch_invariant = true,
                                       .prefix_cache = true,
                                       .long_prefill_tokens = LONG_PREFILL_TOKENS};
}

/* ---- arenas ----------------------------------------------------------------------------- */

ln_engine_layout ln_engine_lay_out(const ln_spec *spec, const ln_step_budget *budget,
                                   ln_layout *layout) {
    ln_engine_layout e;
    ln_layout scheduler = {0};
    ln_layout_add(layout, 1, sizeof(linnet_engine));
    e.kv_layers = ln_layout_add(layout, ln_kv_layer_count(spec), sizeof(ln_kv_layer));
    e.swap_layers = ln_layout_add(layout, ln_kv_layer_count(spec), sizeof(ln_kv_layer));
    e.ops = ln_layout_add(layout, 2 * (2 + ln_forward_max_ops(spec)), sizeof(ln_op));
    ln_scheduler_plan(budget, &scheduler);
    e.scheduler = ln_layout_add(layout, scheduler.bytes, 1);
    layout->overflow |= scheduler.overflow;
    e.logits = ln_layout_add(layout, spec->n_vocab, sizeof(float));
    return e;
}

size_t ln_engine_tokenizer_bytes(const linnet_model *model) {
    return model->tokenizer != NULL ? ln_tokenizer_memory_bytes(model->tokenizer) : 0;
}

size_t ln_engine_header_bytes(const linnet_model *model) {
    return ln_checkpoint_header_bytes(model->checkpoint) + model->arena.reserved_bytes;
}

size_t ln_engine_max_encoder(const ln_engine_plan *plan) {
    size_t budget = plan->budget.max_tokens;
    return budget < plan->ctx_tokens ? budget : plan->ctx_tokens;
}

static ln_status size_host_arenas(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_layout blocks = {0}, batch = {0}, sampler = {0}, engine = {0}, masks = {0};
    ln_kv_cache_plan(&plan->kv_shape, &blocks);
    ln_step_plan(&plan->budget, &plan->kv_shape, &batch);
    ln_rows_plan(plan, spec->n_vocab, &sampler);
    ln_engine_lay_out(spec, &plan->budget, &engine);
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

ln_status ln_engine_size_arenas(const ln_spec *spec, const ln_backend *backend,
                                ln_engine_plan *plan, ln_error *err) {
    LN_TRY(ln_engine_size_kv(spec, plan, err));
    LN_TRY(size_host_arenas(spec, plan, err));
    LN_TRY(ln_activations_plan(spec, plan->budget.max_tokens, plan->budget.max_logits,
                               &plan->bytes[LN_ARENA_ACTIVATIONS], err));
    plan->limits =
        ln_step_limits_of(spec, plan->budget.max_tokens, plan->budget.max_seqs, plan->ctx_tokens);
    plan->limits.max_blocks = ln_kv_table_blocks(plan->ctx_tokens);
    plan->limits.max_read_bytes = plan->budget.max_logits * spec->n_vocab * sizeof(float);
    LN_TRY(ln_front_plan_rest(spec, plan, err));
    LN_TRY(ln_draft_plan_rest(plan, err));
    plan->bytes[LN_ARENA_SCRATCH] = backend->vtable->plan_scratch(backend, &plan->limits);
    size_t total = 0;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        if (!ln_add(total, plan->bytes[i], &total))
            return ln_fail(err, LINNET_ERR_LIMIT, "the sum of the arenas overflows");
    return LINNET_OK;
}

/* ---- choices ---------------------------------------------------------------------------- */

void ln_engine_choose_budget(const linnet_engine_options *options, ln_engine_plan *plan) {
    size_t max_seqs = options->max_seqs > 0 ? options->max_seqs : 1;
    size_t max_tokens = options->max_batch_tokens;
    if (max_tokens == 0) {
        const size_t most = plan->ctx_tokens * max_seqs; /* neither is over INT32_MAX */
        max_tokens = most < DEFAULT_BATCH_TOKENS ? most : DEFAULT_BATCH_TOKENS;
        max_tokens = max_tokens < max_seqs ? max_seqs : max_tokens;
    }
    size_t max_logits = max_seqs * (1 + options->draft_tokens);
    max_logits = max_logits < SCORE_ROWS ? SCORE_ROWS : max_logits;
    plan->budget = (ln_step_budget){
        .max_seqs = max_seqs,
        .max_tokens = max_tokens,
        .max_logits = max_logits < max_tokens ? max_logits : max_tokens,
    };
}

/* Whether all but the weights takes at most half of the memory that they leave. */
static bool fits(const ln_spec *spec, const ln_backend *backend,
                 const linnet_engine_options *options, size_t ctx_tokens, size_t available,
                 ln_engine_plan *plan) {
    plan->ctx_tokens = ctx_tokens;
    ln_engine_choose_budget(options, plan);
    if (ln_engine_size_arenas(spec, backend, plan, NULL) != LINNET_OK)
        return false;
    size_t weights = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    size_t others = 0;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        others += i == LN_ARENA_WEIGHTS ? 0 : plan->bytes[i];
    return weights < available && others <= (available - weights) / 2;
}

static size_t choose_ctx(const ln_spec *spec, const ln_backend *backend,
                         const linnet_engine_options *options, ln_engine_plan *plan) {
    size_t available = backend->vtable->available_bytes(backend);
    size_t most = spec->ctx_tokens < INT32_MAX ? spec->ctx_tokens : INT32_MAX;
    if (spec->max_ctx_tokens > 0 && spec->max_ctx_tokens < most)
        most = spec->max_ctx_tokens;
    if (most <= SMALLEST_CHOSEN_CTX || fits(spec, backend, options, most, available, plan))
        return most;
    size_t low = SMALLEST_CHOSEN_CTX / CTX_STEP, high = most / CTX_STEP;
    while (low < high) { /* the most steps that fit are in [low, high] */
        size_t middle = high - (high - low) / 2;
        if (fits(spec, backend, options, middle * CTX_STEP, available, plan))
            low = middle;
        else
            high = middle - 1;
    }
    return low * CTX_STEP;
}

static ln_status check_scheduling(const linnet_engine_options *options, ln_error *err) {
    const struct {
        const char *name;
        unsigned value, last;
    } choices[] = {
        {"preemption", (unsigned)options->preemption, LINNET_PREEMPTION_RECOMPUTE},
        {"policy", (unsigned)options->policy, LINNET_POLICY_PREFILL_FIRST},
        {"order", (unsigned)options->order, LINNET_ORDER_PRIORITY},
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

static ln_status check_options(const linnet_model *model, const linnet_engine_options *options,
                               ln_error *err) {
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
    if (options->draft_model != NULL && options->draft_tokens == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "draft_model is given, but draft_tokens is 0: it would guess nothing");
    if (options->draft_tokens > MAX_DRAFT_TOKENS)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "draft_tokens is %zu; at most %d are possible",
                       options->draft_tokens, MAX_DRAFT_TOKENS);
    LN_TRY(check_scheduling(options, err));
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

static size_t default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (size_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
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

/* ---- the plan --------------------------------------------------------------------------- */

ln_status ln_engine_size_weights(const linnet_model *model, const ln_backend *backend,
                                 ln_engine_plan *plan, ln_error *err) {
    ln_weights_plan weights;
    ln_weights_options options = ln_engine_weights_options(plan);
    LN_TRY(
        ln_weights_plan_bytes(model->checkpoint, &model->spec, &options, backend, &weights, err));
    plan->bytes[LN_ARENA_WEIGHTS] = weights.prepared_bytes;
    plan->bytes[LN_ARENA_TABLES] = weights.table_bytes;
    plan->mapped_bytes = weights.mapped_bytes;
    return ln_draft_plan_weights(plan, backend, err);
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
    LN_TRY(ln_engine_size_weights(model, backend, plan, err));
    plan->bytes[LN_ARENA_TOKENIZER] = ln_engine_tokenizer_bytes(model);
    plan->bytes[LN_ARENA_HEADERS] = ln_engine_header_bytes(model);
    plan->token_text_bytes = ln_constraints_measure(model);
    plan->kv_dtype = choose_kv_dtype(options);
    plan->kv_tokens = options->kv_tokens;
    plan->swap_bytes = options->swap_bytes;
    plan->shares_prefixes = options->prefix_cache;
    plan->draft_tokens = options->draft_tokens;
    plan->scheduler = (ln_scheduler_options){
        .policy = options->policy,
        .order = options->order,
        .preemption = options->preemption,
        .max_long_prefills = options->max_long_prefills,
        .long_prefill_tokens = options->long_prefill_tokens,
    };
    plan->ctx_tokens = options->ctx_tokens;
    if (plan->ctx_tokens == 0)
        plan->ctx_tokens = choose_ctx(&model->spec, backend, options, plan);
    ln_engine_choose_budget(options, plan);
    return ln_engine_size_arenas(&model->spec, backend, plan, err);
}

/* The backend of the last layers. */
static ln_status create_backend(const linnet_engine_options *options,
                                const ln_backend_options *backend_options, ln_backend **backend,
                                ln_error *err) {
    const char *name = options->gpu_layers == 0 ? "cpu" : options->backend;
    LN_TRY(ln_backend_create(name, backend_options, backend, err));
    if (options->gpu_layers <= 0 || (*backend)->vtable->on_device || strcmp(name, "auto") != 0)
        return LINNET_OK;
    (*backend)->vtable->destroy(*backend);
    *backend = NULL;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "gpu_layers is %d, but no GPU can be used",
                   (int)options->gpu_layers);
}

ln_status ln_engine_plan_make(const linnet_model *model, const linnet_engine_options *options,
                              ln_backend **backend, ln_engine_plan *plan, ln_error *err) {
    linnet_engine_options own;
    linnet_engine_options_init(&own);
    *backend = NULL;
    *plan = (ln_engine_plan){0};
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_engine_options", err));
    LN_TRY(check_options(model, &own, err));
    plan->pins_threads = own.pin_threads;
    plan->progress = (ln_load_progress){.fn = own.on_load, .user = own.load_user};
    plan->n_threads = own.n_threads > 0 ? own.n_threads : default_threads();
    ln_backend_options backend_options = {.isa = own.cpu,
                                          .n_threads = plan->n_threads,
                                          .pin = own.pin_threads,
                                          .adapts = own.n_threads == 0,
                                          .lazy = own.lazy_weights,
                                          .lets_rows_vary = !own.batch_invariant,
                                          .exact = own.precision == LINNET_PRECISION_EXACT};
    LN_TRY(create_backend(&own, &backend_options, backend, err));
    plan->on_device = (*backend)->vtable->on_device;
    plan->n_layers = model->spec.n_layers;
    ln_status status = ln_draft_open(model, own.draft_model, &plan->draft, err);
    if (status == LINNET_OK)
        status = choose(model, &own, *backend, plan, err);
    if (status == LINNET_OK)
        status = ln_front_plan_make(model, &own, *backend, &backend_options, plan, err);
    if (status != LINNET_OK) {
        ln_engine_plan_free(plan, *backend);
        *backend = NULL;
    }
    return status;
}

void ln_engine_plan_free(ln_engine_plan *plan, ln_backend *backend) {
    linnet_model_close(plan->draft.model);
    if (plan->front.backend != NULL)
        plan->front.backend->vtable->destroy(plan->front.backend);
    backend->vtable->destroy(backend);
}

size_t ln_engine_device_bytes(const ln_engine_plan *plan, const size_t *bytes) {
    const ln_draft_plan *draft = &plan->draft;
    return bytes[LN_ARENA_WEIGHTS] + bytes[LN_ARENA_KV] + bytes[LN_ARENA_ACTIVATIONS] +
           bytes[LN_ARENA_SCRATCH] + draft->prepared_bytes + draft->kv_bytes +
           draft->activation_bytes;
}

void ln_engine_plan_report(const ln_engine_plan *plan, const size_t *bytes,
                           linnet_memory_plan *report) {
    static const char *const names[] = {
#define ARENA_NAME(id, name) [id] = name,
        LN_ARENAS(ARENA_NAME)
#undef ARENA_NAME
    };
    _Static_assert((int)LN_ARENA_COUNT <= (int)LINNET_MAX_ARENAS, "every arena is reported");
    linnet_memory_plan full = {
        .ctx_tokens = plan->ctx_tokens,
        .max_seqs = plan->budget.max_seqs,
        .max_batch_tokens = plan->budget.max_tokens,
        .n_threads = plan->n_threads,
        .n_arenas = LN_ARENA_COUNT,
        .mapped_bytes = plan->mapped_bytes + plan->front.mapped_bytes,
        .libraries_bytes = LIBRARY_BYTES + plan->n_threads * STACK_BYTES,
    };
    for (size_t i = 0; i < LN_ARENA_COUNT; i++) {
        full.arenas[i].name = names[i];
        full.arenas[i].bytes = bytes[i];
        full.total_bytes += bytes[i];
    }
    if (plan->on_device)
        full.device_bytes = ln_engine_device_bytes(plan, bytes);
    full.gpu_layers = plan->on_device ? plan->n_layers - plan->front.n_layers : 0;
    ln_options_give(&full, sizeof full, report);
}

linnet_status linnet_plan_memory(const linnet_model *model, const linnet_engine_options *options,
                                 linnet_memory_plan *plan, linnet_error *err) {
    ln_engine_plan own;
    ln_backend *backend;
    LN_TRY(ln_engine_plan_make(model, options, &backend, &own, err));
    ln_engine_plan_free(&own, backend);
    ln_engine_plan_report(&own, own.bytes, plan);
    return LINNET_OK;
}
