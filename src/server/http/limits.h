/* Bounds on what a client makes the server hold, and deadlines in milliseconds. */
#ifndef LN_SERVER_HTTP_LIMITS_H
#define LN_SERVER_HTTP_LIMITS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ln_http_limits {
    size_t max_connections; /* more wait in the kernel's queue */
    size_t max_head_bytes, max_headers;
    size_t max_body_bytes;
    size_t max_bodies_bytes; /* of all exchanges that are not over */
    size_t max_unread_bytes; /* of responses that the client has not taken */
    uint32_t head_ms;        /* from the first byte of a request to the end of its head */
    uint32_t body_ms;        /* and from there to the end of its body */
    uint32_t idle_ms;        /* between requests */
    uint32_t unread_ms;      /* without progress in writing */
} ln_http_limits;

#endif
