#include "engine/stats.h"

#include "engine/api/options.h"
#include "engine/engine.h"

void linnet_engine_get_stats(linnet_engine *engine, linnet_engine_stats *stats) {
    linnet_engine_stats full = {
#define TAKE(name) .name = atomic_load_explicit(&engine->stats.name, memory_order_relaxed),
        LN_STATS(TAKE)
#undef TAKE
    };
    pthread_mutex_lock(&engine->mutex);
    full.n_waiting += engine->submitted.n_groups;
    pthread_mutex_unlock(&engine->mutex);
    ln_options_give(&full, sizeof full, stats);
}
