/* What the server takes of a request's headers. How a request is framed is the parser's part. */
#ifndef LN_SERVER_HTTP_HEADERS_H
#define LN_SERVER_HTTP_HEADERS_H

#include "server/http/connection.h"

/* Takes the header or trailer that the parser holds; false when the request is to be refused. */
bool ln_headers_take(ln_connection *connection);

#endif
