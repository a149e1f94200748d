/* The server's log: a line per exchange and about its own life, plain or as JSON. */
#ifndef LN_SERVER_LOG_H
#define LN_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/exchange.h"

typedef struct ln_log {
    void (*write)(void *user, const char *line, size_t n_bytes); /* lines end with a newline; NULL:
                                                                    there is no log */
    void *user;
    bool as_json;
} ln_log;

/* A line about the server itself. */
__attribute__((format(printf, 2, 3))) void ln_log_message(const ln_log *log, const char *format,
                                                          ...);
/* The line of an exchange that is over. */
void ln_log_exchange(const ln_log *log, const ln_exchange *exchange);

#endif
