/* Makes plans. */
#ifndef LN_ENGINE_PLAN_MAKE_H
#define LN_ENGINE_PLAN_MAKE_H

#include "engine/plan/plan.h"

/* Where a rank runs. */
typedef struct ln_rank_place {
    size_t n_local, local_rank; /* ranks on this machine, and which of them it is */
} ln_rank_place;

/* Checks the options, creates the backend that they name, opens the draft model and chooses every
 * size; engine_bytes: of struct linnet_engine. place NULL: all ranks are on this machine, in order.
 * Reads no tensor data but what opening read. */
ln_status ln_engine_plan_make(const linnet_model *model, const linnet_engine_options *options,
                              const ln_rank_place *place, size_t engine_bytes, ln_backend **backend,
                              ln_engine_plan *plan, ln_error *err);

/* Threads of one of n_local ranks on this machine: its share, unless the launcher has given each
 * rank processors of its own. */
size_t ln_engine_plan_rank_threads(size_t n_local);

#endif
