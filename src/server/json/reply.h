/* Whole responses of JSON, and errors in the shape that the clients of an API expect. */
#ifndef LN_SERVER_JSON_REPLY_H
#define LN_SERVER_JSON_REPLY_H

#include "base/strbuf.h"
#include "server/http/exchange.h"
#include "server/json/error.h"

typedef enum ln_dialect {
    LN_DIALECT_OPENAI = 0,
    LN_DIALECT_MESSAGES, /* Anthropic's */
    LN_DIALECT_OLLAMA
} ln_dialect;

/* Both end the exchange, whose dialect says how an error is written. A buffer that has failed is
 * answered with 503. */
void ln_reply_error(ln_exchange *exchange, const ln_api_error *error);
void ln_reply_json(ln_exchange *exchange, const ln_strbuf *json);

/* The error as a JSON object: OpenAI's, and that of a dialect. `request_id`, for dialects whose
 * errors have it; NULL: left out. */
void ln_reply_put_error(ln_strbuf *out, const ln_api_error *error);
void ln_reply_put_error_in(ln_dialect dialect, ln_strbuf *out, const ln_api_error *error,
                           const char *request_id);

#endif
