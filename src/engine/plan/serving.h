/* The sizes of a server, where they are left to the plan. */
#ifndef LN_ENGINE_PLAN_SERVING_H
#define LN_ENGINE_PLAN_SERVING_H

#include "engine/plan/plan.h"

enum {
    LN_SERVED_SEQS_GPU = 256,  /* sequences in a step */
    LN_SERVED_SEQS_LEAST = 16, /* also where sizes are not chosen */
};

/* How many sequences run in a step at least: as many as were asked for, or LN_SERVED_SEQS_LEAST. */
size_t ln_engine_plan_least_seqs(const linnet_engine_options *options);

/* Whether the plan chooses a server's sizes. */
bool ln_engine_plan_serves(const linnet_model *model, const linnet_engine_options *options,
                           size_t n_ranks);

/* Chooses sequences and tokens of a step, the KV cache and the context, by the rules of
 * linnet_engine_options.serves. The plan's weights are counted before. */
ln_status ln_engine_plan_choose_serving(const linnet_model *model,
                                        const linnet_engine_options *options,
                                        const ln_backend *backend, ln_engine_plan *plan,
                                        ln_error *err);

#endif
