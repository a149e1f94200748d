/* An exchange: a request and its response. The connection owns it; who handles the request reads it
 * and answers through response.h, until it has ended the response or on_gone was called. */
#ifndef LN_SERVER_HTTP_EXCHANGE_H
#define LN_SERVER_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

typedef enum ln_http_method {
    LN_HTTP_OTHER = 0,
    LN_HTTP_GET, /* HEAD too: the body of the response is left out */
    LN_HTTP_POST,
    LN_HTTP_DELETE,
    LN_HTTP_OPTIONS
} ln_http_method;

enum { LN_HTTP_ID_BYTES = 64, LN_HTTP_SERIAL_BYTES = 16, LN_HTTP_PEER_BYTES = 64 };

typedef struct ln_exchange {
    ln_http_method method;
    bool is_head;        /* of method GET */
    const char *verb;    /* the method's name; static storage, NULL: not read */
    bool is_bad;         /* refused before its head was whole */
    char *path;          /* without the query; owned, never NULL once the head is read */
    char *query;         /* what follows its "?"; owned, NULL: none */
    char *credential;    /* what follows "Bearer "; owned, NULL: none */
    char *api_key;       /* the header x-api-key; owned, NULL: none */
    char *host, *origin; /* owned, NULL: none */
    char *asked_headers; /* of a preflight; owned, NULL: none */
    char *if_none_match; /* entity tags; owned, NULL: none */
    char *load_format;   /* in which a report of the load is asked for; owned, NULL: none */
    bool wants_html;     /* Accept names text/html, as it does when a browser opens a page */
    bool accepts_gzip;   /* a response of this content coding */
    bool is_compressed;  /* the body: gzip or deflate */
    char serial[LN_HTTP_SERIAL_BYTES + 1]; /* never twice */
    char id[LN_HTTP_ID_BYTES + 1];         /* the client's x-request-id, or from serial */
    const char *peer;                      /* the client's address */
    ln_strbuf body;
    uint64_t begin_ns;                       /* of ln_clock_ns, at the first byte */
    int status;                              /* of the response; 0 until it begins */
    size_t sent_bytes;                       /* of the response's body */
    bool was_cut;                            /* the client went, or did not read */
    bool is_late;                            /* it came while the server drains */
    void *key;                               /* the hooks': of the client; NULL: none */
    const char *key_name;                    /* for the log; NULL or "": none */
    int dialect;                             /* the hooks': how errors are written */
    const void *route;                       /* the hooks', as are these: */
    void *task, *generation, *follower;      /* what works on the response */
    size_t n_prompt_tokens, n_output_tokens; /* for the log */
} ln_exchange;

#endif
