/* Bodies that clients send compressed. */
#ifndef LN_SERVER_CONTENT_CODING_H
#define LN_SERVER_CONTENT_CODING_H

#include "base/strbuf.h"
#include "server/json/error.h"

/* Replaces a body of the content codings gzip or deflate (RFC 9110, 8.4.1) by what it decodes to,
 * of at most max_bytes. Errors: 400 where it is malformed or ends early, 413 where it is larger,
 * 503 when memory runs out. */
bool ln_content_inflate(ln_strbuf *body, size_t max_bytes, ln_api_error *error);

#endif
