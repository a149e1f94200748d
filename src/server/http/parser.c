#include "server/http/parser.h"

#include <string.h>
#include <strings.h>

/* Where the next byte belongs. */
enum state {
    METHOD = 0,
    TARGET,
    VERSION,
    LINE_LF,    /* the request line's, behind its CR */
    LINE_BEGIN, /* of a header, of a folded value, or the empty line */
    NEXT_LINE,  /* the same, after the caller has seen a header */
    NAME,
    VALUE_BEGIN, /* spaces before a value, or before the rest of a folded one */
    VALUE,
    VALUE_LF,
    HEAD_LF, /* of the empty line */
    BODY,    /* of a known length */
    CHUNK_SIZE,
    CHUNK_PADDING, /* spaces behind the size */
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    WHOLE
};

static const char *const methods[] = {
    "GET",    "HEAD",      "POST",   "PUT",      "DELETE",      "CONNECT",    "OPTIONS",
    "TRACE",  "PATCH",     "COPY",   "LOCK",     "MKCOL",       "MOVE",       "PROPFIND",
    "SEARCH", "PROPPATCH", "UNLOCK", "BIND",     "REBIND",      "UNBIND",     "ACL",
    "REPORT", "CHECKOUT",  "MERGE",  "M-SEARCH", "MKACTIVITY",  "NOTIFY",     "SUBSCRIBE",
    "PURGE",  "LINK",      "UNLINK", "SOURCE",   "UNSUBSCRIBE", "MKCALENDAR", NULL};

void ln_http_parser_init(ln_http_parser *parser, size_t max_head_bytes) {
    *parser =
        (ln_http_parser){.state = METHOD, .is_in_head = true, .max_head_bytes = max_head_bytes};
    ln_strbuf_init(&parser->target);
    ln_strbuf_init(&parser->name);
    ln_strbuf_init(&parser->value);
}

void ln_http_parser_free(ln_http_parser *parser) {
    ln_strbuf_free(&parser->target);
    ln_strbuf_free(&parser->name);
    ln_strbuf_free(&parser->value);
    *parser = (ln_http_parser){0};
}

