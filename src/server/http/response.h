/* Responses, whole or in parts. Nothing waits for the client: what it does not take is kept, within
 * a bound. */
#ifndef LN_SERVER_HTTP_RESPONSE_H
#define LN_SERVER_HTTP_RESPONSE_H

#include "server/http/exchange.h"

/* Adds a header to the response that has not begun. */
void ln_response_add_header(ln_exchange *exchange, const char *name, const char *value);

/* A whole response; the exchange is over and must not be used after. */
void ln_response_send(ln_exchange *exchange, int status, const char *type, const void *body,
                      size_t n_bytes);

/* A response in parts. write returns false once the client is gone or takes nothing any more
 * (on_gone follows). */
void ln_response_begin(ln_exchange *exchange, int status, const char *type);
bool ln_response_write(ln_exchange *exchange, const void *bytes, size_t n_bytes);
/* The same of a buffer; what it failed to take would be missing, so the response is cut then. */
bool ln_response_write_text(ln_exchange *exchange, const ln_strbuf *text);
/* How many bytes may be written before the client must take some. */
size_t ln_response_get_room(ln_exchange *exchange);
void ln_response_end(ln_exchange *exchange); /* the exchange is over */

#endif
