/* The server's log: a line per exchange and about its own life, plain or as JSON. */
#ifndef LN_SERVER_LOG_H
#define LN_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/exchange.h"

typedef struct ln_log {
    /* Lines end with a newline; false: the line was dropped. NULL: there is no log. */
    bool (*write)(void *user, const char *line, size_t n_bytes);
    void *user;
    bool as_json;
    uint64_t n_dropped, n_told; /* lines that were dropped, and of these those that it tells of */
} ln_log;

/* A line about the server itself. */
__attribute__((format(printf, 2, 3))) void ln_log_message(ln_log *log, const char *format, ...);
/* The line of an exchange that is over. */
void ln_log_exchange(ln_log *log, const ln_exchange *exchange);

#endif
