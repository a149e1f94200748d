/* The numbers of linnet_engine_get_stats: written by the engine thread, read by any. */
#ifndef LN_ENGINE_STATS_H
#define LN_ENGINE_STATS_H

#include <linnet.h>
#include <stdatomic.h>

#include "engine/scheduler.h"

/* Fields of linnet_engine_stats. */
#define LN_STATS(X)                                                                                \
    X(n_waiting)                                                                                   \
    X(n_running)                                                                                   \
    X(n_swapped)                                                                                   \
    X(n_kv_blocks)                                                                                 \
    X(n_kv_used)                                                                                   \
    X(n_kv_cached)                                                                                 \
    X(n_swap_blocks)                                                                               \
    X(n_swap_used)                                                                                 \
    X(n_steps)                                                                                     \
    X(n_computed_tokens)                                                                           \
    X(n_prompt_tokens)                                                                             \
    X(n_output_tokens)                                                                             \
    X(n_prefix_query_tokens)                                                                       \
    X(n_prefix_hit_tokens)                                                                         \
    X(n_swap_preemptions)                                                                          \
    X(n_recompute_preemptions)                                                                     \
    X(n_swapped_blocks)                                                                            \
    X(n_requests)                                                                                  \
    X(n_draft_tokens)                                                                              \
    X(n_accepted_tokens)                                                                           \
    X(is_lost)                                                                                     \
    X(n_failed_steps)                                                                              \
    X(n_expert_hits)                                                                               \
    X(n_expert_reads)                                                                              \
    X(n_expert_bytes)

typedef struct ln_stats {
#define LN_STATS_FIELD(name) _Atomic uint64_t name;
    LN_STATS(LN_STATS_FIELD)
#undef LN_STATS_FIELD
} ln_stats;

/* There is one writer, so a load and a store do; a reader that has an event sees what came before
 * it. */
static inline void ln_stat_add(_Atomic uint64_t *stat, uint64_t n) {
    uint64_t before = atomic_load_explicit(stat, memory_order_relaxed);
    atomic_store_explicit(stat, before + n, memory_order_relaxed);
}
static inline void ln_stat_set(_Atomic uint64_t *stat, uint64_t n) {
    atomic_store_explicit(stat, n, memory_order_relaxed);
}

/* Sets what is so now, and what the scheduler and its cache count. */
void ln_stats_observe(ln_stats *stats, const ln_scheduler *scheduler);

/* All of them. Any thread. */
linnet_engine_stats ln_stats_read(ln_stats *stats);

#endif
