/* Feeds a connection's bytes to the parser, and acts on what it finds. */
#ifndef LN_SERVER_HTTP_READER_H
#define LN_SERVER_HTTP_READER_H

#include "server/http/connection.h"

/* Parses bytes as far as requests may be taken now; the rest is kept as pending. */
void ln_reader_feed(ln_connection *connection, const char *bytes, size_t n_bytes);
/* Goes on with what is pending, after a response is over. */
void ln_reader_resume(ln_connection *connection);

#endif
