/* Origins of pages, which browsers name in requests (RFC 6454). */
#ifndef LN_CLI_SERVE_ORIGIN_H
#define LN_CLI_SERVE_ORIGIN_H

#include <stdbool.h>

/* Whether a browser may name this origin: a scheme, a host and perhaps a port, in small letters and
 * with nothing behind them; or "null". "*" counts as one. */
bool ln_cli_is_origin(const char *text);

#endif
