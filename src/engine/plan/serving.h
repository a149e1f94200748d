/* The sizes of a server, where they are left to the plan. */
#ifndef LN_ENGINE_PLAN_SERVING_H
#define LN_ENGINE_PLAN_SERVING_H

#include "engine/plan/plan.h"

enum {
    LN_SERVED_SEQS_GPU = 256,  /* sequences in a step */
    LN_SERVED_SEQS_LEAST = 16, /* also of ranks, and of models larger than a GPU */
};

/* Chooses sequences and tokens of a step, the KV cache and the context
 * (linnet_engine_options.serves says by which rules), for one rank. The plan's weights are counted
 * before. */
ln_status ln_engine_plan_choose_serving(const linnet_model *model,
                                        const linnet_engine_options *options,
                                        const ln_backend *backend, ln_engine_plan *plan,
                                        ln_error *err);

#endif
