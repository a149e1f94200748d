#include "hub/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_REDIRECTS = 5,
    CONNECT_SECONDS = 15,
    STALLED_SECONDS = 30,
    MAX_HEADER_BYTES = 4096,
    N_TRIES = 3,
    BUFFER_BYTES = 256 << 10
};

ln_status ln_hub_http_open(ln_hub_http *http, const ln_hub_settings *settings, ln_error *err) {
    *http = (ln_hub_http){.settings = settings};
    LN_TRY(ln_hub_curl_load(&http->curl, err));
    if (!settings->token)
        return LINNET_OK;
    char header[MAX_HEADER_BYTES];
    int length = snprintf(header, sizeof header, "Authorization: Bearer %s", settings->token);
    if (length < 0 || (size_t)length >= sizeof header)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the hub's token is too long");
    http->headers = http->curl->slist_append(NULL, header);
    return http->headers ? LINNET_OK : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
}

void ln_hub_http_close(ln_hub_http *http) {
    if (http->headers)
        http->curl->slist_free_all(http->headers);
    http->headers = NULL;
}

CURL *ln_hub_http_request(const ln_hub_http *http, const char *url) {
    const ln_hub_curl *curl = http->curl;
    char agent[64];
    CURL *easy = curl->easy_init();
    if (!easy)
        return NULL;
    bool is_secure = strncmp(url, "https:", 6) == 0;
    snprintf(agent, sizeof agent, "linnet/%s", linnet_version());
    curl->easy_setopt(easy, CURLOPT_URL, url);
    curl->easy_setopt(easy, CURLOPT_USERAGENT, agent);
    curl->easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
    curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl->easy_setopt(easy, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_secure ? "https" : "http,https");
    curl->easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, is_secure ? "https" : "http,https");
    curl->easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS);
    return easy;
}

char *ln_hub_http_url(const ln_hub_http *http, const char *prefix, const char *path) {
    const ln_hub_curl *curl = http->curl;
    ln_strbuf url;
    ln_strbuf_init(&url);
    ln_strbuf_printf(&url, "%s/%s", http->settings->endpoint, prefix);
    for (const char *part = path; *part;) {
        size_t length = strcspn(part, "/");
        char *escaped = length > 0 ? curl->easy_escape(NULL, part, (int)length) : NULL;
        if (length > 0 && !escaped)
            url.failed = true;
        ln_strbuf_putc(&url, '/');
        ln_strbuf_puts(&url, escaped ? escaped : "");
        if (escaped)
            curl->free(escaped);
        part += length + (part[length] == '/');
    }
    return ln_strbuf_take(&url);
}

bool ln_hub_http_may_retry(CURLcode code, long http_status) {
    switch (code) {
    case CURLE_HTTP_RETURNED_ERROR:
        return http_status >= 500 || http_status == 408 || http_status == 429;
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

ln_status ln_hub_http_fail(const ln_hub_http *http, CURLcode code, long http_status,
                           const char *what, ln_error *err) {
    const ln_hub_settings *settings = http->settings;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ln_fail(err, LINNET_ERR_CANCELLED, "interrupted");
    if (code != CURLE_HTTP_RETURNED_ERROR)
        return ln_fail(err, LINNET_ERR_IO, "%s: %s", settings->endpoint,
                       http->curl->easy_strerror(code));
    switch (http_status) {
    case 401:
    case 403:
        return ln_fail(err, LINNET_ERR_IO,
                       settings->token
                           ? "the hub refuses %s: the token in HF_TOKEN does not give access to it"
                           : "the hub refuses %s: there is none of that name, or it needs a token, "
                             "in HF_TOKEN",
                       what);
    case 404: return ln_fail(err, LINNET_ERR_IO, "the hub has no %s", what);
    default:
        return ln_fail(err, LINNET_ERR_IO, "the hub answers %s with HTTP status %ld", what,
                       http_status);
    }
}

typedef struct small_answer {
    ln_strbuf *body;
    size_t max_bytes;
    bool is_too_long;
} small_answer;

static size_t take_small(char *bytes, size_t one, size_t n_bytes, void *user) {
    small_answer *answer = user;
    (void)one;
    answer->is_too_long = n_bytes > answer->max_bytes - answer->body->len;
    if (answer->is_too_long || !ln_strbuf_append(answer->body, bytes, n_bytes))
        return 0;
    return n_bytes;
}

static int watch(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                 curl_off_t up_now) {
    (void)total, (void)now, (void)up_total, (void)up_now;
    const ln_hub_settings *settings = user;
    const ln_hub_progress none = {0};
    return settings->on_progress && !settings->on_progress(settings->user, &none);
}

ln_status ln_hub_http_get(const ln_hub_http *http, const char *url, const char *what,
                          size_t max_bytes, ln_strbuf *body, ln_error *err) {
    const ln_hub_curl *curl = http->curl;
    small_answer answer = {.body = body, .max_bytes = max_bytes};
    CURL *easy = ln_hub_http_request(http, url);
    if (!easy)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_small);
    curl->easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
    curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, watch);
    curl->easy_setopt(easy, CURLOPT_XFERINFODATA, http->settings);
    CURLcode code = CURLE_OK;
    long http_status = 0;
    for (int i = 0; i < N_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 200000000};
        ln_strbuf_clear(body);
        code = curl->easy_perform(easy);
        curl->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http_status);
        if (code == CURLE_OK || !ln_hub_http_may_retry(code, http_status))
            break;
        if (i + 1 < N_TRIES)
            nanosleep(&pause, NULL);
    }
    curl->easy_cleanup(easy);
    if (code == CURLE_OK)
        return LINNET_OK;
    if (answer.is_too_long)
        return ln_fail(err, LINNET_ERR_LIMIT, "the hub's answer about %s has more than %zu bytes",
                       what, max_bytes);
    return body->failed ? ln_fail(err, LINNET_ERR_NOMEM, "out of memory")
                        : ln_hub_http_fail(http, code, http_status, what, err);
}
