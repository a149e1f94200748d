#include "engine/plan/serving.h"

#include "engine/plan/choose.h"
#include "engine/plan/offload.h"

enum {
    SEQS_PER_THREAD = 4,
    SEQS_CPU = 64,
    STEP_TOKENS = 4096,
    LEAST_STEP_TOKENS = 1024,
    KV_STEP = 256,         /* a KV cache that memory limits holds a multiple of this */
    LEAST_KV_TOKENS = 512, /* where no context was asked for */
    GPU_EIGHTHS = 7,       /* of the memory that weights leave */
    CPU_EIGHTHS = 4,
};

/* The sizes are chosen among those with which all but the weights fits. */
typedef struct choice {
    const linnet_model *model;
    const linnet_engine_options *options;
    const ln_backend *backend;
    ln_engine_plan *plan;
    size_t available, eighths;
    size_t wanted_ctx; /* asked for, or the model's own */
} choice;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t ln_engine_plan_least_seqs(const linnet_engine_options *options) {
    const size_t least = LN_SERVED_SEQS_LEAST, most = options->max_batch_tokens;
    return options->max_seqs > 0 ? options->max_seqs : most > 0 ? smaller(least, most) : least;
}

bool ln_engine_plan_serves(const linnet_model *model, const linnet_engine_options *options,
                           size_t n_ranks) {
    const ln_spec *spec = &model->spec;
    bool is_whole = options->gpu_layers <= 0 || (size_t)options->gpu_layers >= spec->n_layers;
    return options->serves && n_ranks == 1 && is_whole && !ln_engine_plan_embeds(model, spec) &&
           options->kv_tokens == 0 && options->cpu_experts <= 0 && options->experts_from_disk == 0;
}

/* Whether a KV cache of so many tokens fits; 0: of n_seqs contexts. Sets it, and the context. */
static bool kv_fits(const choice *c, size_t kv_tokens) {
    size_t ctx = kv_tokens > 0 ? smaller(c->wanted_ctx, kv_tokens) : c->wanted_ctx;
    c->plan->kv_tokens = kv_tokens;
    return ln_engine_plan_set_ctx(c->model, c->backend, ctx, c->plan, NULL) == LINNET_OK &&
           ln_engine_plan_fits_share(c->backend, c->options, c->available, c->eighths, c->plan) &&
           (!c->plan->on_device || ln_engine_plan_fits(c->backend, c->plan));
}

/* Whether every sequence has some room in the KV cache. */
static bool seqs_fit(const choice *c) {
    return kv_fits(c, c->plan->n_seqs * smaller(c->wanted_ctx, LN_SERVED_SEQ_TOKENS));
}

static void choose_seqs(const choice *c) {
    ln_engine_plan *plan = c->plan;
    size_t least = ln_engine_plan_least_seqs(c->options), most = c->options->max_seqs;
    if (most == 0) {
        most = plan->on_device ? (size_t)LN_SERVED_SEQS_GPU
                               : smaller(SEQS_PER_THREAD * plan->n_threads, SEQS_CPU);
        if (c->options->max_batch_tokens > 0)
            most = smaller(most, c->options->max_batch_tokens);
    }
    plan->n_seqs = most > least ? most : least;
    while (plan->n_seqs > least && !seqs_fit(c))
        plan->n_seqs = plan->n_seqs / 2 > least ? plan->n_seqs / 2 : least;
}

/* Long steps read prompts faster on a GPU, and stop those that decode for longer. */
static void choose_step(const choice *c) {
    ln_engine_plan *plan = c->plan;
    if (c->options->max_batch_tokens > 0 || !plan->on_device)
        return;
    for (size_t n = STEP_TOKENS; n >= LEAST_STEP_TOKENS; n /= 2) {
        plan->step_tokens = n;
        if (seqs_fit(c))
            return;
    }
    plan->step_tokens = 0;
}

/* As large a KV cache as fits, up to n_seqs contexts, and no smaller than one that was asked for.
 * False: none does. */
static bool choose_kv(const choice *c) {
    size_t least =
        c->options->ctx_tokens > 0 ? c->wanted_ctx : smaller(c->wanted_ctx, LEAST_KV_TOKENS);
    size_t low = (least + KV_STEP - 1) / KV_STEP;
    size_t high = smaller(c->wanted_ctx * c->plan->n_seqs, INT32_MAX) / KV_STEP;
    if (kv_fits(c, 0))
        return true;
    if (!kv_fits(c, low * KV_STEP))
        return false;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (kv_fits(c, middle * KV_STEP))
            low = middle;
        else
            high = middle - 1;
    }
    return kv_fits(c, low * KV_STEP);
}

ln_status ln_engine_plan_choose_serving(const linnet_model *model,
                                        const linnet_engine_options *options,
                                        const ln_backend *backend, ln_engine_plan *plan,
                                        ln_error *err) {
    choice c = {.model = model,
                .options = options,
                .backend = backend,
                .plan = plan,
                .available = backend->vtable->available_bytes(backend),
                .eighths = plan->on_device ? GPU_EIGHTHS : CPU_EIGHTHS,
                .wanted_ctx = options->ctx_tokens > 0 ? options->ctx_tokens
                                                      : ln_engine_plan_most_ctx(&plan->spec)};
    plan->shares_windows = true;
    choose_seqs(&c);
    choose_step(&c);
    if (choose_kv(&c))
        return ln_engine_plan_set_ctx(model, backend, plan->ctx_tokens, plan, err);
    plan->shares_windows = false;
    plan->kv_tokens = plan->step_tokens = 0;
    plan->n_seqs = ln_engine_plan_least_seqs(options);
    return options->ctx_tokens > 0
               ? ln_engine_plan_set_ctx(model, backend, options->ctx_tokens, plan, err)
               : ln_engine_plan_choose_ctx(model, options, backend, plan, err);
}
