/* Requests of HTTP/1.1, each whole, byte by byte and in pieces: always the same events. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "server/http_trace.h"

enum { MAX_HEAD_BYTES = 200 };

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n"
#define CHUNKED                                                                                    \
    POST "Transfer-Encoding: chunked\r\n"                                                          \
         "\r\n"
#define CODED "Transfer-Encoding=chunked;POST / 1.1;"

static const struct {
    const char *bytes, *expected;
} cases[] = {
    /* heads */
    {GET "\r\n", "GET / 1.1;END"},
    {"GET /a?b=c#d HTTP/1.0\r\n\r\n", "GET /a?b=c#d 1.0 close;END"},
    {GET "A: b\r\nC:d \t\r\nE:\r\n\r\n", "A=b;C=d;E=;GET / 1.1;END"},
    {GET "A: b c\r\n\r\nnext", "A=b c;GET / 1.1;END"},
    {"GET / HTTP/1.1\nA: b\n\n", "A=b;GET / 1.1;END"},
    {GET "A: b\r\n \t c\r\nD: e\r\n\r\n", "A=b c;D=e;GET / 1.1;END"},
    {GET "A:\r\n b\r\n\r\n", "A=b;GET / 1.1;END"},
    {GET "A: \xc3\xa4\r\n\r\n", "A=\xc3\xa4;GET / 1.1;END"},
    {"GET http://u@h:1/a HTTP/1.1\r\n\r\n", "GET http://u@h:1/a 1.1;END"},
    {"GET http://u@[::1]:1/a HTTP/1.1\r\n\r\n", "GET http://u@[::1]:1/a 1.1;END"},
    {"GET http://[::1]?a HTTP/1.1\r\n\r\n", "GET http://[::1]?a 1.1;END"},
    {"OPTIONS * HTTP/1.1\r\n\r\n", "OPTIONS * 1.1;END"},
    {"CONNECT h:1 HTTP/1.1\r\n\r\n", "CONNECT h:1 1.1;END"},
    {"MKCALENDAR / HTTP/1.1\r\n\r\n", "MKCALENDAR / 1.1;END"},
    {"M-SEARCH / HTTP/1.1\r\n\r\n", "M-SEARCH / 1.1;END"},
    /* what stays open */
    {GET "Connection: Close\r\n\r\n", "Connection=Close;GET / 1.1 close;END"},
    {GET "Connection: a, close ,b\r\n\r\n", "Connection=a, close ,b;GET / 1.1 close;END"},
    {GET "Connection: closed, , x\r\n\r\n", "Connection=closed, , x;GET / 1.1;END"},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection=keep-alive;GET / 1.0;END"},
    /* request lines that are none */
    {"get / HTTP/1.1\r\n\r\n", "400"},
    {"GETS / HTTP/1.1\r\n\r\n", "400"},
    {"GE / HTTP/1.1\r\n\r\n", "400"},
    {" GET / HTTP/1.1\r\n\r\n", "400"},
    {"\x16\x03\x01", "400"},
    {"GET  / HTTP/1.1\r\n\r\n", "400"},
    {"GET /  HTTP/1.1\r\n\r\n", "400"},
    {"GET / HTTP/1.1 \r\n\r\n", "400"},
    {"GET a HTTP/1.1\r\n\r\n", "400"},
    {"GET http:// HTTP/1.1\r\n\r\n", "400"},
    {"GET http://a@b@c/ HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[::1 HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[::1/a HTTP/1.1\r\n\r\n", "400"},
    {"GET http://::1]/a HTTP/1.1\r\n\r\n", "400"},
    {"GET http://]::1[/a HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[]/a HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[[::1]]/a HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[::1]a/ HTTP/1.1\r\n\r\n", "400"},
    {"GET http://a[::1]/ HTTP/1.1\r\n\r\n", "400"},
    {"GET http://[u]@h/ HTTP/1.1\r\n\r\n", "400"},
    {"GET http:/a HTTP/1.1\r\n\r\n", "400"},
    {"GET /\x7f HTTP/1.1\r\n\r\n", "400"},
    {"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", "400"},
    {"GET /\t HTTP/1.1\r\n\r\n", "400"},
    {"GET / HTTQ/1.1\r\n\r\n", "400"},
    {"GET / HTTP/1.1\rA: b\r\n\r\n", "400"},
    {"GET / HTTP/1.10\r\n\r\n", "400"},
    {"GET / HTTP/1\r\n\r\n", "400"},
    {"GET /\r\n\r\n", "505"},
    {"GET / HTTP/2.0\r\n\r\n", "505"},
    {"GET / HTTP/1.2\r\n\r\n", "505"},
    /* headers that are none */
    {GET " A: b\r\n\r\n", "400"},
    {GET ": b\r\n\r\n", "400"},
    {GET "A : b\r\n\r\n", "400"},
    {GET "A\r\n\r\n", "400"},
    {GET "A: b\rc\r\n\r\n", "400"},
    {GET "A: \x01\r\n\r\n", "400"},
    {GET "A: b\r\n\rc", "A=b;400"},
    /* bodies of a known length */
    {POST "Content-Length: 5\r\n\r\nhellomore", "Content-Length=5;POST / 1.1;hello;END"},
    {POST "Content-Length: 0\r\n\r\n", "Content-Length=0;POST / 1.1;END"},
    {POST "Content-Length: 005 \r\n\r\nhello", "Content-Length=005;POST / 1.1;hello;END"},
    {POST "Content-Length: 18446744073709551621\r\n\r\nhello", "400"},
    {POST "Content-Length: +5\r\n\r\nhello", "400"},
    {POST "Content-Length: -5\r\n\r\nhello", "400"},
    {POST "Content-Length: 5,5\r\n\r\nhello", "400"},
    {POST "Content-Length: 0x5\r\n\r\nhello", "400"},
    {POST "Content-Length:\r\n\r\n", "400"},
    {POST "Content-Length: 1\r\n 4\r\n\r\n", "400"},
    {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "Content-Length=5;400"},
    /* the chunked coding */
    {CHUNKED "5\r\nhello\r\n0\r\n\r\nmore", CODED "hello;END"},
    {CHUNKED "00a\r\nhelloworld\r\n0\r\n\r\n", CODED "helloworld;END"},
    {CHUNKED "2\r\nhe\r\n3\r\nllo\r\n000\r\n\r\n", CODED "hello;END"},
    {CHUNKED "5  ;a=b\r\nhello\r\n0;c\r\n\r\n", CODED "hello;END"},
    {CHUNKED "5;a=\"b;\\\"c\"\r\nhello\r\n0\r\n\r\n", CODED "hello;END"},
    {CHUNKED "1\r\na\r\n0\r\nB: c\r\nD: e\r\n\r\n", CODED "a;+B=c;+D=e;END"},
    {POST "Transfer-Encoding: CHUNKED \r\n\r\n0\r\n\r\n",
     "Transfer-Encoding=CHUNKED;POST / 1.1;END"},
    {CHUNKED "\r\n", CODED "400"},
    {CHUNKED "g\r\n", CODED "400"},
    {CHUNKED " 5\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5\t\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5 5\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5\rhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5\r\nhello0\r\n\r\n", CODED "hello;400"},
    {CHUNKED "5\r\nhello\n0\r\n\r\n", CODED "hello;400"},
    {CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5;a=\"b\n\"\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5;a=\"b\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5;a=\"\\\"\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n", CODED "400"},
    {CHUNKED "0\r\n\rX", CODED "400"},
    {CHUNKED "0\r\nB : c\r\n\r\n", CODED "400"},
    /* two framings, and codings that are not known */
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
     "Transfer-Encoding=chunked;Content-Length=5;400"},
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
     "Content-Length=5;Transfer-Encoding=chunked;400"},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding=gzip, chunked;400"},
    {POST "Transfer-Encoding: chunked, gzip\r\n\r\n", "Transfer-Encoding=chunked, gzip;400"},
    {POST "Transfer-Encoding: chunked, chunked\r\n\r\n", "Transfer-Encoding=chunked, chunked;400"},
    {POST "Transfer-Encoding: identity\r\n\r\n", "Transfer-Encoding=identity;400"},
    {POST "Transfer-Encoding: chunked;q=1\r\n\r\n", "Transfer-Encoding=chunked;q=1;400"},
    {POST "Transfer-Encoding:\r\n\r\n", "Transfer-Encoding=;400"},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     "Transfer-Encoding=chunked;400"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding=chunked;400"},
    /* what is not whole yet */
    {"GET / HTT", ""},
    {GET "A: b\r\n", ""},
    {POST "Content-Length: 5\r\n\r\nhe", "Content-Length=5;POST / 1.1;he"},
    {CHUNKED "5;a=\"", CODED ""},
};

