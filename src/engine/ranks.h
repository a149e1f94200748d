/* The ranks of an engine. Rank 0 owns scheduler and sampler; before each step it tells the others
 * what the step is, and they run the same operations on their parts of the model. A step that fails
 * for want of a rank ends the engine. */
#ifndef LN_ENGINE_RANKS_H
#define LN_ENGINE_RANKS_H

#include "dist/collectives.h"
#include "engine/step.h"

/* Where a step is put together for the others, and where they take it from. */
typedef struct ln_rank_link {
    ln_collectives *ranks; /* the engine's */
    int32_t *words;        /* [max_words] */
    size_t max_words;
} ln_rank_link;

typedef enum ln_rank_order {
    LN_RANK_STOP = 0,
    LN_RANK_STEP,
    LN_RANK_ENCODE,
    LN_RANK_RESULTS, /* those that are pending of the step before */
    LN_RANK_ADAPTER
} ln_rank_order;

/* Adds the words of the largest step to a layout that holds others, and points to them. */
void ln_rank_link_plan(const ln_step_budget *budget, const ln_kv_shape *shape, ln_layout *layout);
void ln_rank_link_init(ln_rank_link *link, ln_collectives *ranks, const ln_step_budget *budget,
                       const ln_kv_shape *shape, void *memory);

/* Rank 0: tells the step behind copies[n_copies]; or that there are no more. With one
 * rank both do nothing. */
ln_status ln_rank_link_tell(ln_rank_link *link, bool is_encoding, const ln_step *step,
                            const ln_block_copy *copies, size_t n_copies, ln_error *err);
void ln_rank_link_stop(ln_rank_link *link);
/* Rank 0: tells that no step follows the last one, whose results are pending. */
ln_status ln_rank_link_tell_results(ln_rank_link *link, ln_error *err);
/* Rank 0: tells which adapter a slot has, and waits until all ranks have it. */
ln_status ln_rank_link_tell_adapter(ln_rank_link *link, size_t slot, const char *path, float scale,
                                    ln_error *err);
/* The others, of an order LN_RANK_ADAPTER: what it says; then they agree (ln_ranks_agree). The path
 * lasts until the next order. */
void ln_rank_link_adapter(const ln_rank_link *link, size_t *slot, const char **path, float *scale);

/* The others: wait for the next step, which is then in *step and copies[*n_copies]. device_tokens:
 * where the backend has those that the step before shares. */
ln_status ln_rank_link_take(ln_rank_link *link, ln_rank_order *order, ln_step *step,
                            const int32_t *device_tokens, ln_block_copy *copies, size_t max_copies,
                            size_t *n_copies, ln_error *err);

/* All ranks: the first one whose answer is not `own`; as many as there are: all answer alike. */
ln_status ln_ranks_find_other(ln_collectives *ranks, bool own, size_t *other, ln_error *err);

/* All ranks: fails on all of them when one has failed, with *err where that is another. */
ln_status ln_ranks_agree(ln_collectives *ranks, ln_status own, ln_error *err);

#endif
