#include "server/http/headers.h"

#include <stdlib.h>
#include <string.h>

static bool is(const ln_strbuf *name, const char *expected) {
    return strcasecmp(name->data, expected) == 0;
}

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Keeps a value that may come once. */
static bool keep(ln_connection *connection, char **slot, const char *value, const char *complaint) {
    if (*slot != NULL)
        return ln_connection_fail(connection, 400, complaint);
    *slot = strdup(value);
    return *slot != NULL || ln_connection_fail(connection, 503, "out of memory");
}

static bool take_authorization(ln_connection *connection, const char *value) {
    static const char scheme[] = "Bearer ";
    size_t n_bytes = sizeof scheme - 1;
    if (strncasecmp(value, scheme, n_bytes) != 0)
        value = ""; /* another scheme is no key */
    else
        value += n_bytes + strspn(value + n_bytes, " ");
    return keep(connection, &connection->exchange.credential, value,
                "there is more than one authorization header");
}

/* A client's own request id, when it is harmless in a log. */
static void take_id(ln_exchange *exchange, const ln_strbuf *value) {
    if (value->len == 0 || value->len > LN_HTTP_ID_BYTES)
        return;
    for (size_t i = 0; i < value->len; i++) {
        char c = value->data[i];
        if (!is_alnum(c) && strchr("-_.:", c) == NULL)
            return;
    }
    memcpy(exchange->id, value->data, value->len + 1);
}

/* Whether a value can be that of a host header: it may be empty. */
static bool is_host(const ln_strbuf *value) {
    for (size_t i = 0; i < value->len; i++) {
        char c = value->data[i];
        if (!is_alnum(c) && strchr("-._~:[]%!$&'()*+,;=", c) == NULL)
            return false;
    }
    return true;
}

static bool take_host(ln_connection *connection, const ln_strbuf *value) {
    if (connection->n_hosts++ > 0)
        return ln_connection_fail(connection, 400, "there is more than one host header");
    if (!is_host(value))
        return ln_connection_fail(connection, 400, "the host header is malformed");
    return keep(connection, &connection->exchange.host, value->data,
                "there is more than one host header");
}

/* One coding, which whoever reads the body undoes. */
static bool take_coding(ln_connection *connection, const char *value) {
    static const char *const codings[] = {"gzip", "x-gzip", "deflate"};
    bool is_known = false;
    if (strcasecmp(value, "identity") == 0)
        return true;
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++)
        is_known = is_known || strcasecmp(value, codings[i]) == 0;
    if (!is_known || connection->exchange.is_compressed)
        return ln_connection_fail(connection, 415, "content-encoding is not gzip or deflate, once");
    connection->exchange.is_compressed = true;
    return true;
}

/* Whether a list of content codings has gzip, with a weight that is not 0. */
static bool lists_gzip(const char *value) {
    const char *found = strcasestr(value, "gzip");
    if (found == NULL)
        return false;
    size_t n_bytes = strcspn(found, ",");
    const char *weight = memchr(found, '=', n_bytes);
    return weight == NULL || strspn(weight + 1, "0. \t") < (size_t)(found + n_bytes - weight - 1);
}

/* What the response depends on; a second header of the kind adds nothing. */
static bool take_preference(ln_connection *connection, const ln_strbuf *name, const char *value) {
    ln_exchange *exchange = &connection->exchange;
    if (is(name, "accept"))
        exchange->wants_html = exchange->wants_html || strcasestr(value, "text/html") != NULL;
    else if (is(name, "accept-encoding"))
        exchange->accepts_gzip = exchange->accepts_gzip || lists_gzip(value);
    else if (is(name, "if-none-match") && exchange->if_none_match == NULL)
        return keep(connection, &exchange->if_none_match, value, "");
    else if (is(name, "endpoint-load-metrics-format") && exchange->load_format == NULL)
        return keep(connection, &exchange->load_format, value, "");
    return true;
}

/* What comes behind a body in chunks has no meaning here, and must not look as if it had: its names
 * are not those that say how a request is framed, sent or allowed. */
static bool check_trailer(ln_connection *connection, const ln_strbuf *name) {
    static const char *const forbidden[] = {
        "authorization", "content-encoding", "content-length", "content-type", "expect",
        "host",          "transfer-encoding"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (is(name, forbidden[i]))
            return ln_connection_fail(connection, 400,
                                      "there is a header that cannot come behind a body");
    return true;
}

bool ln_headers_take(ln_connection *connection) {
    const ln_strbuf *name = &connection->parser.name, *value = &connection->parser.value;
    ln_exchange *exchange = &connection->exchange;
    if (++connection->n_headers > connection->set->limits.max_headers)
        return ln_connection_fail(connection, 431, "there are too many headers");
    if (connection->parser.is_trailer)
        return check_trailer(connection, name);
    if (is(name, "host"))
        return take_host(connection, value);
    if (is(name, "authorization"))
        return take_authorization(connection, value->data);
    if (is(name, "x-api-key"))
        return keep(connection, &exchange->api_key, value->data,
                    "there is more than one x-api-key header");
    if (is(name, "origin"))
        return keep(connection, &exchange->origin, value->data,
                    "there is more than one origin header");
    if (is(name, "access-control-request-headers"))
        return keep(connection, &exchange->asked_headers, value->data,
                    "there is more than one access-control-request-headers header");
    if (is(name, "x-request-id"))
        take_id(exchange, value);
    if (is(name, "expect")) {
        if (strcasecmp(value->data, "100-continue") != 0)
            return ln_connection_fail(connection, 417,
                                      "only the expectation 100-continue is known");
        connection->expects_continue = true;
    }
    if (is(name, "content-encoding"))
        return take_coding(connection, value->data);
    return take_preference(connection, name, value->data);
}