static ln_http_event refuse(ln_http_parser *parser, int status, const char *reason) {
    parser->status = status;
    parser->reason = reason;
    return LN_HTTP_EVENT_REFUSED;
}

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool ln_http_is_token_char(char c) {
    return is_alnum(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_control(char c) {
    unsigned char byte = (unsigned char)c;
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

/* ---- the request line ------------------------------------------------------------------- */

/* A method is refused at the first byte that no known one has there. */
static ln_http_event take_method(ln_http_parser *parser, char c) {
    bool is_end = c == ' ' && parser->n_word > 0;
    if (!is_end)
        parser->word[parser->n_word++] = c;
    for (const char *const *method = methods; *method != NULL; method++) {
        size_t n_bytes = strlen(*method);
        if (n_bytes < parser->n_word || memcmp(*method, parser->word, parser->n_word) != 0)
            continue;
        if (!is_end)
            return LN_HTTP_EVENT_MORE;
        if (n_bytes != parser->n_word)
            continue;
        parser->method = *method;
        parser->is_connect = strcmp(*method, "CONNECT") == 0;
        parser->n_word = 0;
        parser->state = TARGET;
        return LN_HTTP_EVENT_MORE;
    }
    return refuse(parser, 400, "the method of the request is not known");
}

/* Whether "user@host:port" has brackets around an address only: "[::1]:80". */
static bool are_brackets_right(const char *host, size_t n_bytes) {
    const char *end = host + n_bytes, *at = memchr(host, '@', n_bytes);
    const char *name = at != NULL && memchr(host, '[', (size_t)(at - host)) == NULL ? at + 1 : host;
    const char *open = memchr(host, '[', n_bytes), *close = memchr(host, ']', n_bytes);
    if (open == NULL && close == NULL)
        return true;
    return open == name && close != NULL && close > open + 1 &&
           memchr(open + 1, '[', (size_t)(end - open - 1)) == NULL &&
           memchr(close + 1, ']', (size_t)(end - close - 1)) == NULL &&
           (close + 1 == end || close[1] == ':');
}

/* Whether a target begins with a path, or is absolute: "http://host/path". */
static bool is_target(const char *target) {
    static const char host_bytes[] = "-_.!~*'()%;:&=+$,@[]";
    if (*target == '/' || *target == '*')
        return true;
    size_t n_scheme = 0;
    while (is_alnum(target[n_scheme]) && !(target[n_scheme] >= '0' && target[n_scheme] <= '9'))
        n_scheme++;
    if (n_scheme == 0 || strncmp(target + n_scheme, "://", 3) != 0)
        return false;
    const char *host = target + n_scheme + 3;
    size_t n_host = 0;
    int n_ats = 0;
    for (; is_alnum(host[n_host]) ||
           (host[n_host] != '\0' && strchr(host_bytes, host[n_host]) != NULL);
         n_host++)
        if (host[n_host] == '@' && n_ats++ > 0)
            return false;
    bool is_all = host[n_host] == '\0' || host[n_host] == '/' || host[n_host] == '?';
    return is_all && n_host > 0 && are_brackets_right(host, n_host);
}

static ln_http_event take_target(ln_http_parser *parser, char c) {
    static const char malformed[] = "the target of the request is malformed";
    if (c == '\r' || c == '\n')
        return refuse(parser, 505, "the version of HTTP is not 1.0 or 1.1");
    if (c != ' ') {
        if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f)
            return refuse(parser, 400, malformed);
        return ln_strbuf_putc(&parser->target, c) ? LN_HTTP_EVENT_MORE
                                                  : refuse(parser, 503, "out of memory");
    }
    if (parser->target.len == 0 || (!parser->is_connect && !is_target(parser->target.data)))
        return refuse(parser, 400, malformed);
    parser->state = VERSION;
    return LN_HTTP_EVENT_MORE;
}

static ln_http_event take_version(ln_http_parser *parser, char c) {
    static const char form[] = "HTTP/0.0"; /* 0: any digit */
    enum { LENGTH = sizeof form - 1, MAJOR = 5, MINOR = 7 };
    if (parser->n_word == LENGTH && (c == '\r' || c == '\n')) {
        parser->minor_version = parser->word[MINOR] - '0';
        if (parser->word[MAJOR] != '1' || parser->minor_version > 1)
            return refuse(parser, 505, "the version of HTTP is not 1.0 or 1.1");
        parser->state = c == '\r' ? LINE_LF : LINE_BEGIN;
        return LN_HTTP_EVENT_MORE;
    }
    char expected = parser->n_word < LENGTH ? form[parser->n_word] : '\0';
    if (expected == '0' ? c < '0' || c > '9' : c != expected || c == '\0')
        return refuse(parser, 400, "the request's line is not METHOD TARGET HTTP/1.1");
    parser->word[parser->n_word++] = c;
    return LN_HTTP_EVENT_MORE;
}

/* ---- headers that say how the request is framed ----------------------------------------- */

static ln_http_event take_length(ln_http_parser *parser) {
    static const char malformed[] = "the content-length is malformed";
    uint64_t length = 0;
    if (parser->has_length)
        return refuse(parser, 400, "there is more than one content-length");
    if (parser->value.len == 0)
        return refuse(parser, 400, malformed);
    for (size_t i = 0; i < parser->value.len; i++) {
        char c = parser->value.data[i];
        if (c < '0' || c > '9' || length > (UINT64_MAX >> 1) / 10 - 1)
            return refuse(parser, 400, malformed);
        length = length * 10 + (uint64_t)(c - '0');
    }
    parser->has_length = true;
    parser->body_bytes = length;
    return LN_HTTP_EVENT_HEADER;
}

static ln_http_event take_coding(ln_http_parser *parser) {
    if (parser->has_coding)
        return refuse(parser, 400, "there is more than one transfer-encoding header");
    parser->has_coding = true;
    parser->is_chunked = strcasecmp(parser->value.data, "chunked") == 0;
    return LN_HTTP_EVENT_HEADER;
}

/* A list of options, of which two matter. */
static void take_connection(ln_http_parser *parser) {
    const char *at = parser->value.data;
    for (;;) {
        at += strspn(at, " \t,");
        size_t n_bytes = strcspn(at, ",");
        if (n_bytes == 0)
            return;
        size_t n_trimmed = n_bytes;
        while (at[n_trimmed - 1] == ' ' || at[n_trimmed - 1] == '\t')
            n_trimmed--;
        if (n_trimmed == 5 && strncasecmp(at, "close", n_trimmed) == 0)
            parser->asks_for_close = true;
        if (n_trimmed == 10 && strncasecmp(at, "keep-alive", n_trimmed) == 0)
            parser->asks_for_keepalive = true;
        at += n_bytes;
    }
}

/* The header in name and value is whole. */
static ln_http_event end_header(ln_http_parser *parser) {
    ln_strbuf *value = &parser->value;
    while (value->len > 0 &&
           (value->data[value->len - 1] == ' ' || value->data[value->len - 1] == '\t'))
        value->data[--value->len] = '\0';
    if (!ln_strbuf_puts(&parser->name, "") || !ln_strbuf_puts(value, ""))
        return refuse(parser, 503, "out of memory");
    const char *name = parser->name.data;
    if (parser->is_trailer)
        return LN_HTTP_EVENT_HEADER;
    if (strcasecmp(name, "content-length") == 0)
        return take_length(parser);
    if (strcasecmp(name, "transfer-encoding") == 0)
        return take_coding(parser);
    if (strcasecmp(name, "connection") == 0 || strcasecmp(name, "proxy-connection") == 0)
        take_connection(parser);
    return LN_HTTP_EVENT_HEADER;
}

static ln_http_event end_head(ln_http_parser *parser) {
    if (parser->has_coding && parser->has_length)
        return refuse(parser, 400, "there is a content-length with a transfer-encoding");
    if (parser->has_coding && parser->minor_version == 0)
        return refuse(parser, 400, "HTTP/1.0 has no transfer-encoding");
    if (parser->has_coding && !parser->is_chunked)
        return refuse(parser, 400, "the transfer-encoding is not chunked");
    parser->keeps_alive =
        parser->minor_version == 0 ? parser->asks_for_keepalive : !parser->asks_for_close;
    parser->is_in_head = false;
    parser->n_line_bytes = 0;
    parser->state = parser->is_chunked ? CHUNK_SIZE : parser->body_bytes > 0 ? BODY : WHOLE;
    return LN_HTTP_EVENT_HEAD;
}

/* The empty line behind headers or trailers. */
static ln_http_event end_lines(ln_http_parser *parser) {
    if (!parser->is_trailer)
        return end_head(parser);
    parser->state = WHOLE;
    return LN_HTTP_EVENT_MORE;
}

/* ---- header lines ------------------------------------------------------------------------ */

/* The first byte of a line. A header is known to be whole when the next line does not continue it:
 * *is_used is then false, since the byte that shows it is still to be read. */
static ln_http_event begin_line(ln_http_parser *parser, char c, bool *is_used) {
    bool has_header = parser->name.len > 0;
    if (has_header && (c == ' ' || c == '\t')) {
        parser->state = VALUE_BEGIN;
        if (parser->value.len > 0 && !ln_strbuf_putc(&parser->value, ' '))
            return refuse(parser, 503, "out of memory");
        return LN_HTTP_EVENT_MORE;
    }
    if (has_header) {
        *is_used = false;
        parser->state = NEXT_LINE;
        return end_header(parser);
    }
    if (c == '\n')
        return end_lines(parser);
    *is_used = c == '\r';
    parser->state = c == '\r' ? HEAD_LF : NAME;
    return LN_HTTP_EVENT_MORE;
}

static ln_http_event take_name(ln_http_parser *parser, char c) {
    if (c == ':' && parser->name.len > 0) {
        parser->state = VALUE_BEGIN;
        return LN_HTTP_EVENT_MORE;
    }
    if (!ln_http_is_token_char(c))
        return refuse(parser, 400, "the name of a header is malformed");
    return ln_strbuf_putc(&parser->name, c) ? LN_HTTP_EVENT_MORE
                                            : refuse(parser, 503, "out of memory");
}

static ln_http_event take_value(ln_http_parser *parser, char c) {
    if (c == '\r' || c == '\n') {
        parser->state = c == '\r' ? VALUE_LF : LINE_BEGIN;
        return LN_HTTP_EVENT_MORE;
    }
    if (is_control(c))
        return refuse(parser, 400, "the value of a header has control characters");
    if (parser->state == VALUE_BEGIN && (c == ' ' || c == '\t'))
        return LN_HTTP_EVENT_MORE;
    parser->state = VALUE;
    return ln_strbuf_putc(&parser->value, c) ? LN_HTTP_EVENT_MORE
                                             : refuse(parser, 503, "out of memory");
}

static ln_http_event take_lf(ln_http_parser *parser, char c) {
    if (c != '\n')
        return refuse(parser, 400, "there is a CR without LF");
    if (parser->state == HEAD_LF)
        return end_lines(parser);
    parser->state = LINE_BEGIN;
    return LN_HTTP_EVENT_MORE;
}

/* ---- the chunked coding ------------------------------------------------------------------ */

static ln_http_event take_chunk_size(ln_http_parser *parser, char c) {
    static const char digits[] = "0123456789abcdef";
    const char *digit = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
    if (digit != NULL && parser->state == CHUNK_SIZE) {
        if (parser->body_bytes > UINT64_MAX >> 5)
            return refuse(parser, 400, "the size of a chunk is malformed");
        parser->body_bytes = parser->body_bytes << 4 | (uint64_t)(digit - digits);
        parser->has_digits = true;
    } else if (parser->has_digits && (c == ' ' || c == ';' || c == '\r')) {
        parser->state = c == ' ' ? CHUNK_PADDING : c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
        parser->is_quoted = parser->is_escaped = false;
    } else {
        return refuse(parser, 400, "the size of a chunk is malformed");
    }
    return LN_HTTP_EVENT_MORE;
}

/* Extensions mean nothing here. Where their line ends must not be in doubt: a reader that knows
 * quoted strings and one that does not must find the same end. */
static ln_http_event take_extension(ln_http_parser *parser, char c) {
    if (c == '\r' && !parser->is_quoted) {
        parser->state = CHUNK_SIZE_LF;
        return LN_HTTP_EVENT_MORE;
    }
    if (is_control(c))
        return refuse(parser, 400, "a chunk extension is malformed");
    bool escapes = parser->is_quoted && !parser->is_escaped && c == '\\';
    if (c == '"' && !parser->is_escaped)
        parser->is_quoted = !parser->is_quoted;
    parser->is_escaped = escapes;
    return LN_HTTP_EVENT_MORE;
}

/* CR and LF behind a chunk's data, LF behind its size. */
static ln_http_event take_chunk_end(ln_http_parser *parser, char c) {
    if (c != (parser->state == CHUNK_DATA_CR ? '\r' : '\n'))
        return refuse(parser, 400, "a line of the chunked coding does not end with CR LF");
    if (parser->state == CHUNK_DATA_CR) {
        parser->state = CHUNK_DATA_LF;
        return LN_HTTP_EVENT_MORE;
    }
    if (parser->state == CHUNK_DATA_LF) {
        parser->state = CHUNK_SIZE;
        parser->has_digits = false;
        return LN_HTTP_EVENT_MORE;
    }
    parser->n_line_bytes = 0;
    parser->is_trailer = parser->body_bytes == 0;
    parser->state = parser->is_trailer ? LINE_BEGIN : CHUNK_DATA;
    return LN_HTTP_EVENT_MORE;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static ln_http_event take_byte(ln_http_parser *parser, char c, bool *is_used) {
    switch ((enum state)parser->state) {
    case METHOD: return take_method(parser, c);
    case TARGET: return take_target(parser, c);
    case VERSION: return take_version(parser, c);
    case LINE_LF:
    case VALUE_LF:
    case HEAD_LF: return take_lf(parser, c);
    case NEXT_LINE:
        ln_strbuf_clear(&parser->name);
        ln_strbuf_clear(&parser->value);
        parser->state = LINE_BEGIN;
        return begin_line(parser, c, is_used);
    case LINE_BEGIN: return begin_line(parser, c, is_used);
    case NAME: return take_name(parser, c);
    case VALUE_BEGIN:
    case VALUE: return take_value(parser, c);
    case CHUNK_SIZE:
    case CHUNK_PADDING: return take_chunk_size(parser, c);
    case CHUNK_EXTENSION: return take_extension(parser, c);
    case CHUNK_SIZE_LF:
    case CHUNK_DATA_CR:
    case CHUNK_DATA_LF: return take_chunk_end(parser, c);
    case BODY:
    case CHUNK_DATA:
    case WHOLE: break;
    }
    return LN_HTTP_EVENT_MORE;
}

/* A part of the body: as much as the bytes have of it. */
static size_t take_data(ln_http_parser *parser, const char *bytes, size_t n_bytes) {
    size_t n = n_bytes < parser->body_bytes ? n_bytes : (size_t)parser->body_bytes;
    parser->data = bytes;
    parser->n_data = n;
    parser->body_bytes -= n;
    if (parser->body_bytes == 0)
        parser->state = parser->is_chunked ? CHUNK_DATA_CR : WHOLE;
    return n;
}

size_t ln_http_parser_feed(ln_http_parser *parser, const char *bytes, size_t n_bytes,
                           ln_http_event *event) {
    size_t n_used = 0;
    *event = LN_HTTP_EVENT_MORE;
    while (n_used < n_bytes && *event == LN_HTTP_EVENT_MORE && parser->state != WHOLE) {
        if (parser->state == BODY || parser->state == CHUNK_DATA) {
            *event = LN_HTTP_EVENT_DATA;
            return n_used + take_data(parser, bytes + n_used, n_bytes - n_used);
        }
        bool is_used = true;
        *event = take_byte(parser, bytes[n_used], &is_used);
        n_used += is_used;
        parser->n_line_bytes += is_used;
        size_t limit = parser->is_in_head ? parser->max_head_bytes : LN_HTTP_MAX_FRAMING_BYTES;
        if (*event == LN_HTTP_EVENT_MORE && parser->n_line_bytes > limit)
            *event = refuse(parser, 431,
                            parser->is_in_head ? "the head of the request is too large"
                                               : "a line of the chunked coding is too long");
    }
    if (*event == LN_HTTP_EVENT_MORE && parser->state == WHOLE)
        *event = LN_HTTP_EVENT_END;
    return n_used;
}
