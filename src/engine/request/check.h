/* Refusals of requests, by name. */
#ifndef LN_ENGINE_REQUEST_CHECK_H
#define LN_ENGINE_REQUEST_CHECK_H

#include "engine/plan/plan.h"

enum { LN_MAX_SALT_BYTES = 256 };

/* Errors: ARGUMENT, LIMIT. */
ln_status ln_request_check(const linnet_model *model, const ln_engine_plan *plan,
                           const linnet_request_options *options, ln_error *err);

/* The sequences of a request that has passed the check. */
static inline size_t ln_request_sequences(const linnet_request_options *options) {
    size_t n = options->n > 0 ? options->n : 1;
    if (options->beam_width > 0)
        return options->beam_width;
    return options->best_of > n ? options->best_of : n;
}

/* The most tokens of output that each sequence has room for, in the context and in the cache. */
size_t ln_request_room(const ln_engine_plan *plan, const linnet_request_options *options);

#endif
