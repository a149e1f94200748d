#include "server/models/engine_counts.h"

bool ln_engine_counts_work(const linnet_engine_stats *stats) {
    return stats->n_waiting + stats->n_running + stats->n_swapped > 0;
}

void ln_engine_counts_add(linnet_engine_stats *sum, linnet_engine *engine) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    sum->n_waiting += stats.n_waiting;
    sum->n_running += stats.n_running;
    sum->n_swapped += stats.n_swapped;
    sum->n_kv_blocks += stats.n_kv_blocks;
    sum->n_kv_used += stats.n_kv_used;
    sum->n_steps += stats.n_steps;
    sum->is_lost |= stats.is_lost;
    if (stats.n_failed_steps > sum->n_failed_steps)
        sum->n_failed_steps = stats.n_failed_steps;
}
