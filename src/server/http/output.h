/* From a connection's output buffer to its socket. */
#ifndef LN_SERVER_HTTP_OUTPUT_H
#define LN_SERVER_HTTP_OUTPUT_H

#include "server/http/connection.h"

/* Writes what the socket takes; the rest follows when it takes more. */
void ln_output_flush(ln_connection *connection);

/* Appends bytes to `out`; without memory for them the connection is doomed, since a response that
 * lacks a part must not look whole. */
void ln_output_add(ln_connection *connection, const void *bytes, size_t n_bytes);

/* A part of a response's body, with the framing of the chunked coding where the response has it.
 * Where nothing waits before it and it is short, as those with a token are, it goes to the socket
 * at once and in one piece; what the socket does not take goes to `out`. */
void ln_output_put_part(ln_connection *connection, const char *bytes, size_t n_bytes);

#endif
