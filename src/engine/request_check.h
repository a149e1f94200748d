/* Refusals of requests, by name. */
#ifndef LN_ENGINE_REQUEST_CHECK_H
#define LN_ENGINE_REQUEST_CHECK_H

#include "engine/engine.h"

/* Errors: ARGUMENT, LIMIT. */
ln_status ln_request_check(const linnet_engine *engine, const linnet_request_options *options,
                           ln_error *err);

#endif
