/* linnet_engine_*, linnet_plan_memory. */
#include "engine/api/options.h"
#include "engine/create.h"
#include "engine/plan/make.h"

enum { LONG_PREFILL_TOKENS = 1024 };

void linnet_engine_options_init(linnet_engine_options *options) {
    *options = (linnet_engine_options){.struct_bytes = sizeof *options,
                                       .backend = "auto",
                                       .cpu = "auto",
                                       .gpu_layers = -1,
                                       .batch_invariant = true,
                                       .prefix_cache = true,
                                       .long_prefill_tokens = LONG_PREFILL_TOKENS};
}

linnet_status linnet_plan_memory(const linnet_model *model, const linnet_engine_options *options,
                                 linnet_memory_plan *plan, linnet_error *err) {
    linnet_engine_options own;
    ln_engine_plan made;
    ln_backend *backend;
    linnet_engine_options_init(&own);
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_engine_options", err));
    LN_TRY(ln_engine_plan_make(model, &own, NULL, sizeof(linnet_engine), &backend, &made, err));
    ln_engine_plan_free(&made, backend);
    linnet_memory_plan full = ln_engine_plan_report(&made, made.bytes);
    ln_options_give(&full, sizeof full, plan);
    return LINNET_OK;
}

linnet_status linnet_engine_create(const linnet_model *model, const linnet_engine_options *options,
                                   linnet_engine **engine, linnet_error *err) {
    linnet_engine_options own;
    *engine = NULL;
    linnet_engine_options_init(&own);
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_engine_options", err));
    return ln_engine_create(model, &own, engine, err);
}

void linnet_engine_destroy(linnet_engine *engine) {
    ln_engine_destroy(engine);
}

linnet_status linnet_engine_follow(linnet_engine *engine, bool *follows, linnet_error *err) {
    *follows = engine->ranks.rank > 0;
    return *follows ? ln_engine_follow(engine, err) : LINNET_OK;
}

void linnet_engine_get_memory(const linnet_engine *engine, linnet_memory_plan *plan) {
    linnet_memory_plan full = ln_engine_memory(engine);
    ln_options_give(&full, sizeof full, plan);
}

void linnet_engine_get_stats(linnet_engine *engine, linnet_engine_stats *stats) {
    linnet_engine_stats full = ln_engine_stats(engine);
    ln_options_give(&full, sizeof full, stats);
}
