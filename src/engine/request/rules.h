/* A request's own copy of its rules for certain tokens. */
#ifndef LN_ENGINE_REQUEST_RULES_H
#define LN_ENGINE_REQUEST_RULES_H

#include "base/layout.h"
#include "model/model.h"
#include "sampling/sampler.h"

/* How many ids stop it. */
size_t ln_request_stop_ids(const linnet_model *model, const linnet_request_options *options);

/* Adds the copies to a layout and returns their offset; init writes them to `memory` at it. Stop
 * ids are the request's and, unless it ignores them, the model's. */
size_t ln_request_rules_plan(ln_layout *layout, const linnet_model *model,
                             const linnet_request_options *options);
void ln_request_rules_init(ln_token_rules *rules, const linnet_model *model,
                           const linnet_request_options *options, void *memory);

static inline bool ln_request_rules_stop(const ln_token_rules *rules, int32_t id) {
    for (size_t i = 0; i < rules->n_stop_ids; i++)
        if (rules->stop_ids[i] == id)
            return true;
    return false;
}

#endif
