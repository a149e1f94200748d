/* Preemption: a running group gives up its blocks, and comes back later. They are copied to the
 * swap space, or freed and computed again, whichever costs less. */
#ifndef LN_ENGINE_PREEMPT_H
#define LN_ENGINE_PREEMPT_H

#include "base/layout.h"
#include "engine/queues.h"
#include "kv/cache.h"

/* What preemption costs, as measured; 0: not known. */
typedef struct ln_preemption_costs {
    double ns_per_token;                   /* of prefill */
    double ns_per_block[LN_KV_MAX_GROUPS]; /* of a copy */
} ln_preemption_costs;

typedef struct ln_preemption {
    linnet_preemption mode;
    ln_preemption_costs costs;        /* the engine writes them */
    size_t *rows, *row_tokens;        /* [max_seqs] of a group that moves */
    size_t n_swap_rows;               /* rows of swapped groups */
    uint64_t n_swapped, n_recomputed; /* groups so far */
} ln_preemption;

/* Adds the arrays to a layout and returns their offset; init takes that many bytes. */
size_t ln_preemption_plan(ln_layout *layout, size_t max_seqs);
void ln_preemption_init(ln_preemption *preemption, linnet_preemption mode, size_t max_seqs,
                        void *memory);

/* Takes a running group, none of whose sequences has a chunk in this step, out: to the swap space,
 * or to the waiting ones, to be computed again. */
void ln_preempt(ln_preemption *preemption, ln_queues *queues, ln_kv_cache *kv,
                ln_sequence_group *group);

/* Brings a swapped group back and runs it; false when there is no room. *place: among the running
 * ones. */
bool ln_preempt_resume(ln_preemption *preemption, ln_queues *queues, ln_kv_cache *kv,
                       ln_sequence_group *group, size_t *place);

#endif
