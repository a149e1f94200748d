#include "engine/stats.h"

void ln_stats_observe(ln_stats *stats, const ln_scheduler *scheduler) {
    const ln_kv_cache *kv = scheduler->kv;
    size_t n_blocks = 0, n_available = 0, n_cached = 0, n_swap = 0, n_swap_free = 0;
    for (size_t g = 0; g < kv->n_groups; g++) {
        n_blocks += kv->groups[g].pool.n_blocks;
        n_cached += kv->groups[g].pool.n_cached;
        n_available += ln_block_pool_available(&kv->groups[g].pool);
        n_swap += kv->groups[g].swap.n_blocks;
        n_swap_free += kv->groups[g].swap.n_free;
    }
    ln_stat_set(&stats->n_kv_blocks, n_blocks);
    ln_stat_set(&stats->n_kv_used, n_blocks - n_available);
    ln_stat_set(&stats->n_kv_cached, n_cached);
    ln_stat_set(&stats->n_swap_blocks, n_swap);
    ln_stat_set(&stats->n_swap_used, n_swap - n_swap_free);
    ln_stat_set(&stats->n_waiting, scheduler->queues.waiting.n_groups);
    ln_stat_set(&stats->n_running, scheduler->queues.n_running);
    ln_stat_set(&stats->n_swapped, scheduler->queues.swapped.n_groups);
    ln_stat_set(&stats->n_prompt_tokens, scheduler->n_prompt_tokens);
    ln_stat_set(&stats->n_prefix_query_tokens, kv->n_query_tokens);
    ln_stat_set(&stats->n_prefix_hit_tokens, kv->n_hit_tokens);
    ln_stat_set(&stats->n_swap_preemptions, scheduler->preemption.n_swapped);
    ln_stat_set(&stats->n_recompute_preemptions, scheduler->preemption.n_recomputed);
    ln_stat_set(&stats->n_swapped_blocks, kv->n_swapped_blocks);
}

linnet_engine_stats ln_stats_read(ln_stats *stats) {
    return (linnet_engine_stats){.struct_bytes = sizeof(linnet_engine_stats),
#define TAKE(name) .name = atomic_load_explicit(&stats->name, memory_order_relaxed),
                                 LN_STATS(TAKE)
#undef TAKE
    };
}
