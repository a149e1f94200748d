/* What endpoints of responses and conversations have in common. */
#ifndef LN_SERVER_API_STORED_OBJECT_H
#define LN_SERVER_API_STORED_OBJECT_H

#include "server/context.h"

enum { LN_STORED_ID_BYTES = 128 };

/* The part of the exchange's path behind `before`; "" when it is too long to be an id. */
void ln_stored_take_id(const ln_exchange *exchange, const char *before, char *id);

/* Answers with JSON, which it frees. */
void ln_stored_reply(ln_context *context, ln_exchange *exchange, char *json);
/* Answers that the object is deleted; `kind` is what it is called then. */
void ln_stored_reply_deleted(ln_context *context, ln_exchange *exchange, const char *id,
                             const char *kind);
/* Answers that there is none; `what` and `param` are what clients call it. */
void ln_stored_reply_missing(ln_exchange *exchange, const char *what, const char *param,
                             const char *id);

#endif