static void check(size_t index, size_t step) {
    http_trace trace;
    const char *bytes = cases[index].bytes;
    trace_request(bytes, strlen(bytes), step, MAX_HEAD_BYTES, &trace);
    const char *text = trace.text.data != NULL ? trace.text.data : "";
    if (strcmp(text, cases[index].expected) != 0)
        fail_msg("%s\nin steps of %zu: %s\nand not: %s", bytes, step, text, cases[index].expected);
    ln_strbuf_free(&trace.text);
}

static void gives_the_same_events_in_any_pieces(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 64; step = step < 4 ? step + 1 : step * 3)
            check(i, step);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(i, 1000);
}

static void leaves_what_follows(void **state) {
    (void)state;
    static const char *const requests[] = {GET "\r\n", POST "Content-Length: 2\r\n\r\nab",
                                           CHUNKED "1\r\na\r\n0\r\nB: c\r\n\r\n"};
    for (size_t i = 0; i < 3; i++) {
        char bytes[256];
        http_trace trace;
        int n_bytes = snprintf(bytes, sizeof bytes, "%s%s", requests[i], GET);
        trace_request(bytes, (size_t)n_bytes, 256, MAX_HEAD_BYTES, &trace);
        assert_int_equal(trace.n_used, strlen(requests[i]));
        ln_strbuf_free(&trace.text);
    }
}

