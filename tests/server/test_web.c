/* The web page: who gets it, how it is cached, and that it refers to nothing outside. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "server/client.h"
#include "test.h"

#define HTML "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n"
#define GZIP "Accept-Encoding: gzip, deflate, br\r\n"

enum { MAX_FILES = 64, MAX_NAME = 64, MAX_TOTAL_GZIP_BYTES = 300000 };

static int start(void **state) {
    (void)state;
    shared = SERVER("--threads=1", "--max-seqs=2");
    return 0;
}

static void expect_header(const http_response *heard, const char *name, const char *value) {
    const char *found = response_header(heard, name);
    if (value == NULL) {
        assert_null(found);
        return;
    }
    if (found == NULL || strcmp(found, value) != 0)
        fail_msg("%s: %s and not %s", name, found != NULL ? found : "none", value);
}

/* A request with a Host of its own; status and error are what counts. */
static int status_of(const test_server *server, const char *line, const char *headers) {
    char request[1024];
    int fd = dial(server);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\n%s\r\n", line, headers);
    say_text(fd, request);
    http_response heard = hear(fd, false);
    hang_up(fd);
    int status = heard.status;
    response_free(&heard);
    return status;
}

/* ---- who gets it ------------------------------------------------------------------------ */

static void serves_browsers(void **state) {
    (void)state;
    static const char *const paths[] = {"/", "/status", "/status/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        http_response heard = ask(&shared, "GET", paths[i], HTML, NULL);
        assert_int_equal(heard.status, 200);
        assert_memory_equal(heard.body, "<!doctype html>", 15);
        expect_header(&heard, "Content-Type", "text/html; charset=utf-8");
        expect_header(&heard, "Cache-Control", "no-cache");
        expect_header(&heard, "X-Content-Type-Options", "nosniff");
        expect_header(&heard, "Referrer-Policy", "no-referrer");
        expect_header(&heard, "Cross-Origin-Resource-Policy", "same-origin");
        expect_header(&heard, "Access-Control-Allow-Origin", NULL);
        const char *policy = response_header(&heard, "Content-Security-Policy");
        assert_non_null(policy);
        assert_memory_equal(policy, "default-src 'none'; script-src 'self'; style-src 'self';", 56);
        assert_non_null(strstr(policy, "frame-ancestors 'none'"));
        assert_non_null(strstr(policy, "require-trusted-types-for 'script'"));
        assert_null(strstr(policy, "unsafe"));
        response_free(&heard);
    }
}

static void serves_programs(void **state) {
    (void)state;
    static const char *const headers[] = {"", "Accept: */*\r\n", "Accept: application/json\r\n"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        http_response heard = ask(&shared, "GET", "/", headers[i], NULL);
        assert_int_equal(heard.status, 200);
        expect_header(&heard, "Content-Type", "application/json");
        expect_header(&heard, "Vary", "Accept");
        assert_non_null(strstr(heard.body, "\"GET /status\""));
        response_free(&heard);
    }
    assert_int_equal(status_of(&shared, "GET /web/nothing.js", "Host: localhost\r\n"), 404);
    assert_int_equal(status_of(&shared, "GET /web/../README.md", "Host: localhost\r\n"), 404);
    assert_int_equal(status_of(&shared, "POST /web/chat.js", "Host: localhost\r\n"), 405);
}

static void can_be_left_out(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=2", "--no-web-page");
    http_response heard = ask(&server, "GET", "/", HTML, NULL);
    assert_int_equal(heard.status, 200);
    expect_header(&heard, "Content-Type", "application/json");
    expect_header(&heard, "Vary", NULL);
    assert_null(strstr(heard.body, "/status"));
    response_free(&heard);
    assert_int_equal(status_of(&server, "GET /status", "Host: localhost\r\n" HTML), 404);
    assert_int_equal(status_of(&server, "GET /web/chat.js", "Host: localhost\r\n"), 404);
    server_stop(&server);
}

