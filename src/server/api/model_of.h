/* The model that a request without a body is about. */
#ifndef LN_SERVER_API_MODEL_OF_H
#define LN_SERVER_API_MODEL_OF_H

#include "server/context.h"
#include "server/http/exchange.h"

/* The one that "?model=" names, or the loaded one that was used last. NULL where that is not open:
 * then the exchange has been answered with why. */
const ln_served_model *ln_model_of(const ln_context *context, ln_exchange *exchange);

#endif