/* A request of `n_bytes` of 'a' between two texts; returns the status, 0 when it is not refused. */
static int status_of(const char *before, size_t n_bytes, const char *after) {
    http_trace trace;
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_strbuf_puts(&bytes, before);
    for (size_t i = 0; i < n_bytes; i++)
        ln_strbuf_putc(&bytes, 'a');
    ln_strbuf_puts(&bytes, after);
    trace_request(bytes.data, bytes.len, 100, MAX_HEAD_BYTES, &trace);
    ln_strbuf_free(&trace.text);
    ln_strbuf_free(&bytes);
    return trace.status;
}

static void bounds_what_it_keeps(void **state) {
    (void)state;
    size_t room = MAX_HEAD_BYTES - strlen(GET "A: \r\n\r\n");
    assert_int_equal(status_of(GET "A: ", room, "\r\n\r\n"), 0);
    assert_int_equal(status_of(GET "A: ", room + 2, "\r\n\r\n"), 431);
    assert_int_equal(status_of(GET, MAX_HEAD_BYTES, ""), 431);
    assert_int_equal(status_of("GET /", MAX_HEAD_BYTES, ""), 431);
    size_t n_line = LN_HTTP_MAX_FRAMING_BYTES;
    assert_int_equal(status_of(CHUNKED "1;", n_line - 10, "\r\na\r\n0\r\n\r\n"), 0);
    assert_int_equal(status_of(CHUNKED "1;", n_line, ""), 431);
    assert_int_equal(status_of(CHUNKED "0\r\nB: ", n_line, ""), 431);
    assert_int_equal(status_of(CHUNKED "0\r\n", n_line + 1, ""), 431);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_same_events_in_any_pieces),
        cmocka_unit_test(leaves_what_follows),
        cmocka_unit_test(bounds_what_it_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