/* The page's files hold no secret, so they ask for no key; what they call does. */
static void asks_for_keys(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=2", "--api-key=secret");
    static const struct {
        const char *line, *headers;
        int status;
    } cases[] = {
        {"GET /", HTML, 200},          {"GET /status", HTML, 200},
        {"GET /web/chat.js", "", 200}, {"GET /", "", 401},
        {"GET /metrics", HTML, 401},   {"GET /v1/models", "", 401},
        {"GET /web/nothing", "", 404}, {"GET /", "Authorization: Bearer secret\r\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char headers[512];
        client_context = cases[i].line;
        snprintf(headers, sizeof headers, "Host: any.example\r\n%s", cases[i].headers);
        assert_int_equal(status_of(&server, cases[i].line, headers), cases[i].status);
    }
    server_stop(&server);
}

/* DNS rebinding shows in the Host; the page's own requests have its origin. */
static void keeps_sites_out(void **state) {
    (void)state;
    static const struct {
        const char *line, *headers;
        int status;
    } cases[] = {
        {"GET /", "Host: site.example\r\n" HTML, 403},
        {"GET /status", "Host: site.example\r\n", 403},
        {"GET /web/chat.js", "Host: site.example\r\n", 403},
        {"GET /web/chat.js", "Host: 127.0.0.1\r\nOrigin: https://site.example\r\n", 403},
        {"GET /v1/models", "Host: 192.0.2.1:81\r\nOrigin: http://192.0.2.1:81\r\n", 200},
        {"GET /v1/models", "Host: 192.0.2.1:81\r\nOrigin: http://192.0.2.1:82\r\n", 403},
        {"GET /v1/models", "Host: 192.0.2.1:81\r\nOrigin: http://192.0.2.2:81\r\n", 403},
        {"GET /v1/models", "Host: [2001:db8::1]\r\nOrigin: http://[2001:db8::1]\r\n", 200},
        {"GET /v1/models", "Host: site.example\r\nOrigin: http://site.example\r\n", 403},
        {"GET /v1/models", "Host: \r\nOrigin: http://\r\n", 403},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        client_context = cases[i].headers;
        assert_int_equal(status_of(&shared, cases[i].line, cases[i].headers), cases[i].status);
    }
    client_context = "";
}

/* ---- caching and compression ------------------------------------------------------------ */

static void is_cached(void **state) {
    (void)state;
    char tag[128], headers[256];
    http_response heard = ask(&shared, "HEAD", "/", HTML, NULL);
    assert_int_equal(heard.status, 200);
    snprintf(tag, sizeof tag, "%s", response_header(&heard, "ETag"));
    response_free(&heard);
    const char *const known[] = {tag, "*", "\"other\"", "W/\"0\", "};
    const int statuses[] = {304, 304, 200, 304};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(headers, sizeof headers, HTML "If-None-Match: %s%s\r\n", known[i],
                 i == 3 ? tag : "");
        heard = ask(&shared, "GET", "/", headers, NULL);
        assert_int_equal(heard.status, statuses[i]);
        expect_header(&heard, "ETag", tag);
        if (heard.status == 304) {
            assert_int_equal(heard.body_bytes, 0);
            expect_header(&heard, "Content-Length", NULL);
        }
        response_free(&heard);
    }
    int fd = dial(&shared); /* the connection goes on behind a response without a body */
    snprintf(headers, sizeof headers,
             "GET /status HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n"
             "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    say_text(fd, headers);
    heard = hear(fd, false);
    assert_int_equal(heard.status, 304);
    response_free(&heard);
    heard = hear(fd, false);
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    hang_up(fd);
}

/* The bytes that a gzip file decodes to; NUL-terminated, malloc'd. */
static char *decode(const http_response *heard, size_t *n_bytes) {
    enum { MAX_BYTES = 1 << 20 };
    char *text = malloc(MAX_BYTES);
    assert_non_null(text);
    z_stream stream = {.next_in = (unsigned char *)heard->body,
                       .avail_in = (unsigned)heard->body_bytes,
                       .next_out = (unsigned char *)text,
                       .avail_out = MAX_BYTES - 1};
    assert_int_equal(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    *n_bytes = stream.total_out;
    text[*n_bytes] = '\0';
    inflateEnd(&stream);
    return text;
}

static void is_compressed(void **state) {
    (void)state;
    static const char *const refusals[] = {"", "Accept-Encoding: identity\r\n",
                                           "Accept-Encoding: gzip;q=0 , br\r\n",
                                           "Accept-Encoding: br;q=1, gzip;q=0.000\r\n"};
    http_response heard = ask(&shared, "GET", "/web/chat.js", GZIP, NULL);
    assert_int_equal(heard.status, 200);
    expect_header(&heard, "Content-Encoding", "gzip");
    expect_header(&heard, "Vary", "Accept, Accept-Encoding");
    size_t n_bytes;
    char *text = decode(&heard, &n_bytes);
    response_free(&heard);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        heard = ask(&shared, "GET", "/web/chat.js", refusals[i], NULL);
        assert_int_equal(heard.status, 200);
        expect_header(&heard, "Content-Encoding", NULL);
        assert_int_equal(heard.body_bytes, n_bytes);
        assert_memory_equal(heard.body, text, n_bytes);
        response_free(&heard);
    }
    heard = ask(&shared, "GET", "/web/chat.js", "Accept-Encoding: br, gzip;q=0.5\r\n", NULL);
    expect_header(&heard, "Content-Encoding", "gzip");
    response_free(&heard);
    free(text);
}

/* ---- what it holds ---------------------------------------------------------------------- */

typedef struct file_list {
    char names[MAX_FILES][MAX_NAME]; /* paths */
    size_t count;
} file_list;

static void add_file(file_list *list, const char *folder, const char *name, size_t n_bytes) {
    char path[MAX_NAME];
    assert_true(n_bytes < 40);
    snprintf(path, sizeof path, "%s%.*s", folder, (int)n_bytes, name);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], path) == 0)
            return;
    assert_true(list->count < MAX_FILES);
    memcpy(list->names[list->count++], path, sizeof path);
}

