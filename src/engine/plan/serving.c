#include "engine/plan/serving.h"

#include "engine/plan/choose.h"
#include "engine/plan/offload.h"

enum {
    SEQS_PER_THREAD = 4,
    SEQS_CPU = 64,
    SEQ_TOKENS = 1024, /* of each sequence that the KV cache has room for, or there are fewer */
    STEP_TOKENS = 4096,
    LEAST_STEP_TOKENS = 1024,
    KV_STEP = 256,   /* the KV cache holds a multiple of this */
    GPU_EIGHTHS = 7, /* of the memory that weights leave */
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

/* Whether a KV cache of so many tokens fits; 0: of max_seqs contexts. Sets it, and the context. */
static bool kv_fits(const choice *c, size_t kv_tokens) {
    size_t ctx = kv_tokens > 0 ? smaller(c->wanted_ctx, kv_tokens) : c->wanted_ctx;
    c->plan->kv_tokens = kv_tokens;
    return ln_engine_plan_set_ctx(c->model, c->backend, ctx, c->plan, NULL) == LINNET_OK &&
           ln_engine_plan_takes_part(c->backend, c->options, c->available, c->eighths, c->plan);
}

/* Whether every sequence has some room in the KV cache. */
static bool seqs_fit(const choice *c) {
    return kv_fits(c, c->plan->n_seqs * smaller(c->wanted_ctx, SEQ_TOKENS));
}

static void choose_seqs(const choice *c) {
    ln_engine_plan *plan = c->plan;
    size_t of_threads = SEQS_PER_THREAD * plan->n_threads;
    size_t most = plan->on_device ? (size_t)LN_SERVED_SEQS_GPU : smaller(of_threads, SEQS_CPU);
    plan->n_seqs = c->options->max_seqs;
    if (plan->n_seqs > 0)
        return;
    if (c->options->max_batch_tokens > 0)
        most = smaller(most, c->options->max_batch_tokens);
    plan->n_seqs = most;
    while (plan->n_seqs > LN_SERVED_SEQS_LEAST && !seqs_fit(c))
        plan->n_seqs /= 2;
    if (plan->n_seqs < LN_SERVED_SEQS_LEAST && c->options->max_batch_tokens == 0)
        plan->n_seqs = LN_SERVED_SEQS_LEAST;
}

/* Long steps read prompts faster on a GPU, and stop those that decode for longer. */
static void choose_step(const choice *c) {
    ln_engine_plan *plan = c->plan;
    if (c->options->max_batch_tokens > 0 || !plan->on_device || plan->step_tokens > 0)
        return;
    for (size_t n = STEP_TOKENS; n >= LEAST_STEP_TOKENS; n /= 2) {
        plan->step_tokens = n;
        if (seqs_fit(c))
            return;
    }
    plan->step_tokens = 0;
}

/* As large a KV cache as fits, up to max_seqs contexts. */
static void choose_kv(const choice *c) {
    size_t most = smaller(c->wanted_ctx * c->plan->n_seqs, INT32_MAX);
    if (kv_fits(c, 0))
        return;
    size_t low = 1, high = most / KV_STEP;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (kv_fits(c, middle * KV_STEP))
            low = middle;
        else
            high = middle - 1;
    }
    (void)kv_fits(c, low * KV_STEP);
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
    if (plan->on_device) /* or layers would go to the CPU */
        c.available -= smaller(c.available, LN_DEVICE_MARGIN_BYTES);
    bool is_whole = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes < c.available &&
                    options->gpu_layers <= 0 && options->cpu_experts == 0;
    if (!is_whole || ln_engine_plan_embeds(model, plan) || options->kv_tokens > 0) {
        plan->n_seqs = options->max_seqs > 0 ? options->max_seqs : LN_SERVED_SEQS_LEAST;
        return options->ctx_tokens > 0
                   ? LINNET_OK
                   : ln_engine_plan_choose_ctx(model, options, backend, plan, err);
    }
    choose_seqs(&c);
    choose_step(&c);
    choose_kv(&c);
    return ln_engine_plan_set_ctx(model, backend, plan->ctx_tokens, plan, err);
}
