/* TLS for connections, with OpenSSL: the server's context, and the bytes of one connection. */
#ifndef LN_SERVER_HTTP_TLS_H
#define LN_SERVER_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct ln_tls ln_tls;
typedef struct ln_tls_stream ln_tls_stream;

/* Reads a certificate chain and its key (PEM). Errors name the file. */
ln_status ln_tls_create(const char *certificate, const char *key, ln_tls **tls, ln_error *err);
void ln_tls_destroy(ln_tls *tls);

/* NULL when memory is out. */
ln_tls_stream *ln_tls_stream_create(ln_tls *tls, int fd);
void ln_tls_stream_destroy(ln_tls_stream *stream); /* NULL is fine */

/* As recv and send: -1 with EAGAIN when it has to wait, for writing when *wants_write. */
ssize_t ln_tls_read(ln_tls_stream *stream, void *bytes, size_t n_bytes, bool *wants_write);
ssize_t ln_tls_write(ln_tls_stream *stream, const void *bytes, size_t n_bytes);
void ln_tls_finish(ln_tls_stream *stream); /* says that nothing follows */

#endif
