/* The creation of requests, on the thread that submits: checks, memory, and the grammar. */
#ifndef LN_ENGINE_REQUEST_CREATE_H
#define LN_ENGINE_REQUEST_CREATE_H

#include "engine/adapters.h"
#include "engine/constraint.h"
#include "engine/plan/plan.h"
#include "engine/request/request.h"

/* What requests are made with; the engine's. */
typedef struct ln_request_factory {
    const linnet_model *model;
    const ln_engine_plan *plan;
    const ln_kv_cache *kv; /* says the roots of prefixes */
    ln_constraints *constraints;
    ln_adapters *adapters;
    atomic_bool *cancel_came; /* set when a request is cancelled */
} ln_request_factory;

/* Makes a request, to which the caller and the engine hold a reference each. Any thread. Errors:
 * those of linnet_request_submit. */
ln_status ln_request_create(const ln_request_factory *factory,
                            const linnet_request_options *options, linnet_request **request,
                            ln_error *err);

#endif
