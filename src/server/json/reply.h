/* Whole responses of JSON, and errors in OpenAI's shape. */
#ifndef LN_SERVER_JSON_REPLY_H
#define LN_SERVER_JSON_REPLY_H

#include "base/strbuf.h"
#include "server/http/exchange.h"
#include "server/json/error.h"

/* Both end the exchange. A buffer that has failed is answered with 503. */
void ln_reply_error(ln_exchange *exchange, const ln_api_error *error);
void ln_reply_json(ln_exchange *exchange, const ln_strbuf *json);

/* The error as a JSON object. */
void ln_reply_put_error(ln_strbuf *out, const ln_api_error *error);

#endif