/* Adds what stands between a prefix and a quote. */
static void add_references(file_list *list, const char *text, const char *prefix) {
    for (const char *at = text; (at = strstr(at, prefix)) != NULL;) {
        at += strlen(prefix);
        add_file(list, "/web/", at, strcspn(at, "\"'"));
    }
}

/* No address but names of XML, nothing that runs within markup, nothing that makes markup of text.
 */
static void check_contents(const char *path, const char *text) {
    static const char w3[] = "http://www.w3.org/";
    static const char *const forbidden[] = {"innerHTML",
                                            "outerHTML",
                                            "insertAdjacentHTML",
                                            "document.write",
                                            "eval(",
                                            "new Function",
                                            "\"//",
                                            "'//",
                                            "url(",
                                            "@import",
                                            "createContextualFragment",
                                            " style=\"",
                                            " onclick=\"",
                                            " onload=\"",
                                            "<script>",
                                            "<style"};
    for (const char *at = text; (at = strstr(at, "://")) != NULL; at++)
        if (at - text < 4 || strncmp(at - 4, w3, sizeof w3 - 1) != 0)
            fail_msg("%s refers to elsewhere: %.60s", path, at - 8 > text ? at - 8 : text);
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (strstr(text, forbidden[i]) != NULL)
            fail_msg("%s has %s", path, forbidden[i]);
}

static void refers_to_nothing_outside(void **state) {
    (void)state;
    file_list list = {.count = 0};
    size_t total = 0;
    add_file(&list, "/web/", "index.html", 10);
    add_file(&list, "/web/", "status.html", 11);
    for (size_t i = 0; i < list.count; i++) {
        size_t n_bytes;
        http_response heard = ask(&shared, "GET", list.names[i], GZIP, NULL);
        if (heard.status != 200)
            fail_msg("%s: status %d", list.names[i], heard.status);
        total += heard.body_bytes;
        char *text = decode(&heard, &n_bytes);
        check_contents(list.names[i], text);
        add_references(&list, text, "\"/web/");
        add_references(&list, text, "from './");
        free(text);
        response_free(&heard);
    }
    assert_true(list.count >= 20);
    print_message("%zu files, %zu bytes compressed\n", list.count, total);
    assert_true(total <= MAX_TOTAL_GZIP_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_browsers), cmocka_unit_test(serves_programs),
        cmocka_unit_test(can_be_left_out), cmocka_unit_test(asks_for_keys),
        cmocka_unit_test(keeps_sites_out), cmocka_unit_test(is_cached),
        cmocka_unit_test(is_compressed),   cmocka_unit_test(refers_to_nothing_outside),
    };
    return cmocka_run_group_tests(tests, start, shared_stop);
}
