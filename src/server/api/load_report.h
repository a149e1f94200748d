/* Reports of the load in responses (ORCA, Open Request Cost Aggregation: the text and JSON forms of
 * xds.data.orca.v3.OrcaLoadReport in the header endpoint-load-metrics), by which proxies choose
 * among replicas. */
#ifndef LN_SERVER_API_LOAD_REPORT_H
#define LN_SERVER_API_LOAD_REPORT_H

#include "server/context.h"
#include "server/http/exchange.h"

/* Adds the header to the response if the request's endpoint-load-metrics-format asks for it: the
 * load when the request came. */
void ln_load_report_add(const ln_context *context, ln_exchange *exchange);

#endif
