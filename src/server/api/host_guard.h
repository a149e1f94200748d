/* Guards a server that anybody on its machine may call against web pages. A page of any site can
 * make the browser send requests to 127.0.0.1, and by DNS rebinding read the answers: its own name
 * then resolves to 127.0.0.1. Such requests show the site in Host or Origin. */
#ifndef LN_SERVER_API_HOST_GUARD_H
#define LN_SERVER_API_HOST_GUARD_H

#include "server/http/exchange.h"

typedef struct ln_host_guard {
    bool is_active;           /* the server listens at a loopback address and asks for no key */
    const char *const *hosts; /* [n_hosts] further names that it is called by; borrowed */
    size_t n_hosts;
    const char *cors_origin; /* "*" or one origin, which may call; NULL: none; borrowed */
} ln_host_guard;

/* Whether what a server binds to is this machine alone: localhost, 127.0.0.0/8 or ::1. */
bool ln_host_guard_is_loopback(const char *host);

/* NULL when the request may pass, or what is wrong with it: "Host" or "Origin". */
const char *ln_host_guard_check(const ln_host_guard *guard, const ln_exchange *exchange);

#endif
