/* Requests to the hub. */
#ifndef LN_HUB_HTTP_H
#define LN_HUB_HTTP_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "hub/curl.h"
#include "hub/settings.h"

typedef struct ln_hub_http {
    const ln_hub_curl *curl;
    const ln_hub_settings *settings;
    struct curl_slist *headers; /* with the token; owned */
} ln_hub_http;

ln_status ln_hub_http_open(ln_hub_http *http, const ln_hub_settings *settings, ln_error *err);
void ln_hub_http_close(ln_hub_http *http);

/* A request that follows redirects, for GET; NULL when memory is out. A token goes to the hub
 * alone, not to where it redirects. The caller cleans it up. */
CURL *ln_hub_http_request(const ln_hub_http *http, const char *url);

/* "ENDPOINT/PREFIX/PATH" with what a URL may not have escaped; NULL when memory is out. */
char *ln_hub_http_url(const ln_hub_http *http, const char *prefix, const char *path);

/* Whether to try again what ended so, and the error to show otherwise: `what` is the repository. */
bool ln_hub_http_may_retry(CURLcode code, long http_status);
ln_status ln_hub_http_fail(const ln_hub_http *http, CURLcode code, long http_status,
                           const char *what, ln_error *err);

/* The body of a small answer. */
ln_status ln_hub_http_get(const ln_hub_http *http, const char *url, const char *what,
                          size_t max_bytes, ln_strbuf *body, ln_error *err);

#endif
