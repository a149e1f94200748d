/* HTTP/1.1 requests from bytes, by RFC 9112: one request per parser, in pieces of any size.
 *
 * The parser knows how a request is framed, and refuses what two readers could frame differently:
 * a content-length with a transfer-encoding, any coding but "chunked", lines of the chunked coding
 * that do not end with CR LF. In heads it takes LF alone as the end of a line, and a folded value
 * with a space for the fold, as the RFC allows. What headers mean is the caller's. */
#ifndef LN_SERVER_HTTP_PARSER_H
#define LN_SERVER_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Bytes that the line of a chunk's size, or all trailers, may have. */
enum { LN_HTTP_MAX_FRAMING_BYTES = 80 << 10 };
enum { LN_HTTP_MAX_METHOD_BYTES = 16 };

typedef enum ln_http_event {
    LN_HTTP_EVENT_MORE = 0, /* all bytes are used and the request goes on */
    LN_HTTP_EVENT_HEADER,   /* name and value are a header, or a trailer when is_trailer */
    LN_HTTP_EVENT_HEAD,   /* the head is whole: method, target, minor_version, body, keeps_alive */
    LN_HTTP_EVENT_DATA,   /* data is a part of the body */
    LN_HTTP_EVENT_END,    /* the request is whole */
    LN_HTTP_EVENT_REFUSED /* status and reason say why; the parser must not be fed again */
} ln_http_event;

typedef struct ln_http_parser {
    const char *method; /* static storage; once its name is whole */
    bool is_connect;
    ln_strbuf target;
    int minor_version; /* of HTTP/1 */
    ln_strbuf name, value;
    bool is_trailer;
    bool is_chunked;
    bool has_length;
    uint64_t body_bytes; /* has_length: all; is_chunked: what the running chunk lacks */
    bool keeps_alive;    /* the client lets the connection stay open */
    const char *data;    /* [n_data], of the bytes that were fed */
    size_t n_data;
    int status;         /* of a refusal */
    const char *reason; /* static storage */
    bool is_in_head;

    /* the parser's own */
    size_t max_head_bytes;
    size_t n_line_bytes; /* of the head, a line of the chunked coding, or all trailers */
    int state;
    char word[LN_HTTP_MAX_METHOD_BYTES]; /* method or version as far as it has come */
    size_t n_word;
    bool has_coding, has_digits;
    bool is_quoted, is_escaped;              /* within a chunk extension */
    bool asks_for_close, asks_for_keepalive; /* connection: close, keep-alive */
} ln_http_parser;

/* A head of more than max_head_bytes is refused with 431. */
void ln_http_parser_init(ln_http_parser *parser, size_t max_head_bytes);
void ln_http_parser_free(ln_http_parser *parser); /* zeroed ones, too */

/* Uses bytes up to the next event; returns how many. */
size_t ln_http_parser_feed(ln_http_parser *parser, const char *bytes, size_t n_bytes,
                           ln_http_event *event);

/* What RFC 9110 calls a token: the form of methods and names. */
bool ln_http_is_token_char(char c);

#endif
